// Package runtimetest is the test environment of the APIs (REST, TUS, MCP, OAuth): a database and an
// S3 store, tenants as the operator provisions them, replicas, a clock that can be advanced, and a log
// that can be read. All parts are real.
package runtimetest

import (
	"context"
	"encoding/base64"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/imaging"
	"mediastack.dev/runtime/keys"
	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/objectstore"
	"mediastack.dev/runtime/postgres"
	"mediastack.dev/runtime/redact"
	"mediastack.dev/runtime/settings"
)

// BaseURL is the URL of every replica; clients dial the address of theirs instead of resolving it.
const BaseURL = "http://media.test"

// Long is a timeout of the product that no test waits for, so that a slow machine decides nothing. A test that is about
// a timeout sets its own. Settings with a largest value have that one.
const Long = time.Hour

// Env is a database and an S3 store, with what the operator uses to provision accounts.
type Env struct {
	Database postgres.Config
	Store    *postgres.Store
	Objects  *objectstore.Store
	Registry *account.Registry
	Settings *settings.Service
}

// New returns an environment for a test.
func New(t *testing.T) *Env {
	t.Helper()
	return NewWith(t, testenv.Postgres(t), testenv.S3(t))
}

// NewWith returns an environment with this database and this S3 store.
func NewWith(t *testing.T, database string, access testenv.S3Access) *Env {
	t.Helper()
	objects, err := objectstore.New(ObjectStoreConfig(access))
	must(t, err)
	cfg := postgres.Config{DatabaseURL: database, DatabaseConns: 4}
	store, err := postgres.Open(t.Context(), cfg)
	must(t, err)
	t.Cleanup(store.Close)
	return &Env{Database: cfg, Store: store, Objects: objects,
		Registry: account.NewRegistry(store.Accounts, "t", time.Now), Settings: settings.NewService(store.Settings)}
}

// Lease returns the id of the process of a store, which has the lease of a serving process from then on.
func Lease(t testing.TB, store *postgres.Store) uuid.UUID {
	t.Helper()
	id := uuid.New()
	_, err := store.Installations.TouchRuntime(t.Context(), id, "test", time.Hour)
	must(t, err)
	return id
}

// InstallationConfig returns the default intervals.
func InstallationConfig() installation.Config {
	return installation.Config{CheckInterval: 15 * time.Second, HeartbeatInterval: time.Minute}
}

// Guard returns a guard of the environment's stores.
func (e *Env) Guard() *installation.Guard {
	return installation.NewGuard(InstallationConfig(), installation.Deps{Store: e.Store.Installations, Markers: e.Objects, Log: slog.New(slog.DiscardHandler)})
}

// ObjectStoreConfig is the configuration that reaches an S3 store.
func ObjectStoreConfig(a testenv.S3Access) objectstore.Config {
	return objectstore.Config{Endpoint: a.Endpoint, Region: a.Region, AccessKey: a.AccessKey, SecretKey: a.SecretKey}
}

// Tenant is a provisioned account with the key of one of its apps.
type Tenant struct {
	Account account.Account
	Spec    account.Spec
	App     account.App
	Key     string
	KeyID   uuid.UUID
}

// Tenant provisions an account with a changed specification, as the operator does for a MediaAccount.
func (e *Env) Tenant(t *testing.T, spec account.Spec, change ...func(*account.Spec)) Tenant {
	t.Helper()
	for _, apply := range change {
		apply(&spec)
	}
	spec.Namespace = "team"
	made, err := e.Registry.Ensure(t.Context(), spec)
	must(t, err)
	identity, err := e.Store.Installations.Identity(t.Context())
	must(t, err)
	_, err = e.Objects.Claim(t.Context(), objectstore.ClaimRequest{
		Bucket: made.Bucket, Epoch: identity.Epoch,
		Owner: objectstore.Owner{AccountID: made.ID.String(), Namespace: spec.Namespace, Name: spec.Name, InstallationID: identity.ID},
	})
	must(t, err)
	must(t, e.Registry.SetBucketOwned(t.Context(), made.ID, true))
	return e.AddApp(t, Tenant{Account: made, Spec: spec}, "")
}

// Change updates an account, as the operator does for a changed MediaAccount.
func (e *Env) Change(t *testing.T, of Tenant, change func(*account.Spec)) {
	t.Helper()
	of.Spec.Namespace = "team"
	change(&of.Spec)
	_, err := e.Registry.Ensure(t.Context(), of.Spec)
	must(t, err)
}

