package rest

import (
	"net/http"
	"time"

	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/fault"
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
	httpapi.WriteJSON(w, r, http.StatusCreated, api.NewMediaItem(item, a.deps.URLs))
}

func (a *API) receive(w http.ResponseWriter, r *http.Request) (media.Item, error) {
	form, err := newForm(r)
	if err != nil {
		return media.Item{}, err
	}
	defer form.close()
	grant := auth.FromContext(r.Context())
	upload, err := a.deps.Media.Begin(r.Context(), grant.Principal, form.fileAtLeast(r.ContentLength))
	if err != nil {
		return media.Item{}, unstored(err)
	}
	defer upload.Close(r.Context())
	control := http.NewResponseController(w)
	upload.OnSlow(func(error) { _ = control.SetReadDeadline(time.Now()) }) // a transport without deadlines has none
	if err := form.read(r.Context(), upload); err != nil {
		return media.Item{}, unstored(err)
	}
	if grant.Group != "" {
		form.fields.Group = grant.Group
	}
	item, err := upload.Commit(r.Context(), form.fields)
	return item, unstored(err)
}

// unstored explains a thing that is missing while a file is stored: not the client's
// mistake, but a bucket that is being made again, or an upload that took so long that
// the purge gave it up.
func unstored(err error) error {
	if fault.Is(err, fault.NotFound) {
		return fault.Wrap(err, fault.Unavailable, "the file could not be stored: try again")
	}
	return err
}
