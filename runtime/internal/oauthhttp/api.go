// Package oauthhttp provides the endpoints and pages of the authorization server: RFC 6749
// with the restrictions of OAuth 2.1, RFC 7591 (registration), 7636 (PKCE), 8414 and 9728
// (metadata), 8707 (resource indicators), 9207 (issuer identification), and Client ID
// Metadata Documents. Package oauth has the rules; this package validates parameters,
// renders pages and writes responses. Package webfiles uses its login for the files page, by the
// names in ownerpages.go. Package server mounts it.
package oauthhttp

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/oauthhttp/pages"
	"mediastack.dev/runtime/internal/ratelimit"
	"mediastack.dev/runtime/oauth"
)

// Deps are the dependencies of an API.
type Deps struct {
	OAuth *oauth.Service
	Pages *pages.Pages
	// Limits bounds how often an IP address starts a login; nil = no limit.
	Limits *ratelimit.Limiter
	// BaseURL is the public URL of the service, and the issuer.
	BaseURL string
	// Name is the display name of the service.
	Name string
	// Privacy and Terms are the URLs of its policies; empty = none.
	Privacy, Terms string
	// Files are the pages about files, which package webfiles serves; nil = there are none.
	Files *OwnerPages
	Now   func() time.Time
}

// API serves the endpoints. It is safe for concurrent use.
type API struct {
	Deps
	cfg      Config
	issuer   string
	secure   bool // the service is reached by https
	metadata *metadataFetcher
	csrf     *http.CrossOriginProtection
}

// Paths of the endpoints. Package server lets scripts of every origin call those that have
// neither a page nor a cookie.
const (
	resourcePath         = api.ToolsRoute
	authorizePath        = "/oauth/authorize"
	tokenPath            = api.TokenRoute
	registerPath         = api.RegisterRoute
	revokePath           = api.RevokeRoute
	loginPath            = "/oauth/login"
	loginEmailPath       = loginPath + "/email"
	loginCodePath        = loginPath + "/code"
	loginChangePath      = loginPath + "/change"
	consentPath          = "/oauth/consent"
	accountPath          = "/account"
	appsPath             = AccountPaths + "connections"
	revokeAppsPath       = appsPath + "/revoke"
	logoutPath           = appsPath + "/logout"
	resourceMetadataPath = api.WellKnownPath + "oauth-protected-resource"
	serverMetadataPath   = api.WellKnownPath + "oauth-authorization-server"
)

// Resource returns the resource identifier of access tokens (RFC 8707).
func Resource(baseURL string) string { return strings.TrimRight(baseURL, "/") + resourcePath }

// MetadataURL returns the URL of the protected resource metadata (RFC 9728).
func MetadataURL(baseURL string) string {
	return strings.TrimRight(baseURL, "/") + resourceMetadataPath + resourcePath
}

// New returns an API that uses deps.
func New(cfg Config, deps Deps) (*API, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	base, err := url.Parse(deps.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("parse the base URL: %w", err)
	}
	a := &API{Deps: deps, cfg: cfg, issuer: strings.TrimRight(deps.BaseURL, "/"), secure: base.Scheme == "https",
		metadata: newMetadataFetcher(allowPublic, deps.Now), csrf: http.NewCrossOriginProtection()}
	if err := a.csrf.AddTrustedOrigin(base.Scheme + "://" + base.Host); err != nil {
		return nil, fmt.Errorf("parse the base URL: %w", err)
	}
	return a, nil
}

// Mount adds the routes.
func (a *API) Mount(r chi.Router) {
	for _, path := range []string{resourceMetadataPath, resourceMetadataPath + resourcePath} {
		r.Get(path, a.resourceMetadata)
	}
	r.Get(serverMetadataPath, a.serverMetadata)
	r.Post(registerPath, a.register)
	r.Post(tokenPath, a.token)
	r.Post(revokePath, a.revoke)

	r.Get(authorizePath, a.authorize)
	r.Get(loginPath, a.showLogin)
	r.Post(loginEmailPath, a.CSRFProtected(a.submitEmail))
	r.Post(loginCodePath, a.CSRFProtected(a.submitCode))
	r.Post(loginChangePath, a.CSRFProtected(a.restartLogin))
	r.Post(consentPath, a.CSRFProtected(a.submitConsent))
	for _, path := range []string{loginEmailPath, loginCodePath, loginChangePath, consentPath} {
		r.Get(path, a.redirectToStep)
	}
	r.Get(appsPath, a.showAuthorizedApps)
	r.Post(revokeAppsPath, a.CSRFProtected(a.revokeApps))
	r.Post(logoutPath, a.csrfProtectedOr(maxForm, a.logOut, a.loggedOut))
	for _, path := range []string{accountPath, revokeAppsPath, logoutPath} {
		r.Get(path, a.redirectToAccount)
	}
	r.Handle(pages.AssetsPath+"*", a.Pages.Assets())
}
