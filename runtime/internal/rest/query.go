package rest

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-chi/chi/v5"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/fetch"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/upload"
)

// queryParameters are the query parameters of a route, by GET and by POST, and whether they are
// integers. No other route has any.
var queryParameters = map[string]map[string]bool{
	api.ListRoute:         withFilters(map[string]bool{"page": true, "limit": true, "sort": false, "state": false, "after": false, "fields": false}),
	api.GetRoute:          {"fields": false},
	api.CountRoute:        withFilters(map[string]bool{}),
	api.DeleteRoute:       {"permanent": false},
	api.EventsRoute:       {"after": false, "types": false, "limit": true, "wait": true},
	api.ListDeletedRoute:  {"page": true, "limit": true},
	api.ListGroupsRoute:   {"access": false, "limit": true, "after": false},
	api.ListUploadsRoute:  {"limit": true, "after": false},
	api.TotalStorageRoute: withFilters(map[string]bool{}),
}

// withFilters adds the filters of lists, counts and totals.
func withFilters(parameters map[string]bool) map[string]bool {
	for _, name := range []string{"access", "group", "type", "name", "from", "to", "capturedFrom", "capturedTo", "near", "q", "has", "lacks", "orientation", "color"} {
		parameters[name] = false
	}
	for _, name := range []string{"minBytes", "maxBytes", "minWidth", "maxWidth", "minHeight", "maxHeight"} {
		parameters[name] = true
	}
	return parameters
}

// metaPrefix begins the parameters that filter by metadata: meta.<key>=<value>, on all routes that filter.
const metaPrefix = "meta."

// metaOf returns the filters by metadata of a URL. readQuery has checked that each is there once.
func metaOf(r *http.Request) *map[string]string {
	meta := map[string]string{}
	for name, values := range r.URL.Query() {
		if key, ok := strings.CutPrefix(name, metaPrefix); ok {
			meta[key] = values[0]
		}
	}
	return &meta
}

// readQuery rejects a query that is malformed, or has an unknown or duplicate parameter: a filter or
// a page that is silently ignored would return another list. An empty parameter of another kind than
// meta.<key> is absent, and an integer gets the form that the generated code reads.
func readQuery(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery == "" {
			next.ServeHTTP(w, r)
			return
		}
		query, err := url.ParseQuery(r.URL.RawQuery)
		if err == nil {
			err = normalizeQuery(query, queryParameters[chi.RouteContext(r.Context()).RoutePattern()])
		} else {
			err = fault.Wrap(err, fault.Invalid, "malformed query")
		}
		if err != nil {
			httpapi.WriteError(w, r, err)
			return
		}
		normalized := *r.URL
		normalized.RawQuery = query.Encode()
		r.URL = &normalized
		next.ServeHTTP(w, r)
	})
}

func normalizeQuery(query url.Values, known map[string]bool) error {
	for _, name := range slices.Sorted(maps.Keys(query)) {
		integer, isKnown := known[name]
		_, filters := known["type"]
		isKnown = isKnown || filters && strings.HasPrefix(name, metaPrefix)
		switch value := query.Get(name); {
		case !isKnown:
			return fault.New(fault.Invalid, "unknown parameter %q", httpapi.Truncate(name))
		case len(query[name]) > 1:
			return fault.New(fault.Invalid, "%s must be sent once", name)
		case value == "" && !strings.HasPrefix(name, metaPrefix): // package media rejects an empty filter by metadata
			query.Del(name)
		case name == "permanent" && value != "true" && value != "false": // the generated code would take 1, t and TRUE, too
			return errPermanent
		case integer:
			number, ok := httpapi.Integer(json.RawMessage(value))
			if !ok || strings.ContainsAny(value, " \t\r\n") {
				return fault.New(fault.Invalid, "%s must be an integer", name)
			}
			query.Set(name, strconv.Itoa(number))
		}
	}
	return nil
}

var errPermanent = fault.New(fault.Invalid, "permanent must be true or false")

// paramErrorHandler answers for the generated code if a parameter is malformed.
func paramErrorHandler(w http.ResponseWriter, r *http.Request, err error) {
	var format *api.InvalidParamFormatError
	switch {
	case !errors.As(err, &format):
		err = fault.Wrap(err, fault.Invalid, "malformed parameters")
	case format.ParamName == "mediaId":
		err = media.ErrItemNotFound
	case format.ParamName == "uploadId":
		err = upload.ErrNotFound
	case format.ParamName == "jobId":
		err = fetch.ErrNotFound
	default:
		err = fault.Wrap(err, fault.Invalid, "malformed %s", format.ParamName)
	}
	httpapi.WriteError(w, r, err)
}
