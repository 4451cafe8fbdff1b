// Package rest is the REST interface: it translates between HTTP and the use cases
// of media and settings, and holds no rule of its own. openapi.yaml comes first; the
// routes and the types of package wire are generated from it. Package server mounts it.
package rest

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/redact"
	"mediastack.dev/runtime/settings"
)

// Config is the configuration of the interface. The program sets it; it has no flags.
type Config struct {
	// BaseURL is the URL by which clients reach the service, without a slash at its end.
	BaseURL string
	// Brand is the word in header names.
	Brand string
}

// Deps are the dependencies of an API.
type Deps struct {
	Media    *media.Service
	Settings *settings.Service
	Auth     *auth.Authenticator
	URLs     api.URLs
}

// API serves the REST routes. It is safe for concurrent use.
type API struct {
	deps Deps
	base string
	spec []byte
}

var _ api.ServerInterface = (*API)(nil)

// New returns an API that uses deps.
func New(cfg Config, deps Deps) (*API, error) {
	spec, err := api.RenderSpec(cfg.BaseURL, cfg.Brand)
	if err != nil {
		return nil, err
	}
	return &API{deps: deps, base: strings.TrimRight(cfg.BaseURL, "/"), spec: spec}, nil
}

// Mount adds the routes.
func (a *API) Mount(r chi.Router) {
	r.Get(api.SpecRoute, a.serveSpec)
	r.Group(func(r chi.Router) {
		r.Use(a.deps.Auth.Middleware(auth.ChallengeAll), a.deps.Auth.RequireOperation(operationOf), readableQuery)
		api.HandlerWithOptions(a, api.ChiServerOptions{BaseRouter: r, ErrorHandlerFunc: badParameter})
	})
}

// operations are the operations of the routes, whatever the method. The zero operation of
// any other route requires the permission to write.
var operations = map[string]account.Operation{
	api.UploadRoute:          account.UploadMedia,
	api.SealRoute:            account.SealMedia,
	api.ListRoute:            account.ListMedia,
	api.CountRoute:           account.GetMediaCount,
	api.TotalStorageRoute:    account.GetTotalStorage,
	api.GetRoute:             account.GetMedia,
	api.DeleteRoute:          account.DeleteMedia,
	api.CreateSignatureRoute: account.CreateUploadSignature,
	api.GetSettingsRoute:     account.GetMediaSettings,
	api.UpdateSettingsRoute:  account.UpdateMediaSettings,
}

func operationOf(r *http.Request) account.Operation {
	return operations[chi.RouteContext(r.Context()).RoutePattern()]
}

// queryParameters are the query parameters of a route, by GET and by POST. No other
// route has any.
var queryParameters = map[string][]string{
	api.ListRoute:  {"page", "limit", "access", "group"},
	api.CountRoute: {"access", "group"},
}

