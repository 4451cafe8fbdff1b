package rest

import (
	"net/http"

	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/media"
)

// GetMedia answers GET /media/get/{mediaId}.
func (a *API) GetMedia(w http.ResponseWriter, r *http.Request, id api.MediaID) {
	item, err := a.deps.Media.Get(r.Context(), principal(r), id)
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	httpapi.WriteJSON(w, r, http.StatusOK, new(a.deps.Documents.Item(item)))
}

// GetMediaByPost answers POST /media/get/{mediaId}.
func (a *API) GetMediaByPost(w http.ResponseWriter, r *http.Request, id api.MediaID) {
	if err := readNoFields(w, r); err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	a.GetMedia(w, r, id)
}

// SealMedia answers POST /media/seal/{mediaId}.
func (a *API) SealMedia(w http.ResponseWriter, r *http.Request, id api.MediaID) {
	if err := readNoFields(w, r); err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	item, err := a.deps.Media.Seal(r.Context(), principal(r), id)
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	httpapi.WriteJSON(w, r, http.StatusOK, new(a.deps.Documents.Item(item)))
}

// DeleteMedia answers DELETE /media/delete/{mediaId}.
func (a *API) DeleteMedia(w http.ResponseWriter, r *http.Request, id api.MediaID) {
	if err := a.deps.Media.Delete(r.Context(), principal(r), id); err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	httpapi.WriteJSON(w, r, http.StatusOK, api.Deleted{Deleted: true, MediaId: id})
}

// TotalStorage answers GET /media/get/size.
func (a *API) TotalStorage(w http.ResponseWriter, r *http.Request) {
	totals, err := a.deps.Media.Totals(r.Context(), principal(r))
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	httpapi.WriteJSON(w, r, http.StatusOK, api.Totals{Storage: totals.Storage, MaxStorage: totals.MaxStorage})
}

// TotalStorageByPost answers POST /media/get/size.
func (a *API) TotalStorageByPost(w http.ResponseWriter, r *http.Request) {
	if err := readNoFields(w, r); err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	a.TotalStorage(w, r)
}

// CreateSignature answers POST /media/signature/create.
func (a *API) CreateSignature(w http.ResponseWriter, r *http.Request) {
	var body api.SignatureRequest
	if err := readJSON(w, r, &body); err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	group := deref(body.Group)
	if err := media.CheckGroup(group); err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	signature := a.deps.Auth.Sign(auth.FromContext(r.Context()), group)
	httpapi.WriteJSON(w, r, http.StatusOK, api.Signature{Signature: signature})
}
