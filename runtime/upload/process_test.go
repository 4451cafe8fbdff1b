package upload_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/internal/runtimetest/mediatest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/objectstore"
	"mediastack.dev/runtime/postgres"
	"mediastack.dev/runtime/settings"
	"mediastack.dev/runtime/upload"
	"mediastack.dev/runtime/work"
)

// process is a process of the service, with its lease.
type process struct {
	mediatest.Replica
	b       *harness
	id      uuid.UUID
	data    *postgres.Store
	store   *processStore
	objects *processObjects
}

// processStore is the store of a process that may have lost its connection to PostgreSQL.
type processStore struct {
	upload.Store
	cut atomic.Bool
}

var errNoDatabase = errors.New("the database does not respond")

func (s *processStore) CommitStored(ctx context.Context, item media.Item, by account.Actor, writer *upload.Writer, keyID uuid.UUID) error {
	if s.cut.Load() {
		return errNoDatabase
	}
	return s.Store.CommitStored(ctx, item, by, writer, keyID)
}

func (s *processStore) AbandonStored(ctx context.Context, itemID uuid.UUID, scope media.Scope, writer *upload.Writer, uncertain bool, keys []string, notBefore time.Time) (*media.Removal, error) {
	if s.cut.Load() {
		return nil, errNoDatabase
	}
	return s.Store.AbandonStored(ctx, itemID, scope, writer, uncertain, keys, notBefore)
}

// processObjects is the object store of a process. It counts the objects that are stored, and calls before and after around each.
type processObjects struct {
	*objectstore.Store
	before, after func()
	stored        atomic.Int64
}

func (o *processObjects) Put(ctx context.Context, bucket, key, contentType string, body io.ReadSeeker, size int64) error {
	if o.before != nil {
		o.before()
	}
	err := o.Store.Put(ctx, bucket, key, contentType, body, size)
	o.stored.Add(1)
	if o.after != nil {
		o.after()
	}
	return err
}

// process starts a process with changed dependencies of its uploads.
func (b *harness) process(change ...func(*upload.Deps)) *process {
	b.T.Helper()
	p := &process{b: b, data: b.Open(), objects: &processObjects{Store: b.Objects}}
	p.id, p.store = runtimetest.Lease(b.T, p.data), &processStore{Store: p.data.Uploads}
	deps := upload.Deps{Store: p.store, Objects: p.objects, Settings: settings.NewService(p.data.Settings), Now: b.Clock.Now, Log: slog.New(slog.DiscardHandler)}
	for _, apply := range change {
		apply(&deps)
	}
	p.Replica = mediatest.NewReplica(b.T, mediatest.Config, deps, p.data.Items)
	return p
}

// at makes a process use a clock. It does not change the ids of items, so a clock that is behind can be advanced.
func at(now func() time.Time) func(*upload.Deps) { return func(deps *upload.Deps) { deps.Now = now } }

// behind returns a clock that stands still hours ago.
func behind() *runtimetest.Clock {
	clock := &runtimetest.Clock{}
	clock.Freeze()
	clock.Advance(-6 * time.Hour)
	return clock
}

// upload uploads a file.
func (p *process) upload(of account.Principal, size int) (media.Item, error) {
	return uploadFile(p.b.T.Context(), p.Uploads, of, bytes.NewReader(random(size)), media.Fields{})
}

// draft uploads a file, and returns the key of its object.
func (p *process) draft(of account.Principal, size int) (key string) {
	p.b.T.Helper()
	item, err := p.upload(of, size)
	must(p.b.T, err)
	return item.File().Key
}

// unrecorded stores an object of which nothing is recorded, and returns its key: the process has lost PostgreSQL meanwhile.
func (p *process) unrecorded(of account.Principal, size int) (key string) {
	p.b.T.Helper()
	before := p.b.Stored(of)
	p.store.cut.Store(true)
	defer p.store.cut.Store(false)
	if _, err := p.upload(of, size); !errors.Is(err, errNoDatabase) {
		p.b.T.Fatalf("an upload without PostgreSQL: %v", err)
	}
	for key := range p.b.Stored(of) {
		if _, known := before[key]; !known {
			return key
		}
	}
	p.b.T.Fatal("nothing was stored")
	return ""
}

