// Package tus is the interface for resumable uploads: TUS 1.0.0 below
// /media/create/resumable. tusd's handler speaks the protocol over a store that is
// package media; what it lacks or does otherwise than the rest of the service
// (ownership, checksums, expiry, errors) stands around it here. Package server mounts
// it.
package tus

import (
	"context"
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
	"mediastack.dev/runtime/media"
)

// Config bounds the interface. The tags are flag and environment names.
type Config struct {
	LockTimeout time.Duration `env:"SERVICE_RESUMABLE_LOCK_TIMEOUT" default:"20s" help:"How long a request waits until another one has let go of its resumable upload."`
}

// Validate checks the bounds.
func (c Config) Validate() error {
	if c.LockTimeout < time.Second || c.LockTimeout > 5*time.Minute {
		return fmt.Errorf("SERVICE_RESUMABLE_LOCK_TIMEOUT must be from 1s to 5m, not %s", c.LockTimeout)
	}
	return nil
}

// Locks let one request at a time have an upload. postgres.Locks implements it.
type Locks interface {
	// Lock waits until ctx ends, then the fault is Busy. letGo asks for the upload: it
	// may be called often, from any goroutine and after unlock, and returns at once.
	Lock(ctx context.Context, id uuid.UUID, letGo func()) (unlock func(), err error)
}

// Deps are what the interface stands on.
type Deps struct {
	Media *media.Service
	Auth  *auth.Authenticator
	URLs  api.URLs
	Locks Locks
	// BaseURL is how clients reach the service.
	BaseURL string
	// Brand is the word in header names.
	Brand string
}

// API serves the routes. It is safe for concurrent use.
type API struct {
	deps    Deps
	base    string // of uploads' addresses
	handler *handler.UnroutedHandler

	mu       sync.Mutex
	running  map[*call]struct{}
	draining bool
}

const (
	collectionRoute = api.ResumableRoute
	uploadRoute     = api.ResumableUploadRoute
)

// version is the one version of the protocol that is spoken.
const version = "1.0.0"

// extensions are those of TUS that are there. tusd brings the first four; checksum and
// expiration are this package's own.
const extensions = "creation,creation-with-upload,termination,creation-defer-length,checksum,expiration"

// New joins the interface to its deps.
func New(cfg Config, deps Deps) (*API, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	a := &API{deps: deps, base: strings.TrimRight(deps.BaseURL, "/") + collectionRoute + "/", running: map[*call]struct{}{}}
	composer := handler.NewStoreComposer()
	uploads := store{media: deps.Media}
	composer.UseCore(uploads)
	composer.UseTerminater(uploads)
	composer.UseLengthDeferrer(uploads)
	composer.UseLocker(locker{locks: deps.Locks})
	var err error
	a.handler, err = handler.NewUnroutedHandler(handler.Config{
		StoreComposer: composer, BasePath: a.base, DisableDownload: true, DisableConcatenation: true,
		Cors: &handler.CorsConfig{Disable: true}, // package server answers browsers
		// Package server logs requests, and FailStatus notes what went wrong.
		Logger:             slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelError + 1})),
		AcquireLockTimeout: cfg.LockTimeout,
		// The store has a context of its own (see call). tusd's would keep a goroutine for
		// this long after every request.
		GracefulRequestCompletionTimeout: time.Millisecond,
	})
	return a, err
}

// Mount adds the routes.
func (a *API) Mount(r chi.Router) {
	for _, route := range []string{collectionRoute, collectionRoute + "/", uploadRoute} {
		r.With(speaks).Options(route, a.options)
	}
	r.Group(func(r chi.Router) {
		uploads := a.deps.Auth.RequireOperation(func(*http.Request) account.Operation { return account.UploadMedia })
		r.Use(speaks, a.deps.Auth.Middleware(auth.ChallengeAll), uploads, speaksVersion)
		r.Post(collectionRoute, a.create)
		r.Post(collectionRoute+"/", a.create) // many clients' habit
		r.Head(uploadRoute, a.existing(http.MethodHead, a.handler.HeadFile))
		r.Patch(uploadRoute, a.existing(http.MethodPatch, a.handler.PatchFile))
		r.Delete(uploadRoute, a.existing(http.MethodDelete, a.handler.DelFile))
		r.Post(uploadRoute, a.overridden)
	})
}

// Drain asks running uploads to keep what they have and end, now and from now on:
// their clients go on at another replica. Call it when no new connections are taken.
func (a *API) Drain() {
	a.mu.Lock()
	a.draining = true
	var running []*call
	for one := range a.running {
		running = append(running, one)
	}
	a.mu.Unlock()
	for _, one := range running {
		one.interrupt(errDraining)
	}
}

// speaks tells the version in every answer, refusals included.
func speaks(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Tus-Resumable", version)
		w.Header().Set("Cache-Control", "no-store")
		if r.Method == http.MethodHead {
			w = patient{w}
		}
		next.ServeHTTP(w, r)
	})
}

// patient answers 423 to a question for an offset that can't be answered just now. The
// clients that most pages use ask again after that. Any other refusal they take for the
// end of the upload: they begin another one, whose bytes count towards the cap as well.
type patient struct{ http.ResponseWriter }

