package installation_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/internal/runtimetest/mediatest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/objectstore"
	"mediastack.dev/runtime/postgres"
	"mediastack.dev/runtime/upload"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var must = check.NoError

// site is a database with the processes that use it, and the requests that they send to the shared
// S3 store.
type site struct {
	t       *testing.T
	url     string
	access  testenv.S3Access
	store   *postgres.Store
	objects *objectstore.Store
	mediatest.Replica
	now    func() time.Time
	all    atomic.Int64 // requests to the S3 store
	writes atomic.Int64 // those that change something
}

// newSite returns the site of a migrated database.
func newSite(t *testing.T, database string, access testenv.S3Access) *site {
	t.Helper()
	s := &site{t: t, url: database, access: access, now: time.Now}
	counted := testenv.S3Proxy(t, access, func(_ http.ResponseWriter, r *http.Request) bool {
		s.all.Add(1)
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			s.writes.Add(1)
		}
		return false
	})
	env := runtimetest.NewWith(t, database, counted)
	s.store, s.objects = env.Store, env.Objects
	s.Replica = mediatest.NewReplica(t, runtimetest.UploadConfig(), upload.Deps{Store: s.store.Uploads, Objects: s.objects, Settings: env.Settings, Now: func() time.Time { return s.now() }, Log: slog.New(slog.DiscardHandler)}, s.store.Items)
	return s
}

// tenants provisions accounts, as the operator does.
func (s *site) tenants(n int) (all []account.Principal) {
	s.t.Helper()
	env := &runtimetest.Env{Database: postgres.Config{DatabaseURL: s.url}, Store: s.store, Objects: s.objects, Registry: account.NewRegistry(s.store.Accounts, "t", time.Now)}
	for i := range n {
		all = append(all, env.Principal(s.t, env.Tenant(s.t, account.Spec{Name: "t" + string(rune('a'+i)), MaxStorage: 1 << 30, MaxUploadSize: 1 << 30})))
	}
	return all
}

// draft uploads an item.
func (s *site) draft(p account.Principal) media.Item {
	s.t.Helper()
	item, err := runtimetest.Upload(s.t.Context(), s.Uploads, p, strings.NewReader("bytes"), media.Fields{MimeType: "text/plain"})
	must(s.t, err)
	return item
}

// sealed uploads and seals an item.
func (s *site) sealed(p account.Principal) media.Item {
	s.t.Helper()
	item, err := s.Items.Seal(s.t.Context(), p, s.draft(p).ID)
	must(s.t, err)
	return item
}

// process returns the guard of a process that starts.
func (s *site) process() *installation.Guard { return s.processWith(s.objects) }

func (s *site) processWith(markers installation.Markers) *installation.Guard {
	return installation.NewGuard(runtimetest.InstallationConfig(), installation.Deps{Store: s.store.Installations, Markers: markers, Log: slog.New(slog.DiscardHandler)})
}

// resume confirms a restore.
func (s *site) resume() installation.State {
	s.t.Helper()
	resumer := installation.NewResumer(s.store.Installations, s.objects, slog.New(slog.DiscardHandler))
	survey, err := resumer.Survey(s.t.Context())
	must(s.t, err)
	state, err := resumer.Confirm(s.t.Context(), survey, 0)
	must(s.t, err)
	return state
}

// exec runs a statement.
func (s *site) exec(statement string, args ...any) {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), s.url)
	must(s.t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(s.t.Context())) }()
	_, err = conn.Exec(s.t.Context(), statement, args...)
	must(s.t, err)
}

// minutePasses makes the next heartbeat due.
func (s *site) minutePasses() {
	s.t.Helper()
	s.exec("UPDATE installation SET heartbeat_at = heartbeat_at - interval '2 minutes'")
}

// state reads the row.
func (s *site) state() installation.State {
	s.t.Helper()
	state, err := s.store.Installations.Installation(s.t.Context())
	must(s.t, err)
	return state
}

// marker reads the marker of an account's bucket.
func (s *site) marker(p account.Principal) installation.Marker {
	s.t.Helper()
	marker, err := s.objects.Marker(s.t.Context(), p.Account.Bucket)
	must(s.t, err)
	return marker
}

// purge runs the purge at a time.
func (s *site) purge(at time.Time) (media.PurgeSummary, error) {
	s.t.Helper()
	purger, err := media.NewPurger(media.PurgeConfig{DraftConfig: media.DraftConfig{DraftTTL: 24 * time.Hour}, UploadGrace: 5 * time.Minute, MaxAttempts: 3, RemovalConfig: media.RemovalConfig{BatchSize: 100, MaxBackoff: time.Hour}},
		media.PurgeDeps{Store: s.store.Items, Tasks: s.store.Tasks, Objects: s.objects, Guard: s.process(), Now: func() time.Time { return at }, Log: slog.New(slog.DiscardHandler)})
	must(s.t, err)
	return purger.Run(s.t.Context())
}

// holds fails the test unless err is a hold that names all of these.
func holds(t *testing.T, what string, err error, names ...string) {
	t.Helper()
	if !fault.Is(err, fault.Unavailable) || fault.ReasonOf(err) != fault.Held {
		t.Errorf("%s: %v, want a hold", what, err)
		return
	}
	for _, name := range append(names, "mediastack-runtime resume-after-restore") {
		if !strings.Contains(fault.From(err).Public, name) {
			t.Errorf("%s: %q does not name %s", what, fault.From(err).Public, name)
		}
	}
}

// reconnects waits until connections that the server has ended are replaced.
func (s *site) reconnects() {
	s.t.Helper()
	for range 100 {
		if s.store.Ping(s.t.Context()) == nil {
			return
		}
	}
	s.t.Fatal("the database does not respond")
}

// discard is a log.
var discard = slog.New(slog.DiscardHandler)

// databaseOf returns the name of the database in a URL.
func databaseOf(t *testing.T, address string) string {
	t.Helper()
	parsed, err := url.Parse(address)
	must(t, err)
	return strings.TrimPrefix(parsed.Path, "/")
}

// together runs functions at the same time.
func together(all ...func()) {
	var group sync.WaitGroup
	for _, do := range all {
		group.Go(do)
	}
	group.Wait()
}
