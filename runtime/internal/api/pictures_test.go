package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
)

var must = check.NoError

// shortURLs are URLs that a test can read.
type shortURLs struct{}

// URL names the variant, and the setting originals.
func (shortURLs) URL(_ media.Item, object media.Object, originals settings.Originals) string {
	return string(object.Variant) + "/" + string(originals)
}

// FileURL names the variant of the file's address, and the setting originals.
func (shortURLs) FileURL(item media.Item, originals settings.Originals) string {
	return string(item.FileVariant()) + "/" + string(originals)
}

// PictureURL names the preset and the density.
func (shortURLs) PictureURL(_ media.Item, preset string, density int, format settings.Format) string {
	return fmt.Sprintf("%s@%d%s", preset, density, format)
}

// fixedSettings are the settings of every account, or an error.
type fixedSettings struct {
	layers settings.Layers
	err    error
}

// Get returns them.
func (f fixedSettings) Get(context.Context, uuid.UUID) (settings.Layers, error) {
	return f.layers, f.err
}

// imagesOnly handles images.
type imagesOnly struct{}

// Handles reports whether the file is an image.
func (imagesOnly) Handles(mimeType string, _ int64) bool { return mimeType == "image/png" }

func layersWith(presets ...settings.Preset) fixedSettings {
	return fixedSettings{layers: settings.Layers{Tenant: settings.Layer{Pictures: settings.Pictures{Presets: &presets}}}}
}

func imageItem(width, height int) media.Item {
	sealed := time.Unix(1, 0)
	return media.Item{Access: media.Public, SealedAt: &sealed, Facts: media.Facts{Width: width, Height: height},
		Objects: media.Objects{{Variant: media.Original, MimeType: "image/png", Bytes: 10}}}
}

func TestSelected_ListsThePicturesOfPresetsOnRequest(t *testing.T) {
	t.Parallel()
	presets := layersWith(
		settings.Preset{Name: "hero", Width: 1000, Densities: []int{1, 2, 3}},
		settings.Preset{Name: "avatar", Width: 100, Height: 100, Fit: settings.Cover, Format: settings.FormatWebP},
		settings.Preset{Name: "huge", Width: 4096, Format: settings.FormatAVIF},
	)
	documents := api.Documents{URLs: shortURLs{}, Settings: presets, Images: imagesOnly{}}.Of(t.Context(), uuid.New())
	fields, err := api.ParseSelection("presets")
	must(t, err)
	for name, c := range map[string]struct {
		item media.Item
		want string
	}{
		"an image": {imageItem(2500, 2000), `{"presets":{` +
			`"avatar":{"url":"avatar@1","width":100,"height":100,"densities":[{"density":1,"url":"avatar@1","width":100,"height":100}],"srcset":"avatar@1 1x"},` +
			`"hero":{"url":"hero@1","width":1000,"height":800,"densities":[{"density":1,"url":"hero@1","width":1000,"height":800},` +
			`{"density":2,"url":"hero@2","width":2000,"height":1600},{"density":3,"url":"hero@3","width":2500,"height":2000}],"srcset":"hero@1 1x, hero@2 2x, hero@3 3x"}}}`},
		"an image too small for higher densities": {imageItem(500, 400), `{"presets":{` +
			`"avatar":{"url":"avatar@1","width":100,"height":100,"densities":[{"density":1,"url":"avatar@1","width":100,"height":100}],"srcset":"avatar@1 1x"},` +
			`"hero":{"url":"hero@1","width":500,"height":400,"densities":[{"density":1,"url":"hero@1","width":500,"height":400}],"srcset":"hero@1 1x"},` +
			`"huge":{"url":"huge@1","width":500,"height":400,"densities":[{"density":1,"url":"huge@1","width":500,"height":400}],"srcset":"huge@1 1x"}}}`},
		"an image whose size is not known": {imageItem(0, 0), `{"presets":{` +
			`"avatar":{"url":"avatar@1","densities":[{"density":1,"url":"avatar@1"}],"srcset":"avatar@1 1x"},` +
			`"hero":{"url":"hero@1","densities":[{"density":1,"url":"hero@1"},{"density":2,"url":"hero@2"},{"density":3,"url":"hero@3"}],"srcset":"hero@1 1x, hero@2 2x, hero@3 3x"},` +
			`"huge":{"url":"huge@1","densities":[{"density":1,"url":"huge@1"}],"srcset":"huge@1 1x"}}}`},
	} {
		document, err := documents.Selected(c.item, fields)
		must(t, err)
		got := string(api.SelectedItem{Item: &document, Fields: fields}.AppendJSON(nil))
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		encoded, err := json.Marshal(map[string]any{"presets": document.Presets})
		if err != nil || string(encoded) != got {
			t.Errorf("%s: encoding/json has %s, %v", name, encoded, err)
		}
	}
	pdf := imageItem(0, 0)
	pdf.Objects[0].MimeType = "application/pdf"
	document, err := documents.Selected(pdf, fields)
	if got := string(api.SelectedItem{Item: &document, Fields: fields}.AppendJSON(nil)); err != nil || got != `{"presets":{}}` {
		t.Errorf("no image: %s, %v", got, err)
	}
	all, err := api.ParseSelection("")
	must(t, err)
	if document, err = documents.Selected(imageItem(1, 1), all); err != nil || document.Presets != nil {
		t.Errorf("without a request: %+v, %v", document.Presets, err)
	}
}

