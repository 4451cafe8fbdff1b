package delivery

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/rendition"
	"mediastack.dev/runtime/settings"
)

// maker makes the picture of a recipe: its text is the recipe. It fails as a test says.
type maker struct {
	made, lost int
	released   int // results
	fail       map[settings.Format]error
	unstored   bool
	asked      []rendition.Request
}

// Get makes a picture.
func (m *maker) Get(_ context.Context, item media.Item, _ media.Owner, request rendition.Request) (rendition.Result, error) {
	m.asked = append(m.asked, request)
	if err := m.fail[request.Recipe.Format]; err != nil {
		return rendition.Result{}, err
	}
	m.made++
	key := request.Recipe.Key(item.Objects[0].SHA256, 1)
	data := []byte(key.String())
	result := rendition.Result{Object: media.Object{Key: "rendition", Bytes: int64(len(data)), MimeType: "image/" + strings.Replace(string(request.Recipe.Format), "auto", "jpeg", 1), SHA256: key[:]}, Width: 1, Height: 1}
	if result.Data = data; m.unstored {
		result.Object.Key = ""
	}
	return result.WithRelease(func() { m.released++ }), nil
}

// Lost makes it again.
func (m *maker) Lost(ctx context.Context, item media.Item, owner media.Owner, request rendition.Request, _ rendition.Result) (rendition.Result, error) {
	m.lost++
	return m.Get(ctx, item, owner, request)
}

// Nearest finds nothing: nothing is stored.
func (m *maker) Nearest(context.Context, media.Item, int, int) (rendition.Result, string, error) {
	return rendition.Result{}, "", fault.New(fault.NotFound, "nothing is stored")
}

// Handles reports whether the file is an image.
func (m *maker) Handles(mimeType string, _ int64) bool { return strings.HasPrefix(mimeType, "image/") }

// layersOf are the settings of every account.
type layersOf settings.Layers

// Get returns them.
func (l layersOf) Get(context.Context, uuid.UUID) (settings.Layers, error) {
	return settings.Layers(l), nil
}

func imageItem() media.Item {
	item := publicItem(10)
	item.Objects[0].MimeType, item.FileName, item.Facts = "image/png", "photo.png", media.Facts{Width: 4000, Height: 3000}
	return item
}

func withPictures(d *Delivery, m *maker, layers settings.Layers) http.Handler {
	d.renditions, d.images, d.settings = m, m, layersOf(layers)
	router := chi.NewRouter()
	d.Mount(router)
	return router
}

func tenant(presets ...settings.Preset) settings.Layers {
	return settings.Layers{Tenant: settings.Layer{Pictures: settings.Pictures{Presets: &presets}}}
}

func ask(handler http.Handler, method, variant string, headers ...string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(method, "/media/file/"+uuid.UUID{5}.String()+"/"+variant+"/photo", nil)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	return recorder
}

// presigned is a Presigner of a store that answers nobody.
type presigned struct{ err error }

// Presign returns a URL.
func (p presigned) Presign(_ context.Context, _, _, key string, _ time.Duration, _ map[string]string) (string, error) {
	return "http://store.test/" + key, p.err
}

// none has no item.
type none struct{}

// ForDelivery finds nothing.
func (none) ForDelivery(context.Context, uuid.UUID) (media.Item, media.Owner, error) {
	return media.Item{}, media.Owner{}, fault.New(fault.NotFound, "no such item")
}
