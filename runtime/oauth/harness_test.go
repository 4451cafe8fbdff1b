package oauth_test

import (
	"crypto/sha256"
	"encoding/base64"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv"
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

// world is a database with an account that ana owns, and the service over it.
type world struct {
	*runtimetest.World
	*oauth.Service
	tenant runtimetest.Tenant
	clock  *runtimetest.Clock
	signer oauth.Signer
	logs   *runtimetest.Log
}

// defaults are the settings of a service that no test changed: without the pause between
// codes, as most tests log in one after the other.
var defaults = oauth.Config{RequestTTL: 15 * time.Minute, CodeTTL: 10 * time.Minute, CodeTries: 5, CodesOfAddress: 5, TriesOfAddress: 15, CodesOfClient: 20,
	GrantCodeTTL: time.Minute, AccessTTL: time.Hour, RefreshTTL: 720 * time.Hour, RefreshGrace: 90 * time.Second, Registrations: 3}

func newWorld(t *testing.T, change ...func(*oauth.Config)) *world {
	t.Helper()
	w := &world{World: runtimetest.New(t), clock: &runtimetest.Clock{}, logs: &runtimetest.Log{}}
	w.tenant = w.account(t, "studio", owner)
	cfg := defaults
	for _, apply := range change {
		apply(&cfg)
	}
	w.Service = w.service(t, cfg, "a")
	return w
}

func (w *world) service(t *testing.T, cfg oauth.Config, secretLetter string) *oauth.Service {
	t.Helper()
	secret, err := runtimetest.Credentials(secretLetter).ServerSecret()
	must(t, err)
	signer, err := secret.Signer(keys.PurposeOAuth)
	must(t, err)
	w.signer = signer
	encrypter, err := secret.Encrypter(keys.PurposeEmailOutbox)
	must(t, err)
	service, err := oauth.NewService(cfg, oauth.Parts{Store: w.Store, Signer: signer, Encrypter: encrypter, Now: w.clock.Now, Log: w.logs.Logger()})
	must(t, err)
	return service
}

func (w *world) account(t *testing.T, name string, owners ...string) runtimetest.Tenant {
	t.Helper()
	return w.Tenant(t, account.Spec{Name: name, Owners: owners, MaxStorage: 1 << 20, MaxUploadSize: 1 << 20})
}

// ensure changes the account.
func (w *world) ensure(t *testing.T, change func(*account.Spec)) {
	t.Helper()
	w.Change(t, w.tenant, change)
}

func ask() *oauth.Ask {
	sum := sha256.Sum256([]byte(verifier))
	return &oauth.Ask{ClientID: client, ClientName: "Test", RedirectURI: redirect, Scopes: []oauth.Scope{oauth.ScopeRead, oauth.ScopeWrite},
		Resource: runtimetest.BaseURL + "/mcp", Challenge: base64.RawURLEncoding.EncodeToString(sum[:])}
}

// browser is a login of one browser.
type browser struct {
	w      *world
	id     uuid.UUID
	cookie string
}

func (w *world) begin(t *testing.T, what *oauth.Ask) *browser {
	t.Helper()
	request, cookie, err := w.Begin(t.Context(), what)
	must(t, err)
	return &browser{w: w, id: request.ID, cookie: cookie}
}

func (b *browser) request(t *testing.T) oauth.Request {
	t.Helper()
	request, err := b.w.Find(t.Context(), b.id, b.cookie)
	must(t, err)
	return request
}

// mailed returns the codes that were mailed to an address, oldest first.
func (w *world) mailed(t *testing.T, address string) []string {
	t.Helper()
	emails, err := w.LeaseEmails(t.Context(), 1000, time.Minute)
	must(t, err)
	var codes []string
	for _, email := range emails {
		if email.To == address {
			codes = append(codes, email.Code)
		}
		must(t, w.AckEmail(t.Context(), email.ID))
	}
	return codes
}

func (b *browser) send(t *testing.T, address string) error {
	t.Helper()
	return b.w.SendCode(t.Context(), b.request(t), address, network)
}

// enter proves an address.
func (b *browser) enter(t *testing.T, address string) {
	t.Helper()
	must(t, b.send(t, address))
	codes := b.w.mailed(t, address)
	if len(codes) != 1 {
		t.Fatalf("%d codes were mailed", len(codes))
	}
	cookie, err := b.w.TryCode(t.Context(), b.request(t), codes[0])
	must(t, err)
	b.cookie = cookie
}

// granted is an authorization code of a whole login.
func (w *world) granted(t *testing.T) string {
	t.Helper()
	b := w.begin(t, ask())
	b.enter(t, owner)
	code, err := w.Allow(t.Context(), b.request(t), w.tenant.Account.ID)
	must(t, err)
	return code
}

func redemption(code string) oauth.Redemption {
	return oauth.Redemption{Code: code, ClientID: client, RedirectURI: redirect, Verifier: verifier}
}

// connected are the tokens of a whole login.
func (w *world) connected(t *testing.T) oauth.Tokens {
	t.Helper()
	tokens, err := w.Redeem(t.Context(), redemption(w.granted(t)))
	must(t, err)
	return tokens
}

// works reports whether an access token stands for somebody.
func (w *world) works(t *testing.T, access string) bool {
	t.Helper()
	hash, ok := oauth.AccessTokenHash(w.signer, access)
	if !ok {
		t.Fatal("no access token")
	}
	session, err := w.Store.FindSession(t.Context(), hash)
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

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
