package rest

import (
	"net/http"

	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/rest/multipartform"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/upload"
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
	httpapi.WriteJSON(w, r, http.StatusCreated, new(a.documents(r).Item(item)))
}

func (a *API) receive(w http.ResponseWriter, r *http.Request) (media.Item, error) {
	identity := auth.FromContext(r.Context())
	return multipartform.Receive(w, r, func(minSize int64) (*upload.Single, error) {
		single, err := a.deps.Uploads.BeginWith(r.Context(), identity.Principal, identity.Capability, minSize)
		if err != nil {
			return nil, err
		}
		if keyID, check, left := a.deps.Auth.LeaveToCommit(w, r); left {
			single.CheckAtCommit(keyID, check)
		}
		return single, nil
	}, func(fields media.Fields) (media.Fields, error) {
		return fields.BindGroup(auth.FromContext(r.Context()).Group), nil // as the last check found it
	})
}
