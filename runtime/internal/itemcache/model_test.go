package itemcache_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/itemcache"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres"
)

// modelOperations is the number of changes, and can be raised for a longer run.
const modelOperations = "MEDIASTACK_TEST_CACHE_OPERATIONS"

// world is a system of two replicas with caches, and what was acknowledged of it.
type world struct {
	*testing.T
	env      *runtimetest.Env
	replicas [2]*replica
	tenants  []*tenant

	mu    sync.Mutex
	items []*item

	stale, missing, served, notFound, unanswered, restored atomic.Int64
}

// replica is a server with connections of its own. That of its notifications passes a proxy.
type replica struct {
	core   *runtimetest.Core
	server *runtimetest.Replica
	proxy  *testenv.TCPProxy
}

// tenant is an account. version is odd while it changes; suspended is what was acknowledged last.
type tenant struct {
	runtimetest.Tenant
	principal account.Principal
	version   atomic.Int64
	suspended atomic.Bool
	keys      int64
}

// item is a public item. deleting is set before its deletion, gone when that was acknowledged. Both are
// reset by a restore. version increases before each of them, and restoring excludes deletes.
type item struct {
	id             uuid.UUID
	of             *tenant
	deleting, gone atomic.Bool
	version        atomic.Int64
	restoring      sync.RWMutex
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, env: runtimetest.NewWith(t, testenv.Database(t, testenv.PostgresServerWithPassword(t, "secret")), testenv.S3(t))}
	for i := range w.replicas {
		w.replicas[i] = w.newReplica()
	}
	for i := range 3 {
		spec := account.Spec{Name: fmt.Sprintf("tenant-%d", i), MaxStorage: 1 << 30, MaxUploadSize: 1 << 20}
		if i > 0 {
			spec.Undo = account.Undo{Window: time.Hour, For: account.UndoEveryone}
		}
		made := w.env.Tenant(t, spec)
		w.tenants = append(w.tenants, &tenant{Tenant: made, principal: w.env.Principal(t, made), keys: 1})
		for range 4 {
			w.create(w.tenants[i])
		}
	}
	return w
}

