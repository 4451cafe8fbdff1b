package oauthhttp_test

import (
	"context"
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
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/accountcache"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/delivery"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/oauthhttp"
	"mediastack.dev/runtime/internal/oauthhttp/pages"
	"mediastack.dev/runtime/internal/ratelimit"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/internal/server"
	"mediastack.dev/runtime/keys"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/oauth"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const (
	baseURL  = runtimetest.BaseURL
	resource = baseURL + "/mcp"
	redirect = "http://127.0.0.1:6276/oauth/callback"
)

// world is a database with the actions of the operator.
type world struct{ *runtimetest.Env }

func newWorld(t *testing.T) *world { t.Helper(); return &world{runtimetest.New(t)} }

// tenant creates an account with these owners.
func (w *world) tenant(t *testing.T, name string, owners ...string) runtimetest.Tenant {
	t.Helper()
	return w.Tenant(t, account.Spec{Name: name, DisplayName: "The " + name, Owners: owners, MaxStorage: 64 << 20, MaxUploadSize: 24 << 20})
}

// replica is a runtime with logins and a route that returns the caller.
type replica struct {
	env    *runtimetest.Env
	logins *oauth.Service
	auth   *auth.Authenticator
	server *server.Server
	media  *media.Service
	clock  *runtimetest.Clock
	logs   *runtimetest.Log

	mu    sync.Mutex
	codes map[string]string // the newest code by e-mail address
}

// options of a replica.
type options struct {
	base   string
	login  oauth.Config
	oauth  oauthhttp.Config
	limits ratelimit.Config
	pages  pages.Config
	// documents fetches metadata documents; nil = from the internet.
	documents http.RoundTripper
	clock     *runtimetest.Clock
	// stall is the stall timeout of the server, and anonymous that of bodies without a credential.
	stall, anonymous time.Duration
	// document is the time of a form or a registration.
	document  time.Duration
	media     media.Config
	delivery  delivery.Config
	presigner delivery.Presigner
	// images reports whether uploads get thumbnails.
	images bool
	// useCases changes the use cases of the files page; nil = they are those of the service.
	useCases func(oauthhttp.Media) oauthhttp.Media
	// writable returns why nothing may be changed; nil = everything may.
	writable func() error
}

// defaults is the default configuration, without the limits that tests would exceed: there is
// no minimum time between codes.
func defaults() options {
	return options{base: baseURL, clock: &runtimetest.Clock{}, stall: runtimetest.Long,
		login: oauth.Config{SessionTTL: 15 * time.Minute, MaxTTL: 12 * time.Hour, CodeTTL: 10 * time.Minute, MaxAttempts: 5, CodesPerEmail: 5, AttemptsPerEmail: 15, CodesPerIP: 20,
			AuthorizationCodeTTL: time.Minute, AccessTTL: time.Hour, RefreshTTL: 720 * time.Hour, RefreshGrace: 90 * time.Second, RegistrationsPerIP: 100},
		oauth: oauthhttp.Config{AllowedRedirectURIs: []string{"cursor://anysphere.cursor-mcp/oauth/callback"}, TrustedHosts: []string{"claude.ai", "claude.com", "chatgpt.com", "vscode.dev"}, ClientMetadataDocuments: true, FilesPage: true, FilesPerPage: 24},
		media: runtimetest.MediaConfig(), delivery: delivery.Config{TTL: time.Hour, PublicMaxAge: time.Hour, Mode: delivery.Stream},
		pages: pages.Config{Name: "Media storage", Color: "#2456d6"},
	}
}

