package rest

import (
	"net/http"
	"time"

	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/rest/multipartform"
	"mediastack.dev/runtime/media"
)

// CreateMedia answers POST /media/create. The file is sent to the object store while it arrives.
// The body is not read before the upload has a slot and may fit into the account. The draft is
// created only if the credential is still valid at the end of the body.
func (a *API) CreateMedia(w http.ResponseWriter, r *http.Request) {
	item, err := a.receive(w, r)
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	w.Header().Set("Location", a.itemURL(item.ID))
	httpapi.WriteJSON(w, r, http.StatusCreated, new(a.deps.Documents.Item(item)))
}

func (a *API) receive(w http.ResponseWriter, r *http.Request) (media.Item, error) {
	form, err := multipartform.New(r)
	if err != nil {
		return media.Item{}, err
	}
	defer form.Close()
	upload, err := a.deps.Media.Begin(r.Context(), principal(r), multipartform.MinFileSize(r.ContentLength))
	if err != nil {
		return media.Item{}, err
	}
	defer upload.Close(r.Context())
	control := http.NewResponseController(w)
	upload.OnSlow(func(error) { _ = control.SetReadDeadline(time.Now()) }) // a transport without deadlines has none
	fields, err := form.Read(r.Context(), upload)
	if err != nil {
		return media.Item{}, err
	}
	return upload.Commit(r.Context(), fields.BindGroup(auth.FromContext(r.Context()).Group))
}
