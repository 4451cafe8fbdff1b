package postgres_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/postgres"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func open(t *testing.T, url string) *postgres.Store {
	t.Helper()
	store, err := postgres.Open(context.Background(), postgres.Config{DatabaseURL: url})
	must(t, err)
	t.Cleanup(store.Close)
	return store
}

func migrate(t *testing.T, url string) {
	t.Helper()
	must(t, postgres.Migrate(t.Context(), postgres.Config{DatabaseURL: url}, slog.New(slog.DiscardHandler)))
}

func setup(t *testing.T) (*postgres.Store, string) {
	t.Helper()
	url := testenv.Postgres(t)
	migrate(t, url)
	return open(t, url), url
}

func registry(store *postgres.Store) *account.Registry {
	return account.NewRegistry(store, "media", time.Now)
}

var spec = account.Spec{Namespace: "team-a", Name: "demo", DisplayName: "Demo", Owners: []string{"Ada@Example.org"}, MaxStorage: 1000, MaxUploadSize: 100}

// version tells the row versions of a table: any write changes it.
func version(t *testing.T, url, table string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	var all string
	must(t, conn.QueryRow(t.Context(), `SELECT coalesce(string_agg(xmin::text || ctid::text, ' ' ORDER BY ctid), '') FROM `+table).Scan(&all))
	return all
}

func TestEnsureMakesAnAccountOnceAndWritesOnlyDifferences(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	r := registry(store)
	first, err := r.Ensure(t.Context(), spec)
	must(t, err)
	if first.Bucket == "" || first.Owners[0] != "ada@example.org" {
		t.Errorf("made %+v", first)
	}
	before := version(t, url, "account")
	again, err := r.Ensure(t.Context(), spec)
	must(t, err)
	if again.ID != first.ID || again.Bucket != first.Bucket || version(t, url, "account") != before {
		t.Error("ensuring the same again must write nothing and give the same account")
	}
	changed := spec
	changed.MaxStorage, changed.Suspended, changed.Bucket = 2000, true, "another-bucket"
	updated, err := r.Ensure(t.Context(), changed)
	must(t, err)
	if updated.ID != first.ID || updated.MaxStorage != 2000 || !updated.Suspended || updated.Bucket != first.Bucket {
		t.Errorf("updated to %+v; the bucket must stay", updated)
	}
}

func TestOwners_DifferingInCaseAreOneOwner(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	r := registry(store)
	owned := spec
	owned.Owners = []string{"o'brien@example.org", "Ada@Example.org", "ada@example.ORG"}
	first, err := r.Ensure(t.Context(), owned)
	must(t, err)
	if want := []string{"ada@example.org", "o'brien@example.org"}; !slices.Equal(first.Owners, want) {
		t.Errorf("owners are %q, want %q", first.Owners, want)
	}
	before := version(t, url, "account")
	owned.Owners = []string{"ADA@EXAMPLE.ORG", "O'Brien@Example.org"}
	_, err = r.Ensure(t.Context(), owned)
	must(t, err)
	if version(t, url, "account") != before {
		t.Error("another spelling of the same owners is written")
	}
}

func TestConcurrentEnsuresMakeOneAccount(t *testing.T) {
	t.Parallel()
	store, _ := setup(t)
	r := registry(store)
	ids := make([]uuid.UUID, 12)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			a, err := r.Ensure(t.Context(), spec)
			if err != nil {
				t.Errorf("ensure: %v", err)
			}
			ids[i] = a.ID
		})
	}
	all.Wait()
	if len(slices.Compact(ids)) != 1 {
		t.Errorf("several accounts were made: %v", ids)
	}
}

func TestTwoAccountsCannotShareABucket(t *testing.T) {
	t.Parallel()
	store, _ := setup(t)
	r := registry(store)
	one, two := spec, spec
	one.Bucket, two.Bucket, two.Name = "shared", "shared", "other"
	first, err := r.Ensure(t.Context(), one)
	must(t, err)
	if _, err := r.Ensure(t.Context(), two); !fault.Is(err, fault.Conflict) || fault.From(err).Public != "bucket shared is owned by another account" {
		t.Errorf("a second account with the bucket: %v", err)
	}
	must(t, r.Close(t.Context(), first.ID))
	if _, err := r.Ensure(t.Context(), two); err != nil {
		t.Errorf("after the first was closed: %v", err)
	}
}

