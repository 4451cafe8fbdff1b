// Package webtest runs replicas with logins and the files page, and the browsers and applications that use them, for the
// tests of packages oauthhttp and webfiles.
package webtest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/delivery"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/oauthhttp"
	"mediastack.dev/runtime/internal/oauthhttp/pages"
	"mediastack.dev/runtime/internal/ratelimit"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/internal/webfiles"
	"mediastack.dev/runtime/keys"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/upload"
)

const (
	// BaseURL is the URL of every replica.
	BaseURL = runtimetest.BaseURL
	// Resource is the resource identifier of access tokens.
	Resource = BaseURL + "/mcp"
	// RedirectURI is that of applications that have no other.
	RedirectURI = "http://127.0.0.1:6276/oauth/callback"
	// Owner is the address of an owner.
	Owner = "ana@example.org"
)

// World is a database with the actions of the operator.
type World struct{ *runtimetest.Env }

// NewWorld returns a new database.
func NewWorld(t *testing.T) *World { t.Helper(); return &World{runtimetest.New(t)} }

// OwnedTenant creates an account with these owners.
func (w *World) OwnedTenant(t *testing.T, name string, owners ...string) runtimetest.Tenant {
	t.Helper()
	return w.Tenant(t, account.Spec{Name: name, DisplayName: "The " + name, Owners: owners, MaxStorage: 64 << 20, MaxUploadSize: 24 << 20})
}

// Replica is a replica with logins, the files page and a route that returns the caller.
type Replica struct {
	*runtimetest.Core
	*runtimetest.Replica
	Clock *runtimetest.Clock

	env    *runtimetest.Env
	logins *oauth.Service

	mu    sync.Mutex
	codes map[string]string // the newest code by e-mail address
}

// Options are those of a replica.
type Options struct {
	Base   string
	Login  oauth.Config
	OAuth  oauthhttp.Config
	Files  webfiles.Config
	Limits ratelimit.Config
	Pages  pages.Config
	// Configure changes the authorization server before it serves; nil = it stays.
	Configure func(*oauthhttp.API)
	Clock     *runtimetest.Clock
	// Stall is the stall timeout of the server, and Anonymous that of bodies without a credential.
	Stall, Anonymous time.Duration
	// Document is the time of a form or a registration.
	Document  time.Duration
	Media     media.Config
	Upload    upload.Config
	Delivery  delivery.Config
	Presigner delivery.Presigner
	// Images reports whether uploads get thumbnails.
	Images bool
	// UseCases changes the use cases of the files page; nil = they are those of the service.
	UseCases func(webfiles.Media) webfiles.Media
	// Writable returns why nothing may be changed; nil = everything may.
	Writable func() error
}

// defaults is the default configuration, without the limits that tests would exceed: there is
// no minimum time between codes.
func defaults() Options {
	return Options{Base: BaseURL, Clock: &runtimetest.Clock{}, Stall: runtimetest.Long,
		Login: oauth.Config{SessionTTL: 15 * time.Minute, MaxTTL: 12 * time.Hour, CodeTTL: 10 * time.Minute, MaxAttempts: 5, CodesPerEmail: 5, AttemptsPerEmail: 15, CodesPerIP: 20,
			AuthorizationCodeTTL: time.Minute, AccessTTL: time.Hour, RefreshTTL: 720 * time.Hour, RefreshGrace: 90 * time.Second, RegistrationsPerIP: 100},
		OAuth: oauthhttp.Config{AllowedRedirectURIs: []string{"cursor://anysphere.cursor-mcp/oauth/callback"}, TrustedHosts: []string{"claude.ai", "claude.com", "chatgpt.com", "vscode.dev"}, ClientMetadataDocuments: true},
		Files: webfiles.Config{Enabled: true, PerPage: 24, MaxShare: 720 * time.Hour, MaxArchive: 1 << 30, Archives: 8},
		Media: runtimetest.MediaConfig(), Upload: runtimetest.UploadConfig(), Delivery: delivery.Config{TTL: time.Hour, PublicMaxAge: time.Hour, Mode: delivery.Stream, SmallFiles: 16 << 20},
		Pages: pages.Config{Name: "Media storage", Color: "#2456d6"},
	}
}

