package rest

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/go-chi/chi/v5"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/media"
)

// queryParameters are the query parameters of a route, by GET and by POST. No other route has
// any.
var queryParameters = map[string][]string{
	api.ListRoute:  {"page", "limit", "access", "group"},
	api.CountRoute: {"access", "group"},
}

// validateQuery rejects a query that is malformed, or has an unknown or duplicate parameter: a
// filter or a page that is silently ignored would return another list.
func validateQuery(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil {
			httpapi.WriteError(w, r, fault.Wrap(err, fault.Invalid, "malformed query"))
			return
		}
		known := queryParameters[chi.RouteContext(r.Context()).RoutePattern()]
		for _, name := range slices.Sorted(maps.Keys(query)) {
			switch {
			case !slices.Contains(known, name):
				httpapi.WriteError(w, r, fault.New(fault.Invalid, "unknown parameter %q", httpapi.Truncate(name)))
				return
			case len(query[name]) > 1 && name != "page" && name != "limit": // the generated code rejects duplicates of these
				httpapi.WriteError(w, r, fault.New(fault.Invalid, "%s must be sent once", name))
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// paramErrorHandler answers for the generated code if a parameter is malformed.
func paramErrorHandler(w http.ResponseWriter, r *http.Request, err error) {
	var format *api.InvalidParamFormatError
	switch {
	case !errors.As(err, &format):
		err = fault.Wrap(err, fault.Invalid, "malformed parameters")
	case format.ParamName == "mediaId":
		err = media.ErrItemNotFound
	case format.ParamName == "page" || format.ParamName == "limit":
		err = fault.Wrap(err, fault.Invalid, "%s must be a single integer", format.ParamName)
	default:
		err = fault.Wrap(err, fault.Invalid, "malformed %s", format.ParamName)
	}
	httpapi.WriteError(w, r, err)
}
