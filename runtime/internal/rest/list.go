package rest

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/media"
)

// ListMedia answers GET /media/get.
func (a *API) ListMedia(w http.ResponseWriter, r *http.Request, params api.ListMediaParams) {
	a.list(w, r, asQuery(r, params))
}

// ListMediaByPost answers POST /media/get. Each parameter is in the query or in the body.
func (a *API) ListMediaByPost(w http.ResponseWriter, r *http.Request, params api.ListMediaByPostParams) {
	query := asQuery(r, api.ListMediaParams(params))
	if err := readJSON(w, r, &query); err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	a.list(w, r, query)
}

// asQuery converts the parameters of a URL to those of a body.
func asQuery(r *http.Request, p api.ListMediaParams) api.ListQuery {
	return api.ListQuery{Page: p.Page, Limit: p.Limit, Access: p.Access, Group: p.Group, Type: p.Type, Name: p.Name, From: p.From, To: p.To,
		CapturedFrom: p.CapturedFrom, CapturedTo: p.CapturedTo, Near: p.Near, Q: p.Q, Has: p.Has, Lacks: p.Lacks, MinBytes: p.MinBytes, MaxBytes: p.MaxBytes, MinWidth: p.MinWidth, MaxWidth: p.MaxWidth, MinHeight: p.MinHeight, MaxHeight: p.MaxHeight,
		Orientation: p.Orientation, Color: p.Color, Meta: metaOf(r), Sort: p.Sort, State: p.State, After: p.After, Fields: p.Fields}
}

func (a *API) list(w http.ResponseWriter, r *http.Request, query api.ListQuery) {
	text := filtersOf(api.CountQuery{Access: query.Access, Group: query.Group, Type: query.Type, Name: query.Name, From: query.From, To: query.To, CapturedFrom: query.CapturedFrom, CapturedTo: query.CapturedTo, Near: query.Near, Q: query.Q,
		Has: query.Has, Lacks: query.Lacks, MinBytes: query.MinBytes, MaxBytes: query.MaxBytes, MinWidth: query.MinWidth, MaxWidth: query.MaxWidth,
		MinHeight: query.MinHeight, MaxHeight: query.MaxHeight, Orientation: query.Orientation, Color: query.Color, Meta: query.Meta})
	text.Sort, text.State, text.After, text.Page, text.Limit = string(deref(query.Sort)), string(deref(query.State)), deref(query.After), query.Page, query.Limit
	q, err := text.Parse()
	fields := deref(query.Fields)
	if err == nil {
		_, err = api.ParseSelection(fields)
	}
	if err == nil && q.Drafts {
		err = a.deps.Auth.Authorize(w, r, account.ListDrafts)
	}
	switch {
	case err != nil:
		httpapi.WriteError(w, r, err)
	case q.Plain():
		a.listPage(w, r, q, fields)
	default:
		a.find(w, r, q, fields)
	}
}

// listPage answers with a page of the sealed items, newest first.
func (a *API) listPage(w http.ResponseWriter, r *http.Request, q media.Query, fields string) {
	page, err := a.deps.Media.List(r.Context(), principal(r), q.Filter, cmp.Or(q.Page, media.DefaultPage), q.Limit)
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	w.Header().Set("Link", a.links(page, q.Filter, fields))
	a.writeItems(w, r, page.Items, &page.Total, a.deps.Media.NextPage(principal(r), q.Filter, page), fields)
}

// find answers with a part of a list that is searched, sorted or read by cursor.
func (a *API) find(w http.ResponseWriter, r *http.Request, q media.Query, fields string) {
	results, err := a.deps.Media.Find(r.Context(), principal(r), q)
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	w.Header().Set("Link", a.cursorLinks(q, results.Next, fields))
	a.writeItems(w, r, results.Items, results.Total, results.Next, fields)
}

func (a *API) writeItems(w http.ResponseWriter, r *http.Request, items []media.Item, total *int64, next, fields string) {
	if total != nil {
		w.Header().Set("X-Total-Count", strconv.FormatInt(*total, 10))
	}
	if next != "" {
		w.Header().Set("X-Next-Cursor", next)
	}
	selected, err := api.ParseSelection(fields)
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	documents, account := make(api.ItemList, 0, len(items)), a.documents(r)
	for _, item := range items {
		document, err := account.Selected(item, selected)
		if err != nil {
			httpapi.WriteError(w, r, err)
			return
		}
		documents = append(documents, document)
	}
	httpapi.WriteJSON(w, r, http.StatusOK, api.SelectedItems{Items: documents, Fields: selected})
}

// CountMedia answers GET /media/get/count.
func (a *API) CountMedia(w http.ResponseWriter, r *http.Request, params api.CountMediaParams) {
	a.count(w, r, asFilters(r, params))
}

// CountMediaByPost answers POST /media/get/count. Each filter is in the query or in the body.
func (a *API) CountMediaByPost(w http.ResponseWriter, r *http.Request, params api.CountMediaByPostParams) {
	query := asFilters(r, api.CountMediaParams(params))
	if err := readJSON(w, r, &query); err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	a.count(w, r, query)
}

// asFilters converts the filters of a URL to those of a body.
func asFilters(r *http.Request, p api.CountMediaParams) api.CountQuery {
	return api.CountQuery{Access: p.Access, Group: p.Group, Type: p.Type, Name: p.Name, From: p.From, To: p.To, CapturedFrom: p.CapturedFrom, CapturedTo: p.CapturedTo, Near: p.Near, Q: p.Q, Has: p.Has, Lacks: p.Lacks,
		MinBytes: p.MinBytes, MaxBytes: p.MaxBytes, MinWidth: p.MinWidth, MaxWidth: p.MaxWidth, MinHeight: p.MinHeight, MaxHeight: p.MaxHeight,
		Orientation: p.Orientation, Color: p.Color, Meta: metaOf(r)}
}

