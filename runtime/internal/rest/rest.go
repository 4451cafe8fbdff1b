// Package rest is the REST interface: it translates between HTTP and the use cases of media and
// settings, and contains no rules. The routes and types in package api are generated from
// openapi.yaml. Package server mounts it.
package rest

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fairlimit"
	"mediastack.dev/runtime/fetch"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/ratelimit"
	"mediastack.dev/runtime/journal"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
	"mediastack.dev/runtime/upload"
)

// Config is the configuration of the interface. The tags are flag and environment names; the program
// sets the fields that have none.
type Config struct {
	MaxBatches int `name:"max-batches" env:"SERVICE_MAX_BATCHES" default:"16" help:"Batches (POST /media/batch) that a process reads and carries out at once, from 1 to 1000. An account has a quarter of them; more are rejected with 429. Each uses up to 8 MiB."`

	// BaseURL is the URL by which clients reach the service.
	BaseURL string `kong:"-"`
	// Brand is the word in header names.
	Brand string `kong:"-"`
}

// Validate checks the bounds.
func (c Config) Validate() error {
	if c.MaxBatches < 1 || c.MaxBatches > 1000 {
		return fmt.Errorf("SERVICE_MAX_BATCHES must be from 1 to 1000, not %d", c.MaxBatches)
	}
	return nil
}

// Deps are the dependencies of an API.
type Deps struct {
	Media     *media.Service
	Items     media.ItemReader
	Uploads   *upload.Service
	Settings  *settings.Service
	Auth      *auth.Authenticator
	Documents api.Documents
	// Events are those of the journals.
	Events *journal.Feed
	// Limits count the items of a batch; nil = none.
	Limits *ratelimit.Limiter
	// Fetch are the uploads from a URL; nil = disabled.
	Fetch *fetch.Service
}

// API serves the REST routes. It is safe for concurrent use.
type API struct {
	deps Deps
	// batches bounds the batches that are in memory, by account.
	batches *fairlimit.Limiter[uuid.UUID]
	base    string
	spec    []byte
	specTag string // its ETag
	// operations are those of the routes.
	operations map[string]account.Operation
}

var _ api.ServerInterface = (*API)(nil)

// New returns an API that uses deps.
func New(cfg Config, deps Deps) (*API, error) {
	spec, err := api.RenderSpec(cfg.BaseURL, cfg.Brand)
	if err != nil {
		return nil, err
	}
	operations, err := api.Operations()
	if err != nil {
		return nil, err
	}
	batches := fairlimit.New[uuid.UUID](fairlimit.Config{Limit: cfg.MaxBatches, PerKey: max(1, cfg.MaxBatches/4)})
	return &API{deps: deps, batches: batches, base: strings.TrimRight(cfg.BaseURL, "/"), spec: spec, specTag: fmt.Sprintf(`"%x"`, sha256.Sum256(spec)), operations: operations}, nil
}

// Mount adds the routes.
func (a *API) Mount(r chi.Router) {
	r.Get(api.SpecRoute, a.serveSpec)
	r.Group(func(r chi.Router) {
		r.Use(a.deps.Auth.Middleware(auth.ChallengeAll), a.requireOperation, readQuery, joinIfMatch)
		api.HandlerWithOptions(a, api.ChiServerOptions{BaseRouter: r, ErrorHandlerFunc: paramErrorHandler})
	})
}

// requireOperation rejects requests whose credential does not permit their operation. The body of a
// batch names its operation, so that the handler checks it.
func (a *API) requireOperation(next http.Handler) http.Handler {
	checked := a.deps.Auth.RequireOperation(a.operationOf)(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if chi.RouteContext(r.Context()).RoutePattern() == api.BatchRoute {
			next.ServeHTTP(w, r)
			return
		}
		checked.ServeHTTP(w, r)
	})
}

// operationOf returns the operation of a route, whatever the method. The zero operation of a route for which
// the OpenAPI document names none requires the permission to write.
func (a *API) operationOf(r *http.Request) account.Operation {
	return a.operations[chi.RouteContext(r.Context()).RoutePattern()]
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
