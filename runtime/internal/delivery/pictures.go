package delivery

import (
	"context"
	"errors"
	"net/http"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/rendition"
	"mediastack.dev/runtime/settings"
)

// makePicture makes the picture that an authorized client asks for the file that is sent. It is made also for HEAD, whose
// answer has its length and its ETag.
func (d *Delivery) makePicture(r *http.Request, file *resolvedFile) error {
	formats := file.picture.formats
	if file.picture.negotiated {
		formats = negotiate(r.Header.Values("Accept"), formats)
	}
	err := errFileNotFound
	for _, format := range formats {
		request := file.picture.request(file.item, format)
		if facts := file.item.Facts; facts.HasSize() && !request.Recipe.Offered(facts.Width, facts.Height) {
			continue
		}
		var result rendition.Result
		result, err = d.renditions.Get(r.Context(), file.item, file.owner, request)
		if errors.Is(err, media.ErrNotOffered) {
			err = fault.Wrap(err, fault.NotFound, "file not found")
			continue
		}
		if errors.Is(err, media.ErrOtherFormat) {
			continue // the client accepts the others, too
		}
		if err == nil {
			file.setRendition(request, result)
		}
		return d.orDeleted(r.Context(), file.item, err)
	}
	return err
}

// Derivatives makes the derivatives of items after their uploads. upload.Derivatives implements it.
type Derivatives interface {
	MakeNow(ctx context.Context, item media.Item, admit func() error) error
}

// makeThumbnail makes a thumbnail that is to be made, for an authorized client, and returns it. It is limited as the pictures of presets are.
func (d *Delivery) makeThumbnail(w http.ResponseWriter, r *http.Request, file resolvedFile) (resolvedFile, error) {
	limit := d.newPictureLimit(w, r)
	admit := limit.admit
	if !file.public && showsImage(r) {
		admit = limit.count
	}
	err := d.derivatives.MakeNow(r.Context(), file.item, admit)
	limit.show(w.Header())
	if err != nil {
		return file, err
	}
	made, err := d.resolveFileOf(r, d.current) // the item may have been deleted meanwhile
	if err == nil && made.pending {
		err = fault.New(fault.Unavailable, "the thumbnail could not be made now")
	}
	return made, err
}

// setRendition makes a rendition the file that is sent.
func (f *resolvedFile) setRendition(request rendition.Request, result rendition.Result) {
	f.request, f.result = request, result
	f.object, f.data = result.Object, result.Data
	f.object.Variant = f.variant
}

// findAgain replaces the rendition of a file whose object the object store does not have, and reports whether it did.
func (d *Delivery) findAgain(r *http.Request, file *resolvedFile) (bool, error) {
	if file.picture == nil || file.again {
		return false, nil
	}
	result, err := d.renditions.Lost(r.Context(), file.item, file.owner, file.request, file.result)
	if err == nil {
		file.again = true
		file.setRendition(file.request, result)
	}
	return err == nil, d.orDeleted(r.Context(), file.item, err)
}

// PictureURL returns the URL of a picture of an item: that of a preset at a density, with its format as a suffix unless
// that is empty. It is signed and expires unless the item is public.
func (u *URLs) PictureURL(item media.Item, preset string, density int, format settings.Format) string {
	a := address{preset: preset, density: density, format: format}
	return u.url(item, a.variant(), item.FileName, media.Object{}, item.Access == media.Public && !item.Draft())
}