// A URL of an original that is signed is valid whatever the settings are.
func TestOf_SignsOriginalsWhileTheSettingsCannotBeRead(t *testing.T) {
	t.Parallel()
	down := fixedSettings{err: fault.New(fault.Unavailable, "down")}
	documents := api.Documents{URLs: shortURLs{}, Settings: down, Images: imagesOnly{}}.Of(t.Context(), uuid.New())
	if got := documents.Item(imageItem(1, 1)).File; got != "original/signed" {
		t.Errorf("the file is %s", got)
	}
	fields, err := api.ParseSelection("mediaId,presets")
	must(t, err)
	if _, err := documents.Selected(imageItem(1, 1), fields); !fault.Is(err, fault.Unavailable) {
		t.Errorf("the presets that are not known: %v", err)
	}
	if got := (api.Documents{URLs: shortURLs{}, Settings: layersWith()}).Of(t.Context(), uuid.New()).Item(imageItem(1, 1)).File; got != "original/public" {
		t.Errorf("by default the file is %s", got)
	}
}

// The document of an account for which nobody has declared presets is what it was before there were any.
func TestNewSettings_HasPicturesOnlyWhereTheyAreSet(t *testing.T) {
	t.Parallel()
	const plain = `{"useWebP":false,"webpOutputQuality":80,"thumbnailWidth":320,"thumbnailHeight":320,"sources":{"useWebP":"default","webpOutputQuality":"default","thumbnailWidth":"default","thumbnailHeight":"default"}}`
	set := layersWith(settings.Preset{Name: "hero", Width: 10}).layers
	set.Pinned.Originals, set.PinnedBy = settings.OriginalsSigned, "team-a/site"
	for name, c := range map[string]struct {
		document api.Settings
		want     string
	}{
		"nothing set":           {api.NewSettings(settings.Layers{}), plain},
		"the tools":             {api.NewToolSettings(set), plain},
		"presets and originals": {api.NewSettings(set), `{"useWebP":false,"webpOutputQuality":80,"thumbnailWidth":320,"thumbnailHeight":320,"presets":[{"name":"hero","width":10,"fit":"inside","format":"auto","densities":[1],"background":"#ffffff","source":"tenant"}],"originals":"signed","sources":{"useWebP":"default","webpOutputQuality":"default","thumbnailWidth":"default","thumbnailHeight":"default","originals":"pinned"},"pinnedBy":"team-a/site"}`},
	} {
		text, err := json.Marshal(c.document)
		must(t, err)
		if diff := cmp.Diff(c.want, string(text)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