func (w *world) replica(t *testing.T, change ...func(*options)) *replica {
	t.Helper()
	o := defaults()
	for _, apply := range change {
		apply(&o)
	}
	rt := &replica{env: w.Env, clock: o.clock, logs: &runtimetest.Log{}, codes: map[string]string{}}
	log := rt.logs.Logger()
	registry := prometheus.NewRegistry()
	limits, err := ratelimit.New(o.limits, ratelimit.Deps{Registry: registry, Now: rt.clock.Now, Log: log})
	must(t, err)
	credentials := runtimetest.Credentials("a")
	credentials.Brand, credentials.Resource, credentials.MetadataURL = "service", oauthhttp.Resource(o.base), oauthhttp.MetadataURL(o.base)
	rt.auth, err = auth.New(credentials, auth.Deps{Store: w.Store, Limits: limits, Writable: o.writable, Now: rt.clock.Now, Log: log})
	must(t, err)
	secret, err := credentials.ServerSecret()
	must(t, err)
	signer, err := secret.Signer(keys.PurposeOAuth)
	must(t, err)
	encrypter, err := secret.Encrypter(keys.PurposeEmailOutbox)
	must(t, err)
	rt.logins, err = oauth.NewService(o.login, oauth.Deps{Store: w.Store, Signer: signer, Encrypter: encrypter, Now: rt.clock.Now, Log: log})
	must(t, err)
	shown, err := pages.New(o.pages)
	must(t, err)
	deps := media.Deps{Store: w.Store, Objects: w.Objects, Settings: w.Settings, Now: rt.clock.Now, Log: log}
	if o.images {
		deps.Deriver = runtimetest.Images(t, registry, log)
	}
	rt.media, err = media.New(o.media, deps)
	must(t, err)
	files, err := delivery.New(o.delivery, delivery.Deps{BaseURL: o.base, Secret: secret, Items: rt.media, Objects: w.Objects, Presigner: o.presigner, Registry: registry, Now: rt.clock.Now, Log: log})
	must(t, err)
	var useCases oauthhttp.Media = rt.media
	if o.useCases != nil {
		useCases = o.useCases(useCases)
	}
	locks := w.Store.UploadLocks(log)
	api, err := oauthhttp.New(o.oauth, oauthhttp.Deps{OAuth: rt.logins, Pages: shown, Limits: limits, BaseURL: o.base, Name: o.pages.Name, Now: rt.clock.Now,
		Files: &oauthhttp.Files{Media: useCases, Uploads: media.NewRunningUploads(rt.media, locks, time.Minute), URLs: files.URLs(), Settings: w.Settings, StoreOrigin: files.StoreOrigin, DraftTTL: 24 * time.Hour, CheckWritable: rt.auth.CheckWritable}})
	must(t, err)
	if o.documents != nil {
		api.AnswerDocuments(o.documents)
	}
	whoami := func(r chi.Router) {
		r.With(rt.auth.Middleware(auth.ChallengeLogin)).Get("/whoami", func(w http.ResponseWriter, r *http.Request) {
			grant := auth.FromContext(r.Context())
			httpapi.WriteJSON(w, r, http.StatusOK, map[string]any{"account": grant.Account.ID, "app": grant.App.Name, "key": grant.Key.ID, "scopes": grant.Scopes})
		})
	}
	rt.server, err = server.New(server.Config{BaseURL: o.base, Brand: "service", Listen: "127.0.0.1:0", AdminListen: "127.0.0.1:0",
		StallTimeout: o.stall, AnonymousTimeout: o.anonymous, JSONBodyTimeout: o.document, DiscardLimit: 16 << 20, DiscardTimeout: time.Minute, ShutdownTimeout: 30 * time.Second},
		server.Deps{Mounts: []func(chi.Router){api.Mount, files.Mount, whoami}, Limits: limits, Registry: registry, Log: log})
	must(t, err)
	must(t, rt.server.Listen(t.Context()))
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = rt.server.Run(ctx) })
	running.Go(func() { rt.auth.Run(ctx) })
	running.Go(func() { _ = locks.Run(ctx) })
	running.Go(func() { _ = accountcache.NewFeed(w.Store, log, rt.auth.Sessions()).Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	return rt
}

// code returns the newest code that was mailed to an address, and reports whether there is one.
func (rt *replica) code(t *testing.T, address string) (string, bool) {
	t.Helper()
	emails := rt.env.Emails(t, rt.logins, rt.clock.Now())
	rt.mu.Lock()
	defer rt.mu.Unlock()
	for _, email := range emails {
		rt.codes[email.To] = email.Code
	}
	code, ok := rt.codes[address]
	delete(rt.codes, address)
	return code, ok
}

// browser keeps cookies and follows no redirect by itself.
type browser struct {
	t    *testing.T
	rt   *replica
	http *http.Client
}

func (rt *replica) browser(t *testing.T) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	must(t, err)
	b := &browser{t: t, http: &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	b.at(rt)
	return b
}

// at sends the next requests of the browser to a replica.
func (b *browser) at(rt *replica) {
	b.rt, b.http.Transport = rt, runtimetest.Dialer(rt.server.Addr())
}

// paused sets the default minimum time between codes.
func paused(o *options) { o.login.ResendAfter = 30 * time.Second }

// page is a complete response.
type page struct {
	*http.Response
	body string
}

// is reports an error if the status is another one. what names the request, with its arguments.
func (p page) is(t *testing.T, status int, what string, args ...any) {
	t.Helper()
	runtimetest.CheckStatus(t, t.Errorf, p.StatusCode, status, []byte(p.body), what, args...)
}

func (b *browser) do(r *http.Request) page {
	b.t.Helper()
	response, err := b.http.Do(r)
	must(b.t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	must(b.t, err)
	return page{response, string(body)}
}

// get requests a path and follows redirects within the service.
func (b *browser) get(path string) page {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, absolute(path), nil)
	must(b.t, err)
	return b.follow(b.do(r))
}

func absolute(path string) string {
	if strings.HasPrefix(path, "/") {
		return baseURL + path
	}
	return path
}

func (b *browser) follow(p page) page {
	b.t.Helper()
	for p.StatusCode == http.StatusSeeOther && (strings.HasPrefix(p.Header.Get("Location"), "/") || strings.HasPrefix(p.Header.Get("Location"), baseURL+"/")) {
		r, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, absolute(p.Header.Get("Location")), nil)
		must(b.t, err)
		p = b.do(r)
	}
	return p
}

