package rest

import (
	"net/http"
	"time"

	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/media"
)

// CreateMedia answers POST /media/create. The file goes to the object store while it
// arrives; nothing is read before the upload has a place and could fit, and it becomes a
// draft only if the credential is still good then.
func (a *API) CreateMedia(w http.ResponseWriter, r *http.Request) {
	item, err := a.receive(w, r)
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	w.Header().Set("Location", a.location(item.ID))
	httpapi.WriteJSON(w, r, http.StatusCreated, a.Documents.Document(item))
}

func (a *API) receive(w http.ResponseWriter, r *http.Request) (media.Item, error) {
	form, err := newForm(r)
	if err != nil {
		return media.Item{}, err
	}
	defer form.close()
	grant := auth.FromContext(r.Context())
	upload, err := a.Media.Begin(r.Context(), grant.Principal, form.fileAtLeast(r.ContentLength))
	if err != nil {
		return media.Item{}, err
	}
	defer upload.Close(r.Context())
	control := http.NewResponseController(w)
	upload.OnSlow(func(error) { _ = control.SetReadDeadline(time.Now()) }) // a transport without deadlines has none
	if err := form.read(r.Context(), upload); err != nil {
		return media.Item{}, err
	}
	if grant.Group != "" {
		form.fields.Group = grant.Group
	}
	return upload.Commit(r.Context(), form.fields)
}
