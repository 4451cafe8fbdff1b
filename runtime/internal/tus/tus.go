// Package tus serves resumable uploads: TUS 1.0.0 below /media/create/resumable. tusd's
// handler runs the sequence of each method over a store that is package upload. This package
// adds what tusd lacks or does differently from the rest of the service: routing, header
// rules, ownership, checksums, expiry and errors (docs/decisions/0011). Package server
// mounts it.
package tus

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"
	"github.com/tus/tusd/v2/pkg/handler"
	"golang.org/x/exp/slog"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/upload"
)

// Config bounds the interface. The tags are flag and environment names.
type Config struct {
	LockTimeout time.Duration `env:"SERVICE_RESUMABLE_LOCK_TIMEOUT" default:"20s" help:"How long a request waits until another one has released its resumable upload, before 423; from 1s to 5m."`
}

// Validate checks the bounds.
func (c Config) Validate() error {
	if c.LockTimeout < time.Second || c.LockTimeout > 5*time.Minute {
		return fmt.Errorf("SERVICE_RESUMABLE_LOCK_TIMEOUT must be from 1s to 5m, not %s", c.LockTimeout)
	}
	return nil
}

// Locks locks uploads by name for one request at a time.
type Locks = upload.Locks

// Deps are the dependencies of an API.
type Deps struct {
	Uploads   *upload.Service
	Auth      *auth.Authenticator
	Documents api.Documents
	Locks     Locks
	// BaseURL is the URL under which clients reach the service.
	BaseURL string
	// Brand is the word in header names.
	Brand string
}

// API serves the routes. It is safe for concurrent use.
type API struct {
	deps    Deps
	baseURL string // prefix of the URLs of uploads
	handler *handler.UnroutedHandler

	mu       sync.Mutex
	inFlight map[*requestState]struct{}
	draining bool
}

const (
	collectionRoute = api.ResumableRoute
	uploadRoute     = api.ResumableUploadRoute
)

// version is the supported version of the protocol.
const version = "1.0.0"

// extensions are the supported extensions of TUS. tusd implements the first four, this
// package checksum and expiration.
const extensions = "creation,creation-with-upload,termination,creation-defer-length,checksum,expiration"

// New returns an API that uses deps.
func New(cfg Config, deps Deps) (*API, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	a := &API{deps: deps, baseURL: strings.TrimRight(deps.BaseURL, "/") + collectionRoute + "/", inFlight: map[*requestState]struct{}{}}
	composer := handler.NewStoreComposer()
	uploads := store{uploads: deps.Uploads}
	composer.UseCore(uploads)
	composer.UseTerminater(uploads)
	composer.UseLengthDeferrer(uploads)
	composer.UseLocker(locker{store: uploads, locks: deps.Locks})
	var err error
	a.handler, err = handler.NewUnroutedHandler(handler.Config{
		StoreComposer: composer, BasePath: a.baseURL, DisableDownload: true, DisableConcatenation: true,
		Cors: &handler.CorsConfig{Disable: true}, // package server answers browsers
		// Package server logs requests, and httpapi records what failed.
		Logger:             slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelError + 1})),
		AcquireLockTimeout: cfg.LockTimeout,
		// The store has a context of its own (see requestState). tusd's would keep a goroutine
		// for this long after every request.
		GracefulRequestCompletionTimeout: time.Millisecond,
	})
	return a, err
}

// Mount adds the routes.
func (a *API) Mount(r chi.Router) {
	for _, route := range []string{collectionRoute, uploadRoute} {
		r.With(tusHeaders).Options(route, a.options)
	}
	r.Group(func(r chi.Router) {
		uploads := a.deps.Auth.RequireOperation(func(*http.Request) account.Operation { return account.UploadMedia })
		r.Use(tusHeaders, a.deps.Auth.Middleware(auth.ChallengeAll), uploads, requireTusResumable)
		r.Post(collectionRoute, a.create)
		r.Head(uploadRoute, a.withUpload(http.MethodHead, a.handler.HeadFile))
		r.Patch(uploadRoute, a.withUpload(http.MethodPatch, a.handler.PatchFile))
		r.Delete(uploadRoute, a.withUpload(http.MethodDelete, a.handler.DelFile))
		r.Post(uploadRoute, a.methodOverride)
	})
}

// Drain ends the bodies of all uploads, now and from now on. What has arrived is kept, and
// clients continue at another replica. Call it when no new connections are accepted.
func (a *API) Drain() {
	a.mu.Lock()
	a.draining = true
	var inFlight []*requestState
	for s := range a.inFlight {
		inFlight = append(inFlight, s)
	}
	a.mu.Unlock()
	for _, s := range inFlight {
		s.interrupt(errShuttingDown)
	}
}

