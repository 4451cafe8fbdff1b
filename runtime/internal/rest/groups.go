package rest

import (
	"net/http"

	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/media"
)

// ListGroups answers GET /media/groups.
func (a *API) ListGroups(w http.ResponseWriter, r *http.Request, params api.ListGroupsParams) {
	limit := media.DefaultGroups
	if params.Limit != nil {
		limit = *params.Limit
	}
	groups, next, err := a.deps.Media.Groups(r.Context(), principal(r), media.Access(deref(params.Access)), deref(params.After), limit)
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	if next != "" {
		w.Header().Set("X-Next-Cursor", next)
	}
	documents := make(api.GroupList, 0, len(groups))
	for _, group := range groups {
		documents = append(documents, api.GroupCount{Group: group.Name, Count: group.Items})
	}
	httpapi.WriteJSON(w, r, http.StatusOK, documents)
}

// ListMetadataKeys answers GET /media/metadata/keys.
func (a *API) ListMetadataKeys(w http.ResponseWriter, r *http.Request) {
	keys, err := a.deps.Media.MetadataKeys(r.Context(), principal(r))
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	document := api.MetadataKeys{Keys: make([]api.MetadataKeyCount, 0, len(keys.Keys)), AtLeast: keys.Partial}
	for _, key := range keys.Keys {
		document.Keys = append(document.Keys, api.MetadataKeyCount{Key: key.Name, Count: key.Items})
	}
	httpapi.WriteJSON(w, r, http.StatusOK, document)
}
