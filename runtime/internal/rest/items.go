package rest

import (
	"net/http"

	"github.com/google/uuid"

	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/media"
)

// GetMedia answers GET /media/get/{mediaId}.
func (a *API) GetMedia(w http.ResponseWriter, r *http.Request, id api.MediaID, params api.GetMediaParams) {
	fields, err := api.ParseSelection(deref(params.Fields))
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	item, err := a.deps.Items.Get(r.Context(), principal(r), id)
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	document, err := a.documents(r).Selected(item, fields)
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	w.Header().Set("ETag", etag(item))
	httpapi.WriteJSON(w, r, http.StatusOK, api.SelectedItem{Item: &document, Fields: fields})
}

// documents returns the documents of the account's items.
func (a *API) documents(r *http.Request) api.AccountDocuments {
	return a.deps.Documents.Of(r.Context(), principal(r).Account.ID)
}

// writeItem answers with the document of an item and its ETag.
func (a *API) writeItem(w http.ResponseWriter, r *http.Request, status int, item media.Item) {
	w.Header().Set("ETag", etag(item))
	httpapi.WriteJSON(w, r, status, new(a.documents(r).Item(item)))
}

// GetMediaByPost answers POST /media/get/{mediaId}.
func (a *API) GetMediaByPost(w http.ResponseWriter, r *http.Request, id api.MediaID, params api.GetMediaByPostParams) {
	if err := readNoFields(w, r); err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	a.GetMedia(w, r, id, api.GetMediaParams(params))
}

// SealMedia answers POST /media/seal/{mediaId}.
func (a *API) SealMedia(w http.ResponseWriter, r *http.Request, id api.MediaID) {
	if err := readUnconditional(w, r); err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	item, err := a.deps.Media.Seal(r.Context(), principal(r), id)
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	a.writeItem(w, r, sealStatus(item), item)
}

// sealStatus returns the status of a seal: that of a draft whose file is still to be checked is recorded, and happens later.
func sealStatus(item media.Item) int {
	if item.Draft() {
		return http.StatusAccepted
	}
	return http.StatusOK
}

// DeleteMedia answers DELETE /media/delete/{mediaId}.
func (a *API) DeleteMedia(w http.ResponseWriter, r *http.Request, id api.MediaID, params api.DeleteMediaParams) {
	if err := rejectCondition(r); err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	identity := auth.FromContext(r.Context())
	expires, err := a.deps.Media.Delete(r.Context(), identity.Principal, id, media.DeleteOptions{Agent: identity.GrantID != uuid.Nil, Permanent: deref(params.Permanent)})
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	httpapi.WriteJSON(w, r, http.StatusOK, new(a.deps.Documents.DeletedAnswer(id, expires)))
}

// CreateSignature answers POST /media/signature/create.
func (a *API) CreateSignature(w http.ResponseWriter, r *http.Request) {
	var body api.SignatureRequest
	if err := readJSON(w, r, &body); err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	signature, expires, err := a.deps.Auth.Issue(r.Context(), auth.FromContext(r.Context()), body)
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	httpapi.WriteJSON(w, r, http.StatusOK, api.NewSignature(a.base, signature, expires))
}