// Replica starts a replica with changed options.
func (w *World) Replica(t *testing.T, change ...func(*Options)) *Replica {
	t.Helper()
	o := defaults()
	for _, apply := range change {
		apply(&o)
	}
	rt := &Replica{env: w.Env, Clock: o.Clock, codes: map[string]string{}}
	credentials := runtimetest.Credentials("a")
	credentials.Resource, credentials.MetadataURL = oauthhttp.Resource(o.Base), oauthhttp.MetadataURL(o.Base)
	serverConfig := runtimetest.ServerConfig()
	serverConfig.BaseURL, serverConfig.StallTimeout, serverConfig.AnonymousTimeout, serverConfig.JSONBodyTimeout = o.Base, o.Stall, o.Anonymous, o.Document
	logs := &runtimetest.Log{}
	locks := w.Store.Uploads.UploadLocks(logs.Logger())
	rt.Core = w.Core(t, runtimetest.CoreConfig{Server: serverConfig, Media: o.Media, Upload: o.Upload, Locks: locks, LockTimeout: time.Minute, Logs: logs, Limits: o.Limits, Auth: credentials, Delivery: o.Delivery, Now: rt.Clock.Now,
		Images: o.Images, Presigner: o.Presigner, Writable: o.Writable})
	secret, err := credentials.ServerSecret()
	must(t, err)
	signer, err := secret.Signer(keys.PurposeOAuth)
	must(t, err)
	encrypter, err := secret.Encrypter(keys.PurposeEmailOutbox)
	must(t, err)
	log := rt.Logs.Logger()
	rt.logins, err = oauth.NewService(o.Login, oauth.Deps{Store: w.Store.Logins, Signer: signer, Encrypter: encrypter, Now: rt.Clock.Now, Log: log})
	must(t, err)
	shown, err := pages.New(o.Pages)
	must(t, err)
	loginDeps := oauthhttp.Deps{OAuth: rt.logins, Pages: shown, Limits: rt.Limits, BaseURL: o.Base, Name: o.Pages.Name, Privacy: o.Pages.Privacy, Terms: o.Pages.Terms, Now: rt.Clock.Now}
	if o.Files.Enabled {
		loginDeps.Files = webfiles.OwnerPages()
	}
	login, err := oauthhttp.New(o.OAuth, loginDeps)
	must(t, err)
	if o.Configure != nil {
		o.Configure(login)
	}
	apis := []func(chi.Router){login.Mount, rt.Files.Mount, rt.mountWhoami}
	if o.Files.Enabled {
		var useCases webfiles.Media = rt.Media
		if o.UseCases != nil {
			useCases = o.UseCases(useCases)
		}
		page, err := webfiles.New(o.Files, webfiles.Deps{Login: login, OAuth: rt.logins, Pages: shown, Limits: rt.Limits, BaseURL: o.Base, Now: rt.Clock.Now,
			Media: useCases, Uploads: rt.Uploads, Activity: rt.Activity, Approvals: rt.Approvals, URLs: rt.Files.URLs(), Links: rt.Files.URLs(), Inline: delivery.IsInline, Objects: w.Objects, ArchiveRate: 64 << 10, Signatures: rt.signUploads, Settings: w.Settings, StoreOrigin: rt.Files.StoreOrigin, DraftTTL: 24 * time.Hour, CheckWritable: rt.Auth.CheckWritable})
		must(t, err)
		apis = append(apis, page.Mount)
	}
	rt.Replica = rt.Serve(t, nil, apis, locks.Run)
	return rt
}

// signUploads issues an upload signature as the runtime does.
func (rt *Replica) signUploads(r *http.Request, p account.Principal, seal bool) (header, signature string, expires time.Time, err error) {
	signature, expires, err = rt.Auth.IssueWithin(r.Context(), auth.Identity{Principal: p, Assistant: true}, api.SignatureRequest{Seal: &seal}, webfiles.SignatureTTL)
	return rt.Auth.SignatureHeader, signature, expires, err
}

// mountWhoami adds the route that returns the caller.
func (rt *Replica) mountWhoami(r chi.Router) {
	r.With(rt.Auth.Middleware(auth.ChallengeLogin)).Get("/whoami", func(w http.ResponseWriter, r *http.Request) {
		grant := auth.FromContext(r.Context())
		httpapi.WriteJSON(w, r, http.StatusOK, map[string]any{"account": grant.Account.ID, "app": grant.App.Name, "key": grant.Key.ID, "scopes": grant.Scopes})
	})
}

// Code returns the newest code that was mailed to an address, and reports whether there is one.
func (rt *Replica) Code(t *testing.T, address string) (string, bool) {
	t.Helper()
	emails := rt.env.Emails(t, rt.logins, rt.Clock.Now())
	rt.mu.Lock()
	defer rt.mu.Unlock()
	for _, email := range emails {
		rt.codes[email.To] = email.Code
	}
	code, ok := rt.codes[address]
	delete(rt.codes, address)
	return code, ok
}