func (w *world) newReplica() *replica {
	w.Helper()
	cfg, err := pgx.ParseConfig(w.env.Database.DatabaseURL)
	w.must(err)
	r := &replica{proxy: testenv.NewTCPProxy(w.T, fmt.Sprintf("%s:%d", cfg.Host, cfg.Port))}
	store, err := postgres.Open(w.Context(), w.env.Database)
	w.must(err)
	w.Cleanup(store.Close)
	behind := w.env.Database
	behind.DatabaseURL = strings.Replace(behind.DatabaseURL, fmt.Sprintf("%s:%d", cfg.Host, cfg.Port), r.proxy.String(), 1)
	if behind.DatabaseURL == w.env.Database.DatabaseURL {
		w.Fatal("the URL of the database has no address")
	}
	changes, err := postgres.Open(w.Context(), behind)
	w.must(err)
	w.Cleanup(changes.Close)
	r.core = w.env.Core(w.T, runtimetest.CoreConfig{
		Server: runtimetest.ServerConfig(), Media: runtimetest.MediaConfig(), Upload: runtimetest.UploadConfig(), Auth: runtimetest.Credentials("a"), Now: time.Now,
		Store: store.Items, Uploads: store.Uploads, Credentials: store.Credentials, Changes: changes.Items,
		Cache: itemcache.Config{Entries: 16, Bytes: 1 << 20, Lease: 300 * time.Millisecond},
	})
	r.server = r.core.Serve(w.T, nil, []func(chi.Router){r.core.Files.Mount})
	w.Cleanup(func() { r.proxy.Set(testenv.ProxyOpen) }) // before the server ends
	return r
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// repeat repeats a write whose connection endListeners has ended.
func (w *world) repeat(write func() error) {
	w.Helper()
	err := write()
	for fault.Is(err, fault.Unavailable) && w.Context().Err() == nil {
		err = write()
	}
	w.must(err)
}

// create uploads and seals a public item. A repeated one may leave another item, which is not read.
func (w *world) create(of *tenant) {
	w.Helper()
	core, id := w.replicas[0].core, uuid.Nil
	w.repeat(func() error {
		upload, err := core.Uploads.Begin(w.Context(), of.principal, 0)
		if err != nil {
			return err
		}
		defer upload.Close(w.Context())
		if err := upload.Receive(w.Context(), strings.NewReader("text"), "text/plain"); err != nil {
			return err
		}
		draft, err := upload.Commit(w.Context(), media.Fields{FileName: "a.txt", Access: media.Public})
		if err != nil {
			return err
		}
		id = draft.ID
		_, err = core.Media.Seal(w.Context(), of.principal, id)
		return err
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.items = append(w.items, &item{id: id, of: of})
}

// pick returns a random item that is not being deleted, or nil.
func (w *world) pick(random *rand.Rand) *item {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range 20 {
		if found := w.items[random.IntN(len(w.items))]; !found.deleting.Load() {
			return found
		}
	}
	return nil
}

// read reads an item and downloads it, and compares the responses with what was acknowledged before the
// request, and did not change while it ran.
func (w *world) read(ctx context.Context, r *replica, i *item) {
	w.get(ctx, r, i)
	w.download(ctx, r, i)
}

// get reads an item for its app. Whether the account is suspended is asked before, by authentication.
func (w *world) get(ctx context.Context, r *replica, i *item) {
	gone, changes := i.gone.Load(), i.version.Load()
	_, err := r.core.Items.Get(ctx, i.of.principal, i.id)
	switch {
	case err == nil && gone && i.version.Load() == changes:
		w.stale.Add(1)
		w.Errorf("item %s was read after the acknowledgement of its deletion", i.id)
	case err == nil:
		w.served.Add(1)
	case fault.Is(err, fault.NotFound):
		w.notFound.Add(1)
		if !i.deleting.Load() && i.version.Load() == changes {
			w.missing.Add(1)
			w.Errorf("item %s exists, and was not found by its app", i.id)
		}
	default:
		w.unanswered.Add(1)
	}
}

func (w *world) download(ctx context.Context, r *replica, i *item) {
	version, suspended := i.of.version.Load(), i.of.suspended.Load()
	gone, changes := i.gone.Load(), i.version.Load()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, runtimetest.BaseURL+"/media/file/"+i.id.String()+"/original/a.txt", nil)
	if err != nil {
		w.Error(err)
		return
	}
	response, err := r.server.Client.Do(request)
	if err != nil {
		w.unanswered.Add(1)
		return
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	steady := version%2 == 0 && i.of.version.Load() == version
	switch response.StatusCode {
	case http.StatusOK:
		w.served.Add(1)
		if gone && i.version.Load() == changes || steady && suspended {
			w.stale.Add(1)
			w.Errorf("item %s was served after the acknowledgement: deleted %t, suspended %t", i.id, gone, suspended)
		}
	case http.StatusNotFound:
		w.notFound.Add(1)
		if steady && !suspended && !i.deleting.Load() && i.version.Load() == changes {
			w.missing.Add(1)
			w.Errorf("item %s exists, and was not found", i.id)
		}
	default:
		w.unanswered.Add(1)
	}
}

// delete deletes an item by a replica, until that is acknowledged.
func (w *world) delete(r *replica, i *item) {
	i.restoring.RLock()
	defer i.restoring.RUnlock()
	i.version.Add(1)
	i.deleting.Store(true)
	for w.Context().Err() == nil {
		if _, err := r.core.Media.Delete(w.Context(), i.of.principal, i.id, media.DeleteOptions{}); err == nil || fault.Is(err, fault.NotFound) {
			i.gone.Store(true)
			return
		}
	}
}

// restore restores a deleted item by a replica, if there is one, until that is acknowledged.
func (w *world) restore(random *rand.Rand, r *replica) {
	w.Helper()
	w.mu.Lock()
	i := w.items[random.IntN(len(w.items))]
	for range 20 {
		if i.gone.Load() && i.of.principal.Account.Undo.Covers(false) {
			break
		}
		i = w.items[random.IntN(len(w.items))]
	}
	w.mu.Unlock()
	i.restoring.Lock()
	defer i.restoring.Unlock()
	if !i.gone.Load() || !i.of.principal.Account.Undo.Covers(false) {
		return
	}
	i.version.Add(1)
	i.gone.Store(false)
	w.repeat(func() error { _, err := r.core.Media.Restore(w.Context(), i.of.principal, i.id); return err })
	i.version.Add(1)
	i.deleting.Store(false)
	w.restored.Add(1)
}

// suspend suspends or resumes an account as the operator does.
func (w *world) suspend(of *tenant, suspended bool) {
	w.Helper()
	of.version.Add(1)
	spec := of.Spec
	spec.Namespace, spec.Suspended = "team", suspended
	w.repeat(func() error { _, err := w.env.Registry.Ensure(w.Context(), spec); return err })
	of.suspended.Store(suspended)
	of.version.Add(1)
}

// endListeners ends the connections that listen.
func (w *world) endListeners() {
	w.Helper()
	conn, err := pgx.Connect(w.Context(), w.env.Database.DatabaseURL)
	w.must(err)
	defer conn.Close(w.Context())
	_, err = conn.Exec(w.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
		AND (query LIKE 'LISTEN%' OR query LIKE '%item_cache%')`)
	w.must(err)
}

// hangs are the ways in which a connection does not deliver.
var hangs = []testenv.ProxyMode{testenv.ProxyStall, testenv.ProxyMute, testenv.ProxyCut}

// hang lets the connection of a replica's notifications hang while its cache has an item. It then
// suspends the account, which the cache alone would hide, and deletes the item by the other replica.
func (w *world) hang(random *rand.Rand, r *replica, mode testenv.ProxyMode) {
	w.Helper()
	i := w.pick(random)
	if i == nil {
		return
	}
	if i.of.suspended.Load() {
		w.suspend(i.of, false)
	}
	r.proxy.Set(testenv.ProxyOpen)
	for before := w.hits(r); w.hits(r) == before; {
		w.read(w.Context(), r, i)
	}
	w.read(w.Context(), r, i) // the hit may have been that of another item
	r.proxy.Set(mode)
	w.suspend(i.of, true)
	w.read(w.Context(), r, i)
	w.suspend(i.of, false)
	for _, other := range w.replicas {
		if other != r {
			w.delete(other, i)
		}
	}
	w.read(w.Context(), r, i)
}

// change makes one random change, and returns its name.
func (w *world) change(random *rand.Rand) string {
	w.Helper()
	r, of := w.replicas[random.IntN(2)], w.tenants[random.IntN(len(w.tenants))]
	switch n := random.IntN(100); {
	case n < 40:
		var deleting sync.WaitGroup
		for range 1 + random.IntN(3) {
			if i := w.pick(random); i != nil {
				by := w.replicas[random.IntN(2)]
				deleting.Go(func() { w.delete(by, i) })
			}
		}
		deleting.Wait()
		return "delete"
	case n < 50:
		w.restore(random, r)
		return "restore"
	case n < 65:
		if !of.suspended.Load() {
			w.create(of)
		}
		return "create"
	case n < 80:
		w.suspend(of, !of.suspended.Load())
		return "suspend or resume"
	case n < 84:
		w.repeat(func() error {
			of.keys++ // a number is issued once
			_, _, err := w.env.Registry.IssueKey(w.Context(), of.App.ID, of.keys, time.Hour)
			return err
		})
		return "new key"
	case n < 88:
		w.endListeners()
		return "lost connections"
	case n < 96:
		w.hang(random, r, hangs[random.IntN(len(hangs))])
		return "hanging connection"
	default:
		for _, r := range w.replicas {
			r.proxy.Set(testenv.ProxyOpen)
		}
		return "repaired connections"
	}
}

// hits returns how many look-ups the caches of replicas answered.
func (w *world) hits(of ...*replica) (n float64) {
	w.Helper()
	for _, r := range of {
		families, err := prometheus.Gatherer(r.core.Registry).Gather()
		w.must(err)
		for _, family := range families {
			if family.GetName() == "mediastack_item_cache_lookups_total" {
				for _, metric := range family.GetMetric() {
					if metric.GetLabel()[0].GetValue() == "hit" {
						n += metric.GetCounter().GetValue()
					}
				}
			}
		}
	}
	return n
}

// Two replicas serve files from their caches, while items are deleted, accounts are suspended, keys
// change, and the connections of the notifications are lost or hang. Nothing is served after the
// acknowledgement of what forbids it.
func TestCache_ServesNothingStaleAfterTheAcknowledgement(t *testing.T) {
	operations := 80
	if text := os.Getenv(modelOperations); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		operations = n
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := newWorld(t)
	reading, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	t.Cleanup(func() { stop(); readers.Wait() })
	for n := range 4 {
		random := rand.New(rand.NewPCG(seed, uint64(n)+1))
		readers.Go(func() {
			for reading.Err() == nil {
				w.mu.Lock()
				// The newest items are the hot ones.
				i := w.items[len(w.items)-1-random.IntN(min(12, len(w.items)))]
				w.mu.Unlock()
				w.read(reading, w.replicas[random.IntN(2)], i)
			}
		})
	}
	random, counts := rand.New(rand.NewPCG(seed, 0)), map[string]int{}
	for _, mode := range hangs { // in every run, whatever the seed is
		w.hang(random, w.replicas[0], mode)
	}
	for range operations {
		counts[w.change(random)]++
		// Some reads of the state after each change.
		for want := w.served.Load() + w.notFound.Load() + w.unanswered.Load() + 8; w.served.Load()+w.notFound.Load()+w.unanswered.Load() < want; {
			w.read(t.Context(), w.replicas[random.IntN(2)], w.items[random.IntN(len(w.items))])
		}
	}
	stop()
	readers.Wait()
	t.Logf("%v: %d served, of which %.0f from a cache, %d not found, %d unanswered; %d stale, %d missing", counts, w.served.Load(), w.hits(w.replicas[:]...), w.notFound.Load(), w.unanswered.Load(), w.stale.Load(), w.missing.Load())
	if w.hits(w.replicas[:]...) < 20 || counts["delete"] == 0 || w.restored.Load() == 0 {
		t.Errorf("%.0f look-ups were answered by a cache", w.hits(w.replicas[:]...))
	}
}