// tusHeaders sets the headers that every response of the protocol has, errors included.
func tusHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Tus-Resumable", version)
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if r.Method == http.MethodHead {
			w = headLockedWriter{w}
		}
		next.ServeHTTP(w, r)
	})
}

// headLockedWriter replaces 429 and 503 by 423 in responses to HEAD: tus-js-client retries
// after 423, and treats any other error as the end of the upload. It then creates another
// upload, whose bytes count towards the cap as well.
type headLockedWriter struct{ http.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w headLockedWriter) WriteHeader(status int) {
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		status = http.StatusLocked
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w headLockedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// requireTusResumable rejects clients of other versions before any other check of a request.
// HEAD may omit the version, as the protocol permits.
func requireTusResumable(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodHead && r.Header.Get("Tus-Resumable") != version {
			w.Header().Set("Tus-Version", version)
			httpapi.WriteErrorStatus(w, r, http.StatusPreconditionFailed, fault.New(fault.Invalid, "send Tus-Resumable: %s", version))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// options returns the protocol capabilities. Tus-Max-Size is included for authenticated
// requests only.
func (a *API) options(w http.ResponseWriter, r *http.Request) {
	respond := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Tus-Version", version)
		header.Set("Tus-Extension", extensions)
		header.Set("Tus-Checksum-Algorithm", checksumAlgorithms)
		if identity := auth.FromContext(r.Context()); identity.Key.ID != uuid.Nil {
			header.Set("Tus-Max-Size", strconv.FormatInt(identity.Capability.MaxSize(identity.Account.MaxUploadSize), 10))
		}
		w.WriteHeader(http.StatusNoContent)
	})
	for _, credential := range []string{a.deps.Auth.KeyHeader, a.deps.Auth.SignatureHeader, "Authorization"} {
		if r.Header.Get(credential) != "" {
			a.deps.Auth.Middleware(auth.ChallengeAll)(respond).ServeHTTP(w, r)
			return
		}
	}
	respond(w, r)
}

// create handles POST on the collection: a new upload, perhaps with its first bytes.
func (a *API) create(w http.ResponseWriter, r *http.Request) {
	s, out := a.track(w, r)
	defer a.untrack(s)
	if err := s.readCreation(); err != nil {
		out.writeError(err)
		return
	}
	a.handler.PostFile(out, s.tusdRequest(r, ""))
	out.finish()
}

// withUpload returns the handler of a method that acts on an existing upload; serve is
// tusd's. The upload is read once, under its lock (see lock.Lock).
func (a *API) withUpload(method string, serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r = r.Clone(r.Context())
		r.Method = method
		s, out := a.track(w, r)
		defer a.untrack(s)
		if err := s.readExisting(chi.URLParam(r, "uploadId")); err != nil {
			out.writeError(err)
			return
		}
		serve(out, s.tusdRequest(r, s.id.String()))
		out.finish()
	}
}

// methodOverride serves clients that can't send every method.
func (a *API) methodOverride(w http.ResponseWriter, r *http.Request) {
	switch method := r.Header.Get("X-HTTP-Method-Override"); method {
	case http.MethodHead:
		a.withUpload(method, a.handler.HeadFile)(w, r)
	case http.MethodPatch:
		a.withUpload(method, a.handler.PatchFile)(w, r)
	case http.MethodDelete:
		a.withUpload(method, a.handler.DelFile)(w, r)
	default:
		httpapi.WriteMethodNotAllowed(w, r, http.MethodHead, http.MethodPatch, http.MethodDelete, http.MethodOptions)
	}
}

// track registers a request, so that Drain reaches it.
func (a *API) track(w http.ResponseWriter, r *http.Request) (*requestState, *responseInterceptor) {
	s := newRequestState(w, r)
	// Without the request's context: the client may have left.
	s.reauthenticate = func() error { return a.deps.Auth.Reauthenticate(w, r.WithContext(s.ctx)) }
	a.mu.Lock()
	a.inFlight[s] = struct{}{}
	draining := a.draining
	a.mu.Unlock()
	if draining {
		s.interrupt(errShuttingDown)
	}
	return s, &responseInterceptor{ResponseWriter: w, api: a, state: s, request: r}
}

func (a *API) untrack(s *requestState) {
	a.mu.Lock()
	delete(a.inFlight, s)
	a.mu.Unlock()
	s.close()
}
