package rendition

import (
	"context"
	"fmt"
	"io"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
)

// ViewSize is the size of a picture for a model that looks at an image.
type ViewSize string

// The sizes.
const (
	ViewSmall ViewSize = "small"
	ViewLarge ViewSize = "large"
)

// ViewSizes returns all sizes, the default first.
func ViewSizes() []ViewSize { return []ViewSize{ViewSmall, ViewLarge} }

// viewBounds bound a picture in pixels of its longer side, and in bytes. Hosts of assistants limit the characters of a result, of which base64
// has four for three bytes, and models count patches of 28 x 28 pixels: 37 x 37 for the large one.
var viewBounds = map[ViewSize]struct{ side, bytes int }{
	ViewSmall: {512, 48 << 10},
	ViewLarge: {1024, 200 << 10},
}

// viewQuality is the quality of a view that has room for it.
const viewQuality = 80

// ViewGround is what is below transparent parts: a gray on which both black and white show.
var ViewGround = [3]byte{128, 128, 128}

// Bounds returns the most pixels of a side, and the most bytes, of a picture of this size; zero of a size that is none.
func (s ViewSize) Bounds() (side, bytes int) { return viewBounds[s].side, viewBounds[s].bytes }

// viewPresets are the names that renditions of views have in the database. No preset can have such a name: no address names one.
var viewPresets = map[ViewSize]string{ViewSmall: "_view-small", ViewLarge: "_view-large"}

// Internal returns the names of the renditions that no preset of an account makes. They are for callers of the service only: no address has
// one, and none is sent in the place of another picture.
func Internal() []string { return []string{viewPresets[ViewSmall], viewPresets[ViewLarge]} }

// request returns the request for the picture of a size.
func (s ViewSize) request() Request {
	side, bytes := s.Bounds()
	return Request{Preset: viewPresets[s], Recipe: media.Recipe{
		Width: side, Height: side, Fit: settings.Inside, Focus: settings.Centre, Format: settings.FormatJPEG, Quality: viewQuality, Background: ViewGround, MaxBytes: bytes,
	}}
}

// View is a JPEG of an image for a model: upright, of its first frame, in sRGB, opaque, and without metadata.
type View struct {
	Data          []byte
	Width, Height int
}

// View returns a picture of an item, of which the caller has checked the access. It is a rendition as any other one: it is made once by all
// replicas, counts as renditions do, and ends with its item, or to make room. Its faults are those of Get; Invalid for a size that is none, and media.ErrNotChecked.
func (s *Service) View(ctx context.Context, item media.Item, owner media.Owner, size ViewSize) (View, error) {
	if _, known := viewBounds[size]; !known {
		return View{}, fault.New(fault.Invalid, "size must be %s or %s", ViewSmall, ViewLarge)
	}
	if err := item.Readable(); err != nil {
		return View{}, err
	}
	request := size.request()
	found, err := s.Get(ctx, item, owner, request)
	if err != nil {
		return View{}, err
	}
	defer found.Release()
	view, err := s.readView(ctx, owner, found)
	if !fault.Is(err, fault.NotFound) {
		return view, err
	}
	again, err := s.Lost(ctx, item, owner, request, found)
	if err != nil {
		return View{}, err
	}
	defer again.Release()
	return s.readView(ctx, owner, again)
}

// readView returns the view of a result that is not released yet. NotFound if its object is missing.
func (s *Service) readView(ctx context.Context, owner media.Owner, of Result) (View, error) {
	if of.Data != nil {
		return View{append([]byte(nil), of.Data...), of.Width, of.Height}, nil
	}
	body, err := s.maker.Objects.Open(ctx, owner.Bucket, of.Object.Key, 0, of.Object.Bytes)
	if err != nil {
		return View{}, bucketMissing(err)
	}
	defer func() { _ = body.Close() }()
	data := make([]byte, of.Object.Bytes)
	if _, err := io.ReadFull(body, data); err != nil {
		return View{}, fault.Wrap(fmt.Errorf("read a view: %w", err), fault.Unavailable, "the picture cannot be read now")
	}
	return View{data, of.Width, of.Height}, nil
}
