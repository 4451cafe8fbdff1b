package rest

import (
	"net/http"
	"net/url"
	"strconv"

	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/media"
)

// ListDeletedMedia answers GET /media/deleted.
func (a *API) ListDeletedMedia(w http.ResponseWriter, r *http.Request, params api.ListDeletedMediaParams) {
	number, limit := media.DefaultPage, media.DefaultLimit
	if params.Page != nil {
		number = *params.Page
	}
	if params.Limit != nil {
		limit = *params.Limit
	}
	page, err := a.deps.Media.ListDeleted(r.Context(), principal(r), number, limit)
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	w.Header().Set("X-Total-Count", strconv.FormatInt(page.Total, 10))
	w.Header().Set("Link", a.pageLinks(api.ListDeletedRoute, url.Values{}, page.Number, page.Limit, page.Total))
	documents := make(api.DeletedList, 0, len(page.Items))
	for _, item := range page.Items {
		documents = append(documents, a.deps.Documents.Deleted(item))
	}
	httpapi.WriteJSON(w, r, http.StatusOK, documents)
}

// RestoreMedia answers POST /media/restore/{mediaId}.
func (a *API) RestoreMedia(w http.ResponseWriter, r *http.Request, id api.MediaID) {
	if err := readUnconditional(w, r); err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	item, err := a.deps.Media.Restore(r.Context(), principal(r), id)
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	a.writeItem(w, r, http.StatusOK, item)
}
