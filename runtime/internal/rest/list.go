package rest

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/media"
)

// ListMedia answers GET /media/get.
func (a *API) ListMedia(w http.ResponseWriter, r *http.Request, params api.ListMediaParams) {
	a.list(w, r, asQuery(params))
}

// ListMediaByPost answers POST /media/get. Each parameter is in the query or in the body.
func (a *API) ListMediaByPost(w http.ResponseWriter, r *http.Request, params api.ListMediaByPostParams) {
	query := asQuery(api.ListMediaParams(params))
	if err := readJSON(w, r, &query); err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	a.list(w, r, query)
}

// asQuery converts the parameters of a URL to those of a body.
func asQuery(p api.ListMediaParams) api.ListQuery {
	return api.ListQuery{Page: p.Page, Limit: p.Limit, Access: p.Access, Group: p.Group}
}

func (a *API) list(w http.ResponseWriter, r *http.Request, query api.ListQuery) {
	number, limit := media.DefaultPage, media.DefaultLimit
	if query.Page != nil {
		number = *query.Page
	}
	if query.Limit != nil {
		limit = *query.Limit
	}
	filter := filterOf(query.Access, query.Group)
	page, err := a.deps.Media.List(r.Context(), principal(r), filter, number, limit)
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	w.Header().Set("X-Total-Count", strconv.FormatInt(page.Total, 10))
	w.Header().Set("Link", a.links(page, filter))
	documents := make(api.ItemList, 0, len(page.Items))
	for _, item := range page.Items {
		documents = append(documents, a.deps.Documents.Item(item))
	}
	httpapi.WriteJSON(w, r, http.StatusOK, documents)
}

// CountMedia answers GET /media/get/count.
func (a *API) CountMedia(w http.ResponseWriter, r *http.Request, params api.CountMediaParams) {
	a.count(w, r, api.CountQuery(params))
}

// CountMediaByPost answers POST /media/get/count. Each filter is in the query or in the body.
func (a *API) CountMediaByPost(w http.ResponseWriter, r *http.Request, params api.CountMediaByPostParams) {
	query := api.CountQuery(params)
	if err := readJSON(w, r, &query); err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	a.count(w, r, query)
}

func (a *API) count(w http.ResponseWriter, r *http.Request, query api.CountQuery) {
	count, err := a.deps.Media.Count(r.Context(), principal(r), filterOf(query.Access, query.Group))
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	httpapi.WriteJSON(w, r, http.StatusOK, api.Count{Count: count})
}

// filterOf returns the filter of a request.
func filterOf(access *api.Access, group *string) media.Filter {
	return media.Filter{Access: media.Access(deref(access)), Group: deref(group)}
}

// links returns the header Link with the pages around this one (RFC 8288). An empty list has one
// empty page.
func (a *API) links(page media.Page, filter media.Filter) string {
	limit := int64(page.Limit)
	last := max(1, (page.Total+limit-1)/limit)
	current := int64(page.Number)
	var links []string
	add := func(relation string, number int64) {
		query := url.Values{"page": {strconv.FormatInt(number, 10)}, "limit": {strconv.Itoa(page.Limit)}}
		if filter.Access != "" {
			query.Set("access", string(filter.Access))
		}
		if filter.Group != "" {
			query.Set("group", filter.Group)
		}
		links = append(links, "<"+a.base+api.ListRoute+"?"+query.Encode()+`>; rel="`+relation+`"`)
	}
	add("first", 1)
	if current > 1 {
		add("prev", min(current-1, last))
	}
	if current < last {
		add("next", current+1)
	}
	add("last", last)
	return strings.Join(links, ", ")
}