// AddApp returns the Default App of a tenant's account, or another one by its name, with a
// key of its own.
func (e *Env) AddApp(t *testing.T, of Tenant, name string) Tenant {
	t.Helper()
	var more []string
	if name != "" {
		more = []string{name}
	}
	apps, _, err := e.Registry.OpenApps(t.Context(), of.Account.ID, more)
	must(t, err)
	for _, app := range apps {
		if name == "" || app.Name == name {
			token, key, err := e.Registry.IssueKey(t.Context(), app.ID, 1, 0)
			must(t, err)
			of.App, of.Key, of.KeyID = app, token.Reveal(), key.ID
			return of
		}
	}
	t.Fatalf("the app %s is missing", name)
	return Tenant{}
}

// Owner is the e-mail of the user of Session.
const Owner = "owner@example.org"

// Session returns an access token for a tenant's key, as a login with these scopes issues it. It is for BaseURL and Credentials("a"), and lasts an hour.
func (e *Env) Session(t *testing.T, of Tenant, scopes ...oauth.Scope) (token string) {
	t.Helper()
	secret, err := Credentials("a").ServerSecret()
	must(t, err)
	signer, err := secret.Signer(keys.PurposeOAuth)
	must(t, err)
	token, hash, err := oauth.NewAccessToken(e.Store.Cell(), signer)
	must(t, err)
	_, err = testenv.Connections(t, e.Database.DatabaseURL).Exec(t.Context(), `WITH owned AS (UPDATE account SET owners = ARRAY[$1] WHERE id = $2),
		given AS (INSERT INTO oauth_grant (id, account_id, key_id, email, client_id, client_name, redirect_uri, scopes, resource, created_at)
			VALUES (gen_random_uuid(), $2, $3, $1, 'test', 'test', 'http://localhost/', $4, $5, now()) RETURNING id)
		INSERT INTO oauth_token (hash, grant_id, refresh, created_at, expires_at) SELECT $6, id, false, now(), now() + interval '1 hour' FROM given`,
		Owner, of.Account.ID, of.KeyID, append([]oauth.Scope{}, scopes...), BaseURL+"/mcp", hash[:])
	must(t, err)
	return token
}

// Principal returns the principal of a tenant's key.
func (e *Env) Principal(t *testing.T, of Tenant) account.Principal {
	t.Helper()
	token, ok := account.ParseKeySecret(of.Key)
	if !ok {
		t.Fatal("no key")
	}
	found, err := e.Store.Credentials.FindPrincipal(t.Context(), token.Hash())
	must(t, err)
	return found
}

// QueryInt returns the number that a query selects.
func (e *Env) QueryInt(t *testing.T, query string, args ...any) (n int64) {
	t.Helper()
	must(t, testenv.Connections(t, e.Database.DatabaseURL).QueryRow(t.Context(), query, args...).Scan(&n))
	return n
}

// Counts reports an error if a query selects another number than the one that is wanted. What names what is counted.
func (e *Env) Counts(t *testing.T, want int64, what, query string, args ...any) {
	t.Helper()
	if n := e.QueryInt(t, query, args...); n != want {
		t.Errorf("%d %s, want %d", n, what, want)
	}
}

// Credentials is a configuration with a server secret of one repeated character.
func Credentials(char string) auth.Config {
	return auth.Config{Secret: base64.StdEncoding.EncodeToString([]byte(strings.Repeat(char, 32))), SignatureTTL: time.Hour, KeyCacheTTL: time.Minute}
}

// Images returns a pool of one real worker.
func Images(t *testing.T, registry prometheus.Registerer, log *slog.Logger) *imaging.Pool {
	t.Helper()
	pool, err := imaging.New(t.Context(), imaging.Config{Enabled: true, WorkerPath: testenv.Binary(t, imaging.ProgramName),
		Workers: 1, Queue: 4, Timeout: 10 * time.Minute, MaxBytes: 64 << 20, MaxPixels: 50_000_000, MaxFrames: 100, Memory: 2 << 30}, imaging.Deps{Registry: registry, Log: log})
	must(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// Dialer returns a transport that connects to address for every URL.
func Dialer(address string) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		},
		ExpectContinueTimeout: Long,
	}
}

// Clock is a clock that a test can advance; it starts at the real time.
type Clock struct {
	mu     sync.Mutex
	ahead  time.Duration
	frozen time.Time // zero while the clock goes
}

// Now returns the clock's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.frozen.IsZero() {
		return c.frozen.Add(c.ahead)
	}
	return time.Now().Add(c.ahead)
}

// Freeze stops the clock: only Advance moves it from now on. A test that needs it compares what depends on
// the time that its requests take. Its times are as exact as those of PostgreSQL.
func (c *Clock) Freeze() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frozen = time.Now().Truncate(time.Microsecond)
}

// Advance advances the clock.
func (c *Clock) Advance(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += by
}

// Log holds a replica's log. It is safe for concurrent use.
type Log struct{ check.Buffer }

// Logger writes everything into the log.
func (l *Log) Logger() *slog.Logger {
	return slog.New(httpapi.LogHandler{Handler: slog.NewJSONHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: redact.Attr})})
}

var must = check.NoError