// settle does what a heartbeat does, or the end of the process.
func (p *process) settle(last bool) {
	p.b.T.Helper()
	must(p.b.T, p.Uploads.Settle(p.b.T.Context(), last))
}

// writerOf returns the writer in a key; 0 = the upload was reserved before its object was stored.
func (b *harness) writerOf(key string) int64 {
	_, number, _ := media.WriterOfKey(key)
	return number
}

// exec changes rows.
func (b *harness) exec(sql string, args ...any) {
	b.T.Helper()
	_, err := testenv.Connections(b.T, b.URL).Exec(b.T.Context(), sql, args...)
	must(b.T, err)
}

// search runs the searches of another process that are due.
func (b *harness) search() {
	b.T.Helper()
	own := runtimetest.Lease(b.T, b.Store)
	b.exec(`UPDATE runtime_instance SET alive_since = now() - interval '1 day' WHERE id = $1`, own)
	runner, err := work.NewRunner(work.Deps{Store: b.Store.Tasks, Log: slog.New(slog.DiscardHandler)})
	must(b.T, err)
	searcher := upload.NewSearcher(upload.SearchDeps{Store: b.Store.Uploads, Objects: b.Objects, Guard: b.Guard, Log: slog.New(slog.DiscardHandler)})
	must(b.T, runner.Register(upload.SearchWork, searcher, searcher.Policy()))
	must(b.T, runner.Drain(b.T.Context(), upload.SearchWork))
	b.Counts(0, "searches failed", `SELECT count(*) FROM work WHERE kind = $1 AND attempts > 0`, upload.SearchWork)
}

// dies lets another process declare this one dead.
func (p *process) dies() {
	p.b.T.Helper()
	p.b.exec(`UPDATE runtime_instance SET lease_ends = now() - interval '1 minute' WHERE id = $1`, p.id)
	p.b.search()
	p.b.Counts(0, "writers of a dead process have not ended", `SELECT count(*) FROM upload_writer WHERE instance_id = $1 AND ended_at IS NULL`, p.id)
}

// graceOver lets the grace of writers that have ended pass, and searches for their objects.
func (b *harness) graceOver() {
	b.T.Helper()
	b.exec(`UPDATE upload_writer SET ended_at = ended_at - interval '10 minutes' WHERE ended_at IS NOT NULL`)
	b.exec(`UPDATE work SET due_at = now() WHERE kind = $1`, upload.SearchWork)
	b.search()
	b.Counts(0, "writers were searched and not forgotten", `SELECT count(*) FROM upload_writer WHERE ended_at IS NOT NULL`)
}

// queued returns the keys of the removals that are queued.
func (b *harness) queued(of account.Principal) (keys []string) {
	b.T.Helper()
	must(b.T, testenv.Connections(b.T, b.URL).QueryRow(b.T.Context(),
		`SELECT coalesce(array_agg(key ORDER BY key), '{}') FROM object_removal, unnest(keys) AS key WHERE account_id = $1`, of.Account.ID).Scan(&keys))
	return keys
}

// keys returns the keys of the objects of a tenant, sorted.
func (b *harness) keys(of account.Principal) []string {
	b.T.Helper()
	return slices.Sorted(maps.Keys(b.Stored(of)))
}

func sorted(keys ...string) []string { return slices.Sorted(slices.Values(keys)) }

// registered returns how many writers of an account are registered.
func (b *harness) registered(of account.Principal) int64 {
	b.T.Helper()
	return b.Number(`SELECT count(*) FROM upload_writer WHERE account_id = $1`, of.Account.ID)
}

// statements returns how many statements a process has executed.
func (p *process) statements() (n uint64) {
	p.b.T.Helper()
	registry := prometheus.NewPedanticRegistry()
	must(p.b.T, p.data.Register(registry))
	families, err := registry.Gather()
	must(p.b.T, err)
	for _, family := range families {
		if family.GetName() == "mediastack_database_statement_duration_seconds" {
			for _, metric := range family.GetMetric() {
				n += metric.GetHistogram().GetSampleCount()
			}
		}
	}
	return n
}
