// Package rest is the REST interface: it translates between HTTP and the use cases of media and
// settings, and contains no rules. The routes and types in package api are generated from
// openapi.yaml. Package server mounts it.
package rest

import (
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
)

// Config is the configuration of the interface. The program sets it; it has no flags.
type Config struct {
	// BaseURL is the URL by which clients reach the service.
	BaseURL string
	// Brand is the word in header names.
	Brand string
}

// Deps are the dependencies of an API.
type Deps struct {
	Media     *media.Service
	Settings  *settings.Service
	Auth      *auth.Authenticator
	Documents api.Documents
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
		r.Use(a.deps.Auth.Middleware(auth.ChallengeAll), a.deps.Auth.RequireOperation(operationOf), readQuery)
		api.HandlerWithOptions(a, api.ChiServerOptions{BaseRouter: r, ErrorHandlerFunc: paramErrorHandler})
	})
}

// operations are the operations of the routes, whatever the method. The zero operation of any
// other route requires the permission to write.
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

// principal returns the app that the request acts for.
func principal(r *http.Request) account.Principal { return auth.FromContext(r.Context()).Principal }

// deref returns what an optional field points to, or the zero value.
func deref[T any](field *T) T {
	if field == nil {
		var zero T
		return zero
	}
	return *field
}

// itemURL returns the URL of an item's document.
func (a *API) itemURL(id uuid.UUID) string { return a.base + api.ListRoute + "/" + id.String() }