var hidden = regexp.MustCompile(`<input[^>]*type="hidden"[^>]*>`)

var attribute = regexp.MustCompile(`(name|value)="([^"]*)"`)

// fields returns the hidden fields of the forms of a page.
func (p page) fields() url.Values {
	fields := url.Values{}
	for _, input := range hidden.FindAllString(p.body, -1) {
		found := map[string]string{}
		for _, match := range attribute.FindAllStringSubmatch(input, -1) {
			found[match[1]] = html.UnescapeString(match[2])
		}
		fields.Set(found["name"], found["value"])
	}
	return fields
}

// post submits a form of a page and follows redirects within the service.
func (b *browser) post(path string, from page, fields url.Values, change ...func(*http.Request)) page {
	b.t.Helper()
	return b.follow(b.send(path, from, fields, change...))
}

func (b *browser) send(path string, from page, fields url.Values, change ...func(*http.Request)) page {
	b.t.Helper()
	sent := url.Values{}
	for _, name := range []string{"request", "csrf"} {
		sent.Set(name, from.fields().Get(name))
	}
	for name, values := range fields {
		sent[name] = values
	}
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, absolute(path), strings.NewReader(sent.Encode()))
	must(b.t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", baseURL)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	for _, apply := range change {
		apply(r)
	}
	return b.do(r)
}

// application is a registered client.
type application struct {
	id, redirect, verifier string
}

const verifier = "a-verifier-of-forty-three-characters-or-more-0"

func challenge(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// application registers a client.
func (b *browser) application(name string, redirects ...string) application {
	b.t.Helper()
	if len(redirects) == 0 {
		redirects = []string{redirect}
	}
	status, response := b.json("/oauth/register", map[string]any{"client_name": name, "redirect_uris": redirects})
	if status != http.StatusCreated {
		b.t.Fatalf("register: %d %v", status, response)
	}
	return application{id: response["client_id"].(string), redirect: redirects[0], verifier: verifier}
}

// json posts a JSON document.
func (b *browser) json(path string, document any) (int, map[string]any) {
	b.t.Helper()
	body, err := json.Marshal(document)
	must(b.t, err)
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, absolute(path), strings.NewReader(string(body)))
	must(b.t, err)
	r.Header.Set("Content-Type", "application/json")
	return b.answer(r)
}

func (b *browser) answer(r *http.Request) (int, map[string]any) {
	b.t.Helper()
	p := b.do(r)
	response := map[string]any{}
	_ = json.Unmarshal([]byte(p.body), &response)
	return p.StatusCode, response
}

