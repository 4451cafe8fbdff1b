package delivery

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/rendition"
	"mediastack.dev/runtime/settings"
)

// Settings returns the settings of an account. It may be a cache.
type Settings interface {
	Get(ctx context.Context, accountID uuid.UUID) (settings.Layers, error)
}

// Renditions makes and finds the pictures of presets. rendition.Service implements it.
type Renditions interface {
	Get(ctx context.Context, item media.Item, owner media.Owner, request rendition.Request) (rendition.Result, error)
	Lost(ctx context.Context, item media.Item, owner media.Owner, request rendition.Request, lost rendition.Result) (rendition.Result, error)
	Nearest(ctx context.Context, item media.Item, width, height int) (found rendition.Result, preset string, err error)
}

// Images says which files presets make pictures of. media.Renderer implements it.
type Images interface {
	Handles(mimeType string, bytes int64) bool
}

// address is what the variant of a URL asks for, if that is no object of the item: a preset, and what
// follows its name.
type address struct {
	preset  string
	density int
	format  settings.Format // empty without a suffix
}

// densityTexts are the densities of an address, as they follow the name of a preset. Density 1 has no text: a picture has
// one address.
var densityTexts = [...]string{2: "@2x", 3: "@3x"}

// variantOf returns the variant that the path of a request names; false for one with an escape that is malformed. Some clients
// and caches write @ as %40. The router matches the path as it was sent if that is another one than this server would
// write, so that the segment is escaped exactly then: it is never unescaped twice.
func variantOf(r *http.Request) (media.Variant, bool) {
	segment := chi.URLParam(r, "variant")
	if r.URL.RawPath == "" {
		return media.Variant(segment), true
	}
	segment, err := url.PathUnescape(segment)
	return media.Variant(segment), err == nil
}

// parseAddress reads {preset}[@2x][.avif]. The formats are those of settings.Formats, without auto.
func parseAddress(variant media.Variant) (address, bool) {
	rest, suffix, hasSuffix := strings.Cut(string(variant), ".")
	a := address{density: 1}
	if hasSuffix {
		if a.format = settings.Format(suffix); a.format == settings.FormatAuto || !slices.Contains(settings.Formats, a.format) {
			return address{}, false
		}
	}
	var found bool
	if a.preset, suffix, found = strings.Cut(rest, "@"); found {
		if a.density = slices.Index(densityTexts[:], "@"+suffix); a.density < 2 {
			return address{}, false
		}
	}
	return a, a.preset != "" && a.preset != string(media.Shown) && !slices.Contains(settings.ReservedPresetNames, a.preset)
}

// variant returns the text of the address.
func (a address) variant() media.Variant {
	text := a.preset + densityTexts[a.density]
	if a.format != "" {
		text += "." + string(a.format)
	}
	return media.Variant(text)
}

// picture is what an address of an item asks for, and a preset of its account allows.
type picture struct {
	preset  settings.Preset
	density int
	// formats are those that may be sent, in the order of preference. negotiated is set when Accept decides.
	formats    []settings.Format
	negotiated bool
	// admit is rendition.Request.Admit.
	admit func() error
}

// find returns the picture of an address, if a preset of the layers allows it and the item is an image.
func (a address) find(layers settings.Layers, images Images, item media.Item) (picture, bool) {
	preset, ok := layers.Preset(a.preset)
	if !ok || !slices.Contains(preset.Densities, a.density) || !isImage(images, item) {
		return picture{}, false
	}
	p := picture{preset: preset, density: a.density}
	if a.format != "" {
		p.formats = []settings.Format{a.format}
		return p, slices.Contains(media.SuffixFormats(preset), a.format)
	}
	p.formats = media.NegotiatedFormats(preset)
	p.negotiated = len(p.formats) > 1
	return p, true
}

// isImage reports whether pictures can be made of an item, as far as its type and its size tell. images is nil if
// none can be made at all.
func isImage(images Images, item media.Item) bool {
	if images == nil {
		return false
	}
	original, ok := item.Objects.Find(media.Original)
	return ok && images.Handles(original.MimeType, original.Bytes)
}

// request returns what the rendition of the picture in a format is asked for by.
func (p picture) request(item media.Item, format settings.Format) rendition.Request {
	return rendition.Request{Preset: p.preset.Name, Recipe: media.RecipeOf(p.preset, p.density, format, item.Focus), Admit: p.admit}
}