func TestBadSpecsAreRefused(t *testing.T) {
	t.Parallel()
	store, _ := setup(t)
	for name, change := range map[string]func(*account.Spec){
		"not an address": func(s *account.Spec) { s.Owners = []string{"Ada <ada@example.org>"} },
		"no storage":     func(s *account.Spec) { s.MaxStorage = 0 },
		"no upload size": func(s *account.Spec) { s.MaxUploadSize = -1 },
	} {
		bad := spec
		change(&bad)
		if _, err := registry(store).Ensure(t.Context(), bad); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := registry(store).Find(t.Context(), spec.Namespace, spec.Name); !fault.Is(err, fault.NotFound) {
		t.Errorf("a refused account is there: %v", err)
	}
}

func TestAppsAndKeysLiveAndEnd(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	r := registry(store)
	a, err := r.Ensure(t.Context(), spec)
	must(t, err)
	apps, err := r.SetApps(t.Context(), a.ID, []string{"blog"})
	must(t, err)
	if len(apps) != 2 || apps[0].Name != account.DefaultApp || apps[1].Name != "blog" {
		t.Fatalf("apps are %+v", apps)
	}
	before := version(t, url, "app") + version(t, url, "app_total")
	again, err := r.SetApps(t.Context(), a.ID, []string{"blog"})
	must(t, err)
	if !slices.Equal(again, apps) || version(t, url, "app")+version(t, url, "app_total") != before {
		t.Error("setting the same apps must write nothing")
	}

	first, firstKey, err := r.IssueKey(t.Context(), apps[0].ID, 1, 0)
	must(t, err)
	blog, _, err := r.IssueKey(t.Context(), apps[1].ID, 1, 0)
	must(t, err)
	p, err := store.FindPrincipal(t.Context(), first.Hash())
	must(t, err)
	if p.Account.ID != a.ID || p.App != apps[0] || p.Key.ID != firstKey.ID || !p.Key.Hash.Equal(first.Hash()) {
		t.Errorf("the key opens %+v", p)
	}
	second, _, err := r.IssueKey(t.Context(), apps[0].ID, 2, time.Hour)
	must(t, err)
	keys, err := r.Keys(t.Context(), a.ID)
	must(t, err)
	if len(keys) != 3 || !keys[0].Hash.Equal(second.Hash()) || keys[0].ExpiresAt != nil {
		t.Errorf("after a rotation with overlap the keys are %+v", keys)
	}
	if p, err := store.FindPrincipal(t.Context(), first.Hash()); err != nil || p.Key.ExpiresAt == nil || time.Until(*p.Key.ExpiresAt) > time.Hour {
		t.Errorf("the old key must end after the overlap: %+v, %v", p.Key, err)
	}
	_, _, err = r.IssueKey(t.Context(), apps[0].ID, 2, 0)
	must(t, err)
	if keys, err := r.Keys(t.Context(), a.ID); err != nil || len(keys) != 2 {
		t.Errorf("without overlap only the newest of an app stays: %+v, %v", keys, err)
	}

	_, err = r.SetApps(t.Context(), a.ID, nil)
	must(t, err)
	if _, err := store.FindPrincipal(t.Context(), blog.Hash()); !fault.Is(err, fault.NotFound) {
		t.Errorf("the key of a closed app: %v", err)
	}
	reopened, err := r.SetApps(t.Context(), a.ID, []string{"blog"})
	must(t, err)
	if reopened[1].ID != apps[1].ID {
		t.Error("an app that comes back is the one it was")
	}
	if p, err := store.FindPrincipal(t.Context(), blog.Hash()); err == nil && p.Key.ExpiresAt == nil {
		t.Error("the old key of an app that came back must stay dead")
	}

	must(t, r.Close(t.Context(), a.ID))
	must(t, r.Close(t.Context(), a.ID))
	if _, err := store.FindPrincipal(t.Context(), second.Hash()); !fault.Is(err, fault.NotFound) {
		t.Errorf("the key of a closed account: %v", err)
	}
	if left, err := r.Erase(t.Context(), a.Namespace, a.Name, a.ID); err != nil || left != 0 {
		t.Errorf("erase: %d, %v", left, err)
	}
	if v := version(t, url, "account") + version(t, url, "api_key") + version(t, url, "app"); v != "" {
		t.Errorf("rows are left after erase: %s", v)
	}
}

func TestAnOpenAccountIsNeverErased(t *testing.T) {
	t.Parallel()
	store, _ := setup(t)
	a, err := registry(store).Ensure(t.Context(), spec)
	must(t, err)
	if _, err := registry(store).Erase(t.Context(), a.Namespace, a.Name, a.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := registry(store).Find(t.Context(), spec.Namespace, spec.Name); err != nil {
		t.Errorf("an open account was erased: %v", err)
	}
}

// An id of another tenant's that somebody wrote into a status once took that tenant's
// items along.
func TestNoAccountIsErasedUnderAnothersName(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	r := registry(store)
	a, err := r.Ensure(t.Context(), spec)
	must(t, err)
	_, err = r.SetApps(t.Context(), a.ID, nil)
	must(t, err)
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	_, err = conn.Exec(t.Context(), `INSERT INTO item (id, account_id, app_id, file_name, access, caption, group_label, objects, bytes, created_at)
		SELECT gen_random_uuid(), account_id, id, 'photo.jpg', 'private', '', '', '[]', 0, now() FROM app`)
	must(t, err)
	kept := func(when string) {
		t.Helper()
		var items int
		must(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM item`).Scan(&items))
		if items != 1 {
			t.Errorf("%s took the items", when)
		}
	}
	erase := func(namespace, name string) {
		t.Helper()
		if left, err := r.Erase(t.Context(), namespace, name, a.ID); err != nil || left != 0 {
			t.Errorf("erase of what is not there: %d, %v", left, err)
		}
	}
	erase(a.Namespace, a.Name)
	kept("an open account's erasure")
	must(t, r.Close(t.Context(), a.ID))
	erase("another", a.Name)
	erase(a.Namespace, "another")
	kept("a stranger's erasure")
}

func TestLastUseIsKeptAndTellsNobody(t *testing.T) {
	t.Parallel()
	store, _ := setup(t)
	r := registry(store)
	a, err := r.Ensure(t.Context(), spec)
	must(t, err)
	apps, err := r.SetApps(t.Context(), a.ID, nil)
	must(t, err)
	_, key, err := r.IssueKey(t.Context(), apps[0].ID, 1, 0)
	must(t, err)
	used := time.Now().Truncate(time.Microsecond)
	must(t, store.TouchKeys(t.Context(), map[uuid.UUID]time.Time{key.ID: used, uuid.New(): used}))
	must(t, store.TouchKeys(t.Context(), map[uuid.UUID]time.Time{key.ID: used.Add(-time.Hour)}))
	keys, err := r.Keys(t.Context(), a.ID)
	must(t, err)
	if keys[0].LastUsedAt == nil || !keys[0].LastUsedAt.Equal(used) {
		t.Errorf("last used %v, want %v", keys[0].LastUsedAt, used)
	}
}

func value[T any](v T) *T { return &v }

func TestChangesAreHeardAlsoAfterTheServerRestarted(t *testing.T) {
	t.Parallel()
	server := testenv.PostgresServer(t)
	url := testenv.Database(t, server)
	migrate(t, url)
	store := open(t, url)
	connected, lost, changed := make(chan struct{}, 100), make(chan struct{}, 100), make(chan uuid.UUID, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- store.Listen(ctx, func() { connected <- struct{}{} }, func(id uuid.UUID) { changed <- id }, func(error) { lost <- struct{}{} })
	}()
	<-connected
	a, err := registry(store).Ensure(t.Context(), spec)
	must(t, err)
	if got := <-changed; got != a.ID {
		t.Errorf("heard of %v, not of %v", got, a.ID)
	}
	server.Kill()
	<-lost
	if err := store.Ping(t.Context()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("ping of a dead server: %v", err)
	}
	server.Start()
	<-connected
	suspended := spec
	suspended.Suspended = true
	_, err = registry(store).Ensure(t.Context(), suspended)
	must(t, err)
	if got := <-changed; got != a.ID {
		t.Errorf("after the restart heard of %v, not of %v", got, a.ID)
	}
	cancel()
	must(t, <-done)
}

func TestSchemaThatIsBehindIsSaidAndMigrationsMayRace(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	store := open(t, url)
	if err := store.CheckSchema(t.Context()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("an empty database: %v", err)
	}
	if _, err := store.FindAccount(t.Context(), "a", "b"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a query without a schema: %v", err)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { migrate(t, url) })
	}
	all.Wait()
	must(t, store.CheckSchema(t.Context()))
	migrate(t, url)
}

// A database of the time before the first release has tables and columns of other names.
func TestSchema_UnreleasedIsRejected(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	_, err = conn.Exec(t.Context(), `CREATE TABLE account (id uuid PRIMARY KEY, namespace text, name text, closed_at timestamptz);
		CREATE TABLE goose_db_version (id integer PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY, version_id bigint NOT NULL, is_applied boolean NOT NULL, tstamp timestamp NOT NULL DEFAULT now());
		INSERT INTO goose_db_version (version_id, is_applied) SELECT v, true FROM generate_series(0, 8) AS v`)
	must(t, err)
	store := open(t, url)
	for name, do := range map[string]func() error{
		"migrate": func() error {
			return postgres.Migrate(t.Context(), postgres.Config{DatabaseURL: url}, slog.New(slog.DiscardHandler))
		},
		"readiness": func() error { return store.CheckSchema(t.Context()) },
		"ping":      func() error { return store.Ping(t.Context()) },
		"query": func() error {
			_, err := store.FindAccount(t.Context(), "a", "b")
			return err
		},
	} {
		if err := do(); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "unreleased version (migration 8)") {
			t.Errorf("%s: %v", name, err)
		}
	}
	var tables, versions int
	must(t, conn.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM pg_tables WHERE schemaname = 'public'), (SELECT count(*) FROM goose_db_version)`).Scan(&tables, &versions))
	if tables != 2 || versions != 9 {
		t.Errorf("the database was changed: %d tables, %d versions", tables, versions)
	}
}

// Editing a migration that was applied leaves databases without the change, although they
// count as current: a schema change is a new file, and its hash is added here. Until the
// first release, the initial migration may change together with its hash.
func TestMigrations_AppliedFilesAreUnchanged(t *testing.T) {
	t.Parallel()
	known := map[string]string{
		"00010_initial.sql": "58c02861a7f27a9c89e2bd3789200dd18141c25daef04b3922bce1235f231f68",
	}
	files, err := os.ReadDir("migrations")
	must(t, err)
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join("migrations", file.Name()))
		must(t, err)
		if got := fmt.Sprintf("%x", sha256.Sum256(text)); got != known[file.Name()] {
			t.Errorf("%s has the hash %s, want %q", file.Name(), got, known[file.Name()])
		}
	}
}

