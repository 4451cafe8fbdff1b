// Package oauthhttp is the authorization server of the service: an application sends a
// person here, who proves an e-mail address and allows the connection; the application
// gets its tokens (RFC 6749 with OAuth 2.1's restrictions, RFC 7591, 7636, 8414, 8707,
// 9207 and 9728, and Client ID Metadata Documents). The rules of a login are in
// package login; here are parameters, pages and answers. Package server mounts it.
package oauthhttp

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"mediastack.dev/runtime/internal/limit"
	"mediastack.dev/runtime/internal/oauthhttp/pages"
	"mediastack.dev/runtime/oauth"
)

// Config says which applications may come. The tags are flag and environment names.
type Config struct {
	AllowedRedirectURIs     []string `name:"oauth-allowed-redirect-uris" env:"SERVICE_OAUTH_ALLOWED_REDIRECT_URIS" default:"cursor://anysphere.cursor-mcp/oauth/callback" help:"Redirect URIs with schemes of their own (app://...) that applications may use, in full. Those of https and of this computer need no entry."`
	TrustedHosts            []string `name:"oauth-trusted-hosts" env:"SERVICE_OAUTH_TRUSTED_HOSTS" default:"claude.ai,claude.com,chatgpt.com,vscode.dev" help:"Hosts that applications may send people back to without a warning that nobody knows them."`
	ClientMetadataDocuments bool     `name:"oauth-client-metadata-documents" env:"SERVICE_OAUTH_CLIENT_METADATA_DOCUMENTS" default:"true" negatable:"" help:"Accept applications that describe themselves at a public https address, which is then fetched (Client ID Metadata Documents)."`
}

// browserSchemes are schemes that browsers open themselves. A page of ours links to the
// others.
var browserSchemes = []string{"", "http", "https", "javascript", "vbscript", "data", "blob", "file", "filesystem", "about", "view-source", "ws", "wss"}

// Validate checks the form of the lists.
func (c Config) Validate() error {
	for _, text := range c.AllowedRedirectURIs {
		uri, err := url.Parse(text)
		if text != "" && (err != nil || slices.Contains(browserSchemes, uri.Scheme) || !isWellFormedURI(text, uri)) {
			return fmt.Errorf("SERVICE_OAUTH_ALLOWED_REDIRECT_URIS must hold URIs like app://host/callback, not %q", text)
		}
	}
	for _, host := range c.TrustedHosts {
		if host != "" && (strings.ContainsAny(host, "/:@* ") || host != strings.ToLower(host)) {
			return fmt.Errorf("SERVICE_OAUTH_TRUSTED_HOSTS must hold names like claude.ai, not %q", host)
		}
	}
	return nil
}

// Deps are what the server stands on.
type Deps struct {
	OAuth *oauth.Service
	Pages *pages.Pages
	// Limits bound how often an address begins a login; nil = no limit.
	Limits *limit.Limiter
	// BaseURL is how clients reach the service. It is the issuer, whatever a request says.
	BaseURL string
	// Name is what people know the service by.
	Name string
	// Now is the clock.
	Now func() time.Time
}

// API serves the endpoints. It is safe for concurrent use.
type API struct {
	Deps
	cfg      Config
	issuer   string
	secure   bool
	metadata *metadataFetcher
	csrf     *http.CrossOriginProtection
}

// Paths of the endpoints. Scripts of every origin may call those that have no page and
// no cookie (see package server).
const (
	resourcePath         = "/mcp"
	authorizePath        = "/oauth/authorize"
	loginPath            = "/oauth/login"
	connectionsPath      = "/account/connections"
	resourceMetadataPath = "/.well-known/oauth-protected-resource"
	serverMetadataPath   = "/.well-known/oauth-authorization-server"
)

// Resource is what access tokens are for (RFC 8707), and MetadataURL where clients
// learn who gives them (RFC 9728).
func Resource(baseURL string) string { return strings.TrimRight(baseURL, "/") + resourcePath }

// MetadataURL is where clients learn who gives access tokens (RFC 9728).
func MetadataURL(baseURL string) string {
	return strings.TrimRight(baseURL, "/") + resourceMetadataPath + resourcePath
}

// New joins the server to its parts.
func New(cfg Config, parts Deps) (*API, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	base, err := url.Parse(parts.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("read the base URL: %w", err)
	}
	a := &API{Deps: parts, cfg: cfg, issuer: strings.TrimRight(parts.BaseURL, "/"), secure: base.Scheme == "https",
		metadata: newMetadataFetcher(allowPublic, parts.Now), csrf: http.NewCrossOriginProtection()}
	if err := a.csrf.AddTrustedOrigin(base.Scheme + "://" + base.Host); err != nil {
		return nil, fmt.Errorf("read the base URL: %w", err)
	}
	return a, nil
}

// Mount adds the routes.
func (a *API) Mount(r chi.Router) {
	for _, path := range []string{resourceMetadataPath, resourceMetadataPath + resourcePath} {
		r.Get(path, a.resourceMetadata)
	}
	r.Get(serverMetadataPath, a.serverMetadata)
	r.Post("/oauth/register", a.register)
	r.Post("/oauth/token", a.token)
	r.Post("/oauth/revoke", a.revoke)

	r.Get(authorizePath, a.authorize)
	r.Get(loginPath, a.showLogin)
	r.Post(loginPath+"/email", a.csrfProtected(a.submitEmail))
	r.Post(loginPath+"/code", a.csrfProtected(a.submitCode))
	r.Post("/oauth/consent", a.csrfProtected(a.submitConsent))
	for _, path := range []string{loginPath + "/email", loginPath + "/code", "/oauth/consent"} {
		r.Get(path, a.redirectToStep)
	}
	r.Get(connectionsPath, a.showAuthorizedApps)
	r.Post(connectionsPath+"/end", a.csrfProtected(a.revokeApps))
	r.Post(connectionsPath+"/logout", a.csrfProtected(a.logOut))
	r.Handle(pages.AssetsPath+"*", a.Pages.Assets())
}