// WriteHeader sends the header.
func (p patient) WriteHeader(status int) {
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		status = http.StatusLocked
	}
	p.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (p patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// speaksVersion refuses clients of other versions before anything of a request is
// looked at. HEAD is let through without, as it harms nothing.
func speaksVersion(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodHead && r.Header.Get("Tus-Resumable") != version {
			w.Header().Set("Tus-Version", version)
			httpapi.WriteErrorStatus(w, r, http.StatusPreconditionFailed, fault.New(fault.Invalid, "send Tus-Resumable: %s", version))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// options tells what is spoken. Anybody may know that; how large a file may be is told
// to whom it concerns.
func (a *API) options(w http.ResponseWriter, r *http.Request) {
	tell := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Tus-Version", version)
		header.Set("Tus-Extension", extensions)
		header.Set("Tus-Checksum-Algorithm", checksumAlgorithms)
		if grant := auth.FromContext(r.Context()); grant.Key.ID != uuid.Nil {
			header.Set("Tus-Max-Size", strconv.FormatInt(grant.Account.MaxUploadSize, 10))
		}
		w.WriteHeader(http.StatusNoContent)
	})
	for _, credential := range []string{a.deps.Auth.KeyHeader, a.deps.Auth.SignatureHeader, "Authorization"} {
		if r.Header.Get(credential) != "" {
			a.deps.Auth.Middleware(auth.ChallengeAll)(tell).ServeHTTP(w, r)
			return
		}
	}
	tell(w, r)
}

// create answers POST on the collection: a new upload, perhaps with its first bytes.
func (a *API) create(w http.ResponseWriter, r *http.Request) {
	r.Header.Del("X-HTTP-Method-Override")
	a.serve(w, r, "", a.handler.PostFile, func(c *call) error {
		if r.Header.Get("Upload-Concat") != "" {
			return fault.New(fault.Invalid, "uploads can't be concatenated here")
		}
		if err := digits(r.Header, "Upload-Length"); err != nil {
			return err
		}
		var err error
		if c.fields, err = readMetadata(r.Header.Values("Upload-Metadata")); err != nil {
			return err
		}
		c.metadata = r.Header.Get("Upload-Metadata")
		if c.grant.Group != "" {
			c.fields.Group = c.grant.Group
		}
		return nil
	})
}

// existing answers a request for an upload that must be there. Whose it is is found
// out before the lock is asked for, so that nobody can hold up a stranger's upload.
func (a *API) existing(method string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		text := chi.URLParam(r, "uploadId")
		r = r.Clone(r.Context())
		r.Method = method
		r.Header.Del("X-HTTP-Method-Override")
		a.serve(w, r, text, next, func(c *call) error {
			id, err := uuid.Parse(text)
			if err != nil || id.String() != text {
				return errNoUpload
			}
			found, err := a.deps.Media.FindResumable(c.ctx, c.grant.Principal, id)
			if err != nil {
				return missing(err)
			}
			state := found.State()
			if !mayUse(c.grant, state) {
				return errNoUpload
			}
			c.ending = method == http.MethodDelete
			if method != http.MethodPatch {
				return nil
			}
			if err := digits(r.Header, "Upload-Length"); err != nil {
				return err
			}
			return digits(r.Header, "Upload-Offset")
		})
	}
}

// overridden answers clients that can't send every method.
func (a *API) overridden(w http.ResponseWriter, r *http.Request) {
	switch method := r.Header.Get("X-HTTP-Method-Override"); method {
	case http.MethodHead:
		a.existing(method, a.handler.HeadFile)(w, r)
	case http.MethodPatch:
		a.existing(method, a.handler.PatchFile)(w, r)
	case http.MethodDelete:
		a.existing(method, a.handler.DelFile)(w, r)
	default:
		w.Header().Set("Allow", "HEAD, PATCH, DELETE, OPTIONS")
		httpapi.WriteErrorStatus(w, r, http.StatusMethodNotAllowed, fault.New(fault.Invalid, "the route has other methods"))
	}
}

// mayUse reports whether a grant reaches an upload of its app: a signature that is bound
// to a group reaches that group's uploads and no others.
func mayUse(grant auth.Identity, state media.ResumableState) bool {
	return grant.Group == "" || grant.Group == state.Fields.Group
}

// digits refuses numbers that a looser reader would take.
func digits(header http.Header, name string) error {
	values := header.Values(name)
	if len(values) > 1 || len(values) == 1 && strings.Trim(values[0], "0123456789") != "" {
		return fault.New(fault.Invalid, "%s must be a number, sent once", name)
	}
	return nil
}

// serve carries out one request: prepare looks at it, next is tusd's.
func (a *API) serve(w http.ResponseWriter, r *http.Request, path string, next http.HandlerFunc, prepare func(*call) error) {
	c := newCall(w, r)
	c.reauthenticate = func() error { return a.deps.Auth.Reauthenticate(w, r) }
	if !a.enter(c) {
		c.interrupt(errDraining)
	}
	defer func() { a.leave(c); c.end() }()
	out := &answer{ResponseWriter: w, api: a, call: c, request: r}
	err := prepare(c)
	if err == nil {
		c.checksum, err = readChecksum(r.Header.Values("Upload-Checksum"))
	}
	if err != nil {
		out.fail(err)
		return
	}
	below := r.WithContext(context.WithValue(r.Context(), callKey{}, c))
	below.Body = c.body
	url := *r.URL
	url.Path, url.RawPath = path, ""
	below.URL = &url
	a.handler.Middleware(next).ServeHTTP(out, below)
	out.finish()
}

func (a *API) enter(c *call) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running[c] = struct{}{}
	return !a.draining
}

func (a *API) leave(c *call) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.running, c)
}