func searchOf(query api.CountQuery) (media.Search, error) {
	q, err := filtersOf(query).Parse()
	return q.Search, err
}

// filtersOf returns a query with the filters of a request.
func filtersOf(query api.CountQuery) media.QueryText {
	return media.QueryText{Filter: filterOf(query.Access, query.Group), Words: deref(query.Q), Type: deref(query.Type), Name: deref(query.Name), From: deref(query.From), To: deref(query.To),
		CapturedFrom: deref(query.CapturedFrom), CapturedTo: deref(query.CapturedTo), Near: deref(query.Near),
		Metadata: deref(query.Meta), Traits: media.TraitsText{Has: deref(query.Has), Lacks: deref(query.Lacks), MinBytes: query.MinBytes, MaxBytes: query.MaxBytes,
			MinWidth: query.MinWidth, MaxWidth: query.MaxWidth, MinHeight: query.MinHeight, MaxHeight: query.MaxHeight, Orientation: string(deref(query.Orientation)), Color: deref(query.Color)}}
}

func (a *API) count(w http.ResponseWriter, r *http.Request, query api.CountQuery) {
	search, err := searchOf(query)
	var matches media.Matches
	if err == nil {
		matches, err = a.deps.Media.CountMatches(r.Context(), principal(r), search)
	}
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	httpapi.WriteJSON(w, r, http.StatusOK, api.Count{Count: matches.Items, AtLeast: matches.Partial})
}

// TotalStorage answers GET /media/get/size.
func (a *API) TotalStorage(w http.ResponseWriter, r *http.Request, params api.TotalStorageParams) {
	a.totals(w, r, asFilters(r, api.CountMediaParams(params)))
}

// TotalStorageByPost answers POST /media/get/size. Each filter is in the query or in the body.
func (a *API) TotalStorageByPost(w http.ResponseWriter, r *http.Request, params api.TotalStorageByPostParams) {
	query := asFilters(r, api.CountMediaParams(params))
	if err := readJSON(w, r, &query); err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	a.totals(w, r, query)
}

func (a *API) totals(w http.ResponseWriter, r *http.Request, query api.CountQuery) {
	search, err := searchOf(query)
	var totals media.Totals
	if err == nil {
		totals, err = a.deps.Media.Totals(r.Context(), principal(r))
	}
	var matches media.Matches
	if err == nil && (search.Narrows() || search.Filter != media.Filter{}) {
		matches, err = a.deps.Media.SumMatches(r.Context(), principal(r), search)
		totals.Storage = matches.Bytes
	}
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	httpapi.WriteJSON(w, r, http.StatusOK, api.Totals{Storage: totals.Storage, MaxStorage: totals.MaxStorage, AtLeast: matches.Partial})
}

// filterOf returns the filter of a request.
func filterOf(access *api.Access, group *string) media.Filter {
	return media.Filter{Access: media.Access(deref(access)), Group: deref(group)}
}

// links returns the header Link with the pages around this one (RFC 8288). An empty list has one
// empty page.
func (a *API) links(page media.Page, filter media.Filter, fields string) string {
	query := parametersOf(media.Query{Search: media.Search{Filter: filter}, Limit: page.Limit})
	setFields(query, fields)
	return a.pageLinks(api.ListRoute, query, page.Number, page.Limit, page.Total)
}

// pageLinks returns the header Link of a page of a list. query has the other parameters.
func (a *API) pageLinks(route string, query url.Values, number, size int, total int64) string {
	limit := int64(size)
	last := max(1, (total+limit-1)/limit)
	current := int64(number)
	var links []string
	add := func(relation string, number int64) {
		query.Set("page", strconv.FormatInt(number, 10))
		query.Set("limit", strconv.Itoa(size))
		links = append(links, "<"+a.base+route+"?"+query.Encode()+`>; rel="`+relation+`"`)
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

// cursorLinks returns the header Link of a list that is read by cursor.
func (a *API) cursorLinks(q media.Query, next, fields string) string {
	query := parametersOf(q)
	setFields(query, fields)
	links := a.link("first", query)
	if next != "" {
		query.Set("after", next)
		links += ", " + a.link("next", query)
	}
	return links
}

func setFields(query url.Values, fields string) {
	if fields != "" {
		query.Set("fields", fields)
	}
}

func (a *API) link(relation string, query url.Values) string {
	return "<" + a.base + api.ListRoute + "?" + query.Encode() + `>; rel="` + relation + `"`
}

// parametersOf returns the parameters of a list, without its page.
func parametersOf(q media.Query) url.Values {
	query := url.Values{"limit": {strconv.Itoa(q.Limit)}}
	set := func(name, value string) {
		if value != "" {
			query.Set(name, value)
		}
	}
	set("access", string(q.Access))
	set("group", q.Group)
	set("type", q.Type)
	set("name", q.Name)
	set("q", q.Words.String())
	for name, value := range q.Traits.Parameters() {
		set(name, value)
	}
	for name, at := range map[string]time.Time{"from": q.From, "to": q.To, "capturedFrom": q.Captured.From, "capturedTo": q.Captured.To} {
		if !at.IsZero() {
			set(name, at.Format(time.RFC3339Nano))
		}
	}
	if q.Captured.Near != nil {
		set("near", q.Captured.Near.String())
	}
	for key, value := range q.Metadata {
		set(metaPrefix+key, value)
	}
	if q.Order != (media.Order{By: media.ByTime}) && q.Order != (media.Order{}) {
		set("sort", q.Order.String())
	}
	if q.Drafts {
		set("state", "draft")
	}
	return query
}