// Browser keeps cookies and follows no redirect by itself.
type Browser struct {
	// HTTP has the cookies. Replica answers.
	HTTP    *http.Client
	Replica *Replica
	t       *testing.T
}

// Browser returns a browser without cookies.
func (rt *Replica) Browser(t *testing.T) *Browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	must(t, err)
	b := &Browser{t: t, HTTP: &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	b.At(rt)
	return b
}

// At sends the next requests of the browser to a replica.
func (b *Browser) At(rt *Replica) {
	b.Replica, b.HTTP.Transport = rt, runtimetest.Dialer(rt.Addr())
}

// Paused sets the default minimum time between codes.
func Paused(o *Options) { o.Login.ResendAfter = 30 * time.Second }

// Page is a complete response. Text is its body.
type Page struct {
	*http.Response
	Text string
}

// Is reports an error if the status is another one. what names the request, with its arguments.
func (p Page) Is(t *testing.T, status int, what string, args ...any) {
	t.Helper()
	runtimetest.CheckStatus(t, t.Errorf, p.StatusCode, status, []byte(p.Text), what, args...)
}

// Do sends a request.
func (b *Browser) Do(r *http.Request) Page {
	b.t.Helper()
	response, err := b.HTTP.Do(r)
	must(b.t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	must(b.t, err)
	return Page{response, string(body)}
}

// Get requests a path and follows redirects within the service.
func (b *Browser) Get(path string) Page {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, runtimetest.Absolute(path), nil)
	must(b.t, err)
	return b.Follow(b.Do(r))
}

// Follow follows the redirects of a page within the service.
func (b *Browser) Follow(p Page) Page {
	b.t.Helper()
	for p.StatusCode == http.StatusSeeOther && (strings.HasPrefix(p.Header.Get("Location"), "/") || strings.HasPrefix(p.Header.Get("Location"), BaseURL+"/")) {
		r, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, runtimetest.Absolute(p.Header.Get("Location")), nil)
		must(b.t, err)
		p = b.Do(r)
	}
	return p
}

var hidden = regexp.MustCompile(`<input[^>]*type="hidden"[^>]*>`)

var attribute = regexp.MustCompile(`(name|value)="([^"]*)"`)

// Fields returns the hidden fields of the forms of a page.
func (p Page) Fields() url.Values {
	fields := url.Values{}
	for _, input := range hidden.FindAllString(p.Text, -1) {
		found := map[string]string{}
		for _, match := range attribute.FindAllStringSubmatch(input, -1) {
			found[match[1]] = html.UnescapeString(match[2])
		}
		fields.Set(found["name"], found["value"])
	}
	return fields
}

// Post submits a form of a page and follows redirects within the service.
func (b *Browser) Post(path string, from Page, fields url.Values, change ...func(*http.Request)) Page {
	b.t.Helper()
	return b.Follow(b.Send(path, from, fields, change...))
}

// Send submits a form of a page.
func (b *Browser) Send(path string, from Page, fields url.Values, change ...func(*http.Request)) Page {
	b.t.Helper()
	sent := url.Values{}
	for _, name := range []string{"request", "csrf"} {
		sent.Set(name, from.Fields().Get(name))
	}
	for name, values := range fields {
		sent[name] = values
	}
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, runtimetest.Absolute(path), strings.NewReader(sent.Encode()))
	must(b.t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", BaseURL)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	for _, apply := range change {
		apply(r)
	}
	return b.Do(r)
}

// Application is a registered client.
type Application struct {
	ID, Redirect, Verifier string
}

// Verifier is the PKCE code verifier of applications.
const Verifier = "a-verifier-of-forty-three-characters-or-more-0"

// Challenge returns the PKCE code challenge of a verifier.
func Challenge(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Application registers a client.
func (b *Browser) Application(name string, redirects ...string) Application {
	b.t.Helper()
	if len(redirects) == 0 {
		redirects = []string{RedirectURI}
	}
	status, response := b.JSON("/oauth/register", map[string]any{"client_name": name, "redirect_uris": redirects})
	if status != http.StatusCreated {
		b.t.Fatalf("register: %d %v", status, response)
	}
	return Application{ID: response["client_id"].(string), Redirect: redirects[0], Verifier: Verifier}
}

// JSON posts a JSON document.
func (b *Browser) JSON(path string, document any) (int, map[string]any) {
	b.t.Helper()
	body, err := json.Marshal(document)
	must(b.t, err)
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, runtimetest.Absolute(path), strings.NewReader(string(body)))
	must(b.t, err)
	r.Header.Set("Content-Type", "application/json")
	return b.Answer(r)
}