// readableQuery refuses a query that would be read only in part: a filter or a page
// that fell out unseen would give another list than was asked for. So does a parameter
// whose name is misspelt, as a field of a JSON body would, or one that is sent twice.
func readableQuery(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil {
			httpapi.WriteError(w, r, fault.Wrap(err, fault.Invalid, "the query can't be read"))
			return
		}
		known := queryParameters[chi.RouteContext(r.Context()).RoutePattern()]
		for _, name := range slices.Sorted(maps.Keys(query)) {
			switch {
			case !slices.Contains(known, name):
				httpapi.WriteError(w, r, fault.New(fault.Invalid, "there is no parameter %q", shown(name)))
				return
			case len(query[name]) > 1 && name != "page" && name != "limit": // of those the generated code says what they must be
				httpapi.WriteError(w, r, fault.New(fault.Invalid, "%s must be sent once", name))
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// shown keeps a client's word in an answer short.
func shown(name string) string {
	name = redact.Text(strings.ToValidUTF8(name, "\uFFFD")) // a credential that is cut is not known for one
	if runes := []rune(name); len(runes) > 40 {
		return string(runes[:40]) + "..."
	}
	return name
}

// badParameter answers for the generated code when a parameter can't be read.
func badParameter(w http.ResponseWriter, r *http.Request, err error) {
	var format *api.InvalidParamFormatError
	switch {
	case !errors.As(err, &format):
		err = fault.Wrap(err, fault.Invalid, "the parameters can't be read")
	case format.ParamName == "mediaId":
		err = fault.Wrap(err, fault.NotFound, "there is no such item")
	case format.ParamName == "page" || format.ParamName == "limit":
		err = fault.Wrap(err, fault.Invalid, "%s must be an integer, once", format.ParamName)
	default:
		err = fault.Wrap(err, fault.Invalid, "%s can't be read", format.ParamName)
	}
	httpapi.WriteError(w, r, err)
}

// principal is who the request acts for.
func principal(r *http.Request) account.Principal { return auth.FromContext(r.Context()).Principal }

// reply answers with a document, or with the fault that stands in its place.
func reply[T any](w http.ResponseWriter, r *http.Request, document func() (T, error)) {
	answer, err := document()
	if err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	httpapi.WriteJSON(w, r, http.StatusOK, answer)
}

// item answers with one item.
func (a *API) item(w http.ResponseWriter, r *http.Request, id uuid.UUID,
	find func(context.Context, account.Principal, uuid.UUID) (media.Item, error),
) {
	reply(w, r, func() (api.MediaItem, error) {
		item, err := find(r.Context(), principal(r), id)
		if err != nil {
			return api.MediaItem{}, missing(err)
		}
		return api.NewMediaItem(item, a.deps.URLs), nil
	})
}

// missing describes every item that can\'t be had in the same words.
func missing(err error) error {
	if fault.Is(err, fault.NotFound) {
		return fault.Wrap(err, fault.NotFound, "there is no such item")
	}
	return err
}

// GetMedia answers GET /media/get/{mediaId}.
func (a *API) GetMedia(w http.ResponseWriter, r *http.Request, id api.MediaID) {
	a.item(w, r, id, a.deps.Media.Get)
}

// GetMediaByPost answers POST /media/get/{mediaId}.
func (a *API) GetMediaByPost(w http.ResponseWriter, r *http.Request, id api.MediaID) {
	a.withoutFields(w, r, func() { a.GetMedia(w, r, id) })
}

// SealMedia answers POST /media/seal/{mediaId}.
func (a *API) SealMedia(w http.ResponseWriter, r *http.Request, id api.MediaID) {
	a.withoutFields(w, r, func() { a.item(w, r, id, a.deps.Media.Seal) })
}

// DeleteMedia answers DELETE /media/delete/{mediaId}.
func (a *API) DeleteMedia(w http.ResponseWriter, r *http.Request, id api.MediaID) {
	reply(w, r, func() (api.Deleted, error) {
		return api.Deleted{Deleted: true, MediaId: id}, missing(a.deps.Media.Delete(r.Context(), principal(r), id))
	})
}

// TotalStorage answers GET /media/get/size.
func (a *API) TotalStorage(w http.ResponseWriter, r *http.Request) {
	reply(w, r, func() (api.Totals, error) {
		totals, err := a.deps.Media.Totals(r.Context(), principal(r))
		return api.Totals{Storage: totals.Storage, MaxStorage: totals.MaxStorage}, err
	})
}

// TotalStorageByPost answers POST /media/get/size.
func (a *API) TotalStorageByPost(w http.ResponseWriter, r *http.Request) {
	a.withoutFields(w, r, func() { a.TotalStorage(w, r) })
}

// CreateSignature answers POST /media/signature/create.
func (a *API) CreateSignature(w http.ResponseWriter, r *http.Request) {
	reply(w, r, func() (api.Signature, error) {
		var body api.SignatureRequest
		if err := a.readJSON(w, r, &body); err != nil {
			return api.Signature{}, err
		}
		group := value(body.Group)
		if err := media.CheckGroup(group); err != nil {
			return api.Signature{}, err
		}
		return api.Signature{Signature: a.deps.Auth.Sign(auth.FromContext(r.Context()), group)}, nil
	})
}

// value returns what an optional field points to, or its zero value.
func value[T any](field *T) T {
	if field == nil {
		var none T
		return none
	}
	return *field
}

// location is where an item can be read.
func (a *API) location(id uuid.UUID) string {
	return a.base + api.ListRoute + "/" + id.String()
}