// What assistants may do is written when it changes, and an empty list stays one: it
// permits no tool, where none permits all.
func TestTheLeashOfAgentsIsKept(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	r := registry(store)
	want := spec
	for _, agents := range []account.ToolPolicy{
		{}, {ReadOnly: true}, {Tools: []string{}}, {}, {Tools: []string{"get_media", "list_media"}}, {ReadOnly: true, Tools: []string{"get_media"}},
	} {
		want.ToolPolicy = agents
		made, err := r.Ensure(t.Context(), want)
		must(t, err)
		found, err := r.Find(t.Context(), want.Namespace, want.Name)
		must(t, err)
		if !made.ToolPolicy.Equal(agents) || !found.ToolPolicy.Equal(agents) {
			t.Errorf("want %+v, made %+v, found %+v", agents, made.ToolPolicy, found.ToolPolicy)
		}
		before := version(t, url, "account")
		_, err = r.Ensure(t.Context(), want)
		must(t, err)
		if version(t, url, "account") != before {
			t.Errorf("%+v is written twice", agents)
		}
	}
	want.Name, want.ToolPolicy = "born-with-it", account.ToolPolicy{Tools: []string{}}
	if made, err := r.Ensure(t.Context(), want); err != nil || !made.ToolPolicy.Equal(want.ToolPolicy) {
		t.Errorf("%+v, %v", made.ToolPolicy, err)
	}
}

func TestABadURLIsRefusedWithoutShowingIt(t *testing.T) {
	t.Parallel()
	_, err := postgres.Open(t.Context(), postgres.Config{DatabaseURL: "postgres://user:hunter2@host:port/db"})
	if err == nil || len(err.Error()) > 120 || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