// Answer sends a request and returns the members of the response.
func (b *Browser) Answer(r *http.Request) (int, map[string]any) {
	b.t.Helper()
	p := b.Do(r)
	response := map[string]any{}
	_ = json.Unmarshal([]byte(p.Text), &response)
	return p.StatusCode, response
}

// Query returns the URL of an authorization request; more replaces parameters, and nil
// removes one.
func (a Application) Query(more url.Values) string {
	query := url.Values{"response_type": {"code"}, "client_id": {a.ID}, "redirect_uri": {a.Redirect}, "state": {"s t&te"}, "scope": {"media:read media:write"},
		"code_challenge": {Challenge(a.Verifier)}, "code_challenge_method": {"S256"}, "resource": {Resource}}
	for name, values := range more {
		query[name] = values
		if values == nil {
			delete(query, name)
		}
	}
	return "/oauth/authorize?" + query.Encode()
}

// Login logs in and returns the page after the code.
func (b *Browser) Login(start, address string) Page {
	b.t.Helper()
	p := b.Get(start)
	if p.StatusCode != http.StatusOK {
		b.t.Fatalf("the first page: %d %s", p.StatusCode, p.Text)
	}
	p = b.Post("/oauth/login/email", p, url.Values{"email": {address}})
	if p.StatusCode != http.StatusOK {
		b.t.Fatalf("the page of the code: %d %s", p.StatusCode, p.Text)
	}
	code, ok := b.Replica.Code(b.t, strings.ToLower(address))
	if !ok {
		b.t.Fatalf("no code for %s", address)
	}
	return b.Post("/oauth/login/code", p, url.Values{"code": {code}})
}

// Allow approves the request for an account and returns the authorization response.
func (b *Browser) Allow(p Page, of runtimetest.Tenant) url.Values {
	b.t.Helper()
	return b.Told(b.Send("/oauth/consent", p, url.Values{"decision": {"allow"}, "account": {of.Account.ID.String()}}))
}

// Told returns the parameters of a redirect to the client.
func (b *Browser) Told(p Page) url.Values {
	b.t.Helper()
	to, err := url.Parse(p.Header.Get("Location"))
	must(b.t, err)
	if p.StatusCode != http.StatusSeeOther || to.Host == "media.test" || to.Host == "" {
		b.t.Fatalf("no answer to the application: %d %s %s", p.StatusCode, p.Header.Get("Location"), p.Text)
	}
	return to.Query()
}

// Form posts a form without a page, as a client does.
func (b *Browser) Form(path string, fields url.Values) (int, map[string]any) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, runtimetest.Absolute(path), strings.NewReader(fields.Encode()))
	must(b.t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return b.Answer(r)
}

// Redeem exchanges a code for tokens.
func (b *Browser) Redeem(a Application, code string) (int, map[string]any) {
	b.t.Helper()
	return b.Form("/oauth/token", url.Values{"grant_type": {"authorization_code"}, "code": {code}, "client_id": {a.ID}, "redirect_uri": {a.Redirect}, "code_verifier": {a.Verifier}, "resource": {Resource}})
}

// Refresh refreshes tokens.
func (b *Browser) Refresh(a Application, token string) (int, map[string]any) {
	b.t.Helper()
	return b.Form("/oauth/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}, "client_id": {a.ID}})
}

// Connect runs the complete flow: log in, approve, exchange the code.
func (b *Browser) Connect(a Application, address string, of runtimetest.Tenant) (access, refresh string) {
	b.t.Helper()
	told := b.Allow(b.Login(a.Query(nil), address), of)
	status, response := b.Redeem(a, told.Get("code"))
	if status != http.StatusOK {
		b.t.Fatalf("tokens: %d %v", status, response)
	}
	return response["access_token"].(string), response["refresh_token"].(string)
}

// Whoami returns the status of a request with a token, and the caller.
func (b *Browser) Whoami(token string) (int, map[string]any) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, runtimetest.Absolute("/whoami"), nil)
	must(b.t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	return b.Answer(r)
}

var must = check.NoError

// Text returns the text that a query selects.
func (w *World) Text(t *testing.T, query string, args ...any) (text string) {
	t.Helper()
	must(t, testenv.Connections(t, w.Database.DatabaseURL).QueryRow(t.Context(), query, args...).Scan(&text))
	return text
}

// Exec runs a statement.
func (w *World) Exec(t *testing.T, statement string) {
	t.Helper()
	must(t, check.ErrorOf(testenv.Connections(t, w.Database.DatabaseURL).Exec(t.Context(), statement)))
}