// query returns the URL of an authorization request; more replaces parameters, and nil
// removes one.
func (a application) query(more url.Values) string {
	query := url.Values{"response_type": {"code"}, "client_id": {a.id}, "redirect_uri": {a.redirect}, "state": {"s t&te"}, "scope": {"media:read media:write"},
		"code_challenge": {challenge(a.verifier)}, "code_challenge_method": {"S256"}, "resource": {resource}}
	for name, values := range more {
		query[name] = values
		if values == nil {
			delete(query, name)
		}
	}
	return "/oauth/authorize?" + query.Encode()
}

// login logs in and returns the page after the code.
func (b *browser) login(start, address string) page {
	b.t.Helper()
	p := b.get(start)
	if p.StatusCode != http.StatusOK {
		b.t.Fatalf("the first page: %d %s", p.StatusCode, p.body)
	}
	p = b.post("/oauth/login/email", p, url.Values{"email": {address}})
	if p.StatusCode != http.StatusOK {
		b.t.Fatalf("the page of the code: %d %s", p.StatusCode, p.body)
	}
	code, ok := b.rt.code(b.t, strings.ToLower(address))
	if !ok {
		b.t.Fatalf("no code for %s", address)
	}
	return b.post("/oauth/login/code", p, url.Values{"code": {code}})
}

// allow approves the request for an account and returns the authorization response.
func (b *browser) allow(p page, of runtimetest.Tenant) url.Values {
	b.t.Helper()
	return b.told(b.send("/oauth/consent", p, url.Values{"decision": {"allow"}, "account": {of.Account.ID.String()}}))
}

// told returns the parameters of a redirect to the client.
func (b *browser) told(p page) url.Values {
	b.t.Helper()
	to, err := url.Parse(p.Header.Get("Location"))
	must(b.t, err)
	if p.StatusCode != http.StatusSeeOther || to.Host == "media.test" || to.Host == "" {
		b.t.Fatalf("no answer to the application: %d %s %s", p.StatusCode, p.Header.Get("Location"), p.body)
	}
	return to.Query()
}

// form posts a form without a page, as a client does.
func (b *browser) form(path string, fields url.Values) (int, map[string]any) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, absolute(path), strings.NewReader(fields.Encode()))
	must(b.t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return b.answer(r)
}

// redeem exchanges a code for tokens.
func (b *browser) redeem(a application, code string) (int, map[string]any) {
	b.t.Helper()
	return b.form("/oauth/token", url.Values{"grant_type": {"authorization_code"}, "code": {code}, "client_id": {a.id}, "redirect_uri": {a.redirect}, "code_verifier": {a.verifier}, "resource": {resource}})
}

// refresh refreshes tokens.
func (b *browser) refresh(a application, token string) (int, map[string]any) {
	b.t.Helper()
	return b.form("/oauth/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}, "client_id": {a.id}})
}

// connect runs the complete flow: log in, approve, exchange the code.
func (b *browser) connect(a application, address string, of runtimetest.Tenant) (access, refresh string) {
	b.t.Helper()
	told := b.allow(b.login(a.query(nil), address), of)
	status, response := b.redeem(a, told.Get("code"))
	if status != http.StatusOK {
		b.t.Fatalf("tokens: %d %v", status, response)
	}
	return response["access_token"].(string), response["refresh_token"].(string)
}

// whoami returns the status of a request with a token, and the caller.
func (b *browser) whoami(token string) (int, map[string]any) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, absolute("/whoami"), nil)
	must(b.t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	return b.answer(r)
}

var must = check.NoError

// text returns the text that a query selects.
func (w *world) text(t *testing.T, query string, args ...any) (text string) {
	t.Helper()
	must(t, testenv.Connections(t, w.Database.DatabaseURL).QueryRow(t.Context(), query, args...).Scan(&text))
	return text
}

// exec runs a statement.
func (w *world) exec(t *testing.T, statement string) {
	t.Helper()
	must(t, check.ErrorOf(testenv.Connections(t, w.Database.DatabaseURL).Exec(t.Context(), statement)))
}
