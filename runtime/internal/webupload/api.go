// Package webupload serves the pages on which a person hands over a file that an assistant has requested, without an account and without a script:
// /upload/{token}. The token becomes the upload signature of the request (packages handover and auth), and the upload is one of REST or TUS with
// it, so every rule of those applies. Package server mounts it.
package webupload

import (
	"context"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/handover"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/oauthhttp/pages"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/upload"
)

// Uploads receive the file. upload.Service implements it.
type Uploads interface {
	BeginWith(ctx context.Context, p account.Principal, capability *upload.Capability, sizeHint int64) (*upload.Single, error)
	End(ctx context.Context, p account.Principal, capability *upload.Capability, id uuid.UUID) error
}

// Items reads the file that was handed over. media.Service implements it.
type Items interface {
	Get(ctx context.Context, p account.Principal, id uuid.UUID) (media.Item, error)
}

var (
	_ Uploads = (*upload.Service)(nil)
	_ Items   = (*media.Service)(nil)
)

// Deps are the dependencies of an API.
type Deps struct {
	Requests *handover.Service
	Auth     *auth.Authenticator
	Uploads  Uploads
	Items    Items
	Pages    *pages.Pages
	// Assets is set if nothing else serves the files of the pages.
	Assets bool
	// APIs mount the routes of REST and TUS.
	APIs []func(chi.Router)
	// BaseURL is the public URL of the service.
	BaseURL string
}

// API serves the pages. It is safe for concurrent use.
type API struct {
	Deps
	base string
	// forms takes the form of the page, and apis what programs and the script of the page send. Both are reached with the signature of a request only.
	forms, apis http.Handler
}

// Patterns of the routes.
const (
	pageRoute      = handover.PagePath + "{token}"
	againRoute     = pageRoute + "/again"
	fileRoute      = pageRoute + handover.FileSuffix
	resumableRoute = pageRoute + handover.ResumableSuffix
	resumedRoute   = resumableRoute + "/{uploadId}"
)

// New returns an API that uses deps.
func New(deps Deps) *API {
	a := &API{Deps: deps, base: strings.TrimRight(deps.BaseURL, "/")}
	forms, apis := chi.NewRouter(), chi.NewRouter()
	forms.With(a.Auth.Middleware(auth.ChallengeAll), a.Auth.RequireOperation(func(*http.Request) account.Operation { return account.UploadMedia })).Post(api.UploadRoute, a.receive)
	for _, mount := range deps.APIs {
		apis.Group(mount)
	}
	a.forms, a.apis = forms, apis
	return a
}

// Mount adds the routes.
func (a *API) Mount(r chi.Router) {
	r.Get(pageRoute, a.show)
	r.Post(pageRoute, a.submit)
	r.Post(againRoute, a.again)
	r.Get(againRoute, a.redirect)
	r.Post(fileRoute, a.passTo(api.UploadRoute))
	for _, method := range []string{http.MethodPost, http.MethodOptions} {
		r.Method(method, resumableRoute, a.passTo(api.ResumableRoute))
	}
	for _, method := range []string{http.MethodHead, http.MethodPatch, http.MethodDelete, http.MethodPost, http.MethodOptions} {
		r.Method(method, resumedRoute, a.passToUpload())
	}
	if a.Assets {
		r.Handle(pages.AssetsPath+"*", a.Pages.Assets())
	}
}
