package oauth_test

import (
	"crypto/sha256"
	"encoding/base64"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/keys"
	"mediastack.dev/runtime/oauth"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const (
	owner    = "ana@example.org"
	client   = "mcl_test"
	redirect = "http://127.0.0.1:1/callback"
	verifier = "a-verifier-of-forty-three-characters-or-more-0"
	network  = "192.0.2.1/32"
)

// env is a database with an account of ana, and the service that uses it.
type env struct {
	*runtimetest.Env
	*oauth.Service
	tenant runtimetest.Tenant
	clock  *runtimetest.Clock
	signer oauth.Signer
	logs   *runtimetest.Log
}

// purgeConfig holds the default ages.
var purgeConfig = oauth.PurgeConfig{UnusedClientTTL: 24 * time.Hour, TokenRetention: 24 * time.Hour, GrantRetention: 7 * 24 * time.Hour}

// defaults is the default configuration, without the minimum time between codes: most tests
// log in several times.
var defaults = oauth.Config{SessionTTL: 15 * time.Minute, MaxTTL: 12 * time.Hour, CodeTTL: 10 * time.Minute, MaxAttempts: 5, CodesPerEmail: 5, AttemptsPerEmail: 15, CodesPerIP: 20,
	AuthorizationCodeTTL: time.Minute, AccessTTL: time.Hour, RefreshTTL: 720 * time.Hour, RefreshGrace: 90 * time.Second, RegistrationsPerIP: 3}

func newEnv(t *testing.T, change ...func(*oauth.Config)) *env {
	t.Helper()
	w := &env{Env: runtimetest.New(t), clock: &runtimetest.Clock{}, logs: &runtimetest.Log{}}
	w.tenant = w.account(t, "studio", owner)
	cfg := defaults
	for _, apply := range change {
		apply(&cfg)
	}
	w.Service = w.service(t, cfg, "a")
	return w
}

func (w *env) service(t *testing.T, cfg oauth.Config, secretDigit string) *oauth.Service {
	t.Helper()
	secret, err := runtimetest.Credentials(secretDigit).ServerSecret()
	must(t, err)
	signer, err := secret.Signer(keys.PurposeOAuth)
	must(t, err)
	w.signer = signer
	encrypter, err := secret.Encrypter(keys.PurposeEmailOutbox)
	must(t, err)
	service, err := oauth.NewService(cfg, oauth.Deps{Store: w.Store.Logins, Signer: signer, Encrypter: encrypter, Now: w.clock.Now, Log: w.logs.Logger()})
	must(t, err)
	return service
}

func (w *env) account(t *testing.T, name string, owners ...string) runtimetest.Tenant {
	t.Helper()
	return w.Tenant(t, account.Spec{Name: name, Owners: owners, MaxStorage: 1 << 20, MaxUploadSize: 1 << 20})
}

// ensure changes the account.
func (w *env) ensure(t *testing.T, change func(*account.Spec)) {
	t.Helper()
	w.Change(t, w.tenant, change)
}

func authorizationRequest() *oauth.AuthorizationRequest {
	sum := sha256.Sum256([]byte(verifier))
	return &oauth.AuthorizationRequest{ClientID: client, ClientName: "Test", RedirectURI: redirect, Scopes: []oauth.Scope{oauth.ScopeRead, oauth.ScopeWrite},
		Resource: runtimetest.BaseURL + "/mcp", CodeChallenge: base64.RawURLEncoding.EncodeToString(sum[:])}
}

// loginBrowser is the login session of one browser.
type loginBrowser struct {
	w      *env
	id     uuid.UUID
	cookie string
}

func (w *env) startLogin(t *testing.T, request *oauth.AuthorizationRequest) *loginBrowser {
	t.Helper()
	session, cookie, err := w.StartLogin(t.Context(), request)
	must(t, err)
	return &loginBrowser{w: w, id: session.ID, cookie: cookie}
}

func (b *loginBrowser) session(t *testing.T) oauth.LoginSession {
	t.Helper()
	session, err := b.w.FindLogin(t.Context(), b.id, b.cookie)
	must(t, err)
	return session
}

// mailedCodes returns the queued codes for an address, oldest first, and empties the queue.
func (w *env) mailedCodes(t *testing.T, address string) []string {
	t.Helper()
	var codes []string
	for _, email := range w.Emails(t, w.Service, w.clock.Now()) {
		if email.To == address {
			codes = append(codes, email.Code)
		}
	}
	return codes
}

func (b *loginBrowser) sendCode(t *testing.T, email string) error {
	t.Helper()
	return b.w.SendCode(t.Context(), b.session(t), email, network)
}

// logIn logs in with a code for the address.
func (b *loginBrowser) logIn(t *testing.T, email string) {
	t.Helper()
	must(t, b.sendCode(t, email))
	codes := b.w.mailedCodes(t, email)
	if len(codes) != 1 {
		t.Fatalf("%d codes were mailed", len(codes))
	}
	cookie, err := b.w.VerifyCode(t.Context(), b.session(t), codes[0])
	must(t, err)
	b.cookie = cookie
}

// authorizationCode returns the authorization code of a complete login; without scopes, those of authorizationRequest.
func (w *env) authorizationCode(t *testing.T, scopes ...oauth.Scope) string {
	t.Helper()
	request := authorizationRequest()
	if scopes != nil {
		request.Scopes = scopes
	}
	b := w.startLogin(t, request)
	b.logIn(t, owner)
	code, err := w.Approve(t.Context(), b.session(t), w.tenant.Account.ID)
	must(t, err)
	return code
}

func tokenRequest(code string) oauth.TokenRequest {
	return oauth.TokenRequest{Code: code, ClientID: client, RedirectURI: redirect, CodeVerifier: verifier}
}

// authorize returns the tokens of a complete login.
func (w *env) authorize(t *testing.T, scopes ...oauth.Scope) oauth.Tokens {
	t.Helper()
	tokens, err := w.ExchangeCode(t.Context(), tokenRequest(w.authorizationCode(t, scopes...)))
	must(t, err)
	return tokens
}

// isAccepted reports whether an access token has a valid session.
func (w *env) isAccepted(t *testing.T, access string) bool {
	t.Helper()
	hash, ok := oauth.AccessTokenHash(w.signer, access)
	if !ok {
		t.Fatal("no access token")
	}
	session, err := w.Store.Credentials.FindSession(t.Context(), hash)
	if fault.Is(err, fault.NotFound) {
		return false
	}
	must(t, err)
	return !session.Account.Suspended && (session.Key.ExpiresAt == nil || w.clock.Now().Before(*session.Key.ExpiresAt))
}

func is(t *testing.T, what string, err error, kind fault.Kind) {
	t.Helper()
	if !fault.Is(err, kind) {
		t.Errorf("%s: %v, want %s", what, err, kind)
	}
}

var must = check.NoError
