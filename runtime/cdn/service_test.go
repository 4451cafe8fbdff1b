package cdn_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/cdn"
	"mediastack.dev/runtime/internal/runtimetest/mediatest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/work"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var must = check.NoError

// edge is a CDN. It counts the purges of each tag.
type edge struct {
	mu     sync.Mutex
	purged map[string]int
	most   int // tags of a request
	answer func(tags []string) error
}

func newEdge() *edge { return &edge{purged: map[string]int{}} }

// Purge implements cdn.Purger.
func (e *edge) Purge(_ context.Context, tags []string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.most = max(e.most, len(tags))
	if e.answer != nil {
		if err := e.answer(tags); err != nil {
			return err
		}
	}
	for _, tag := range tags {
		e.purged[tag]++
	}
	return nil
}

// answers sets what purges return from now on; nil = nil.
func (e *edge) answers(answer func(tags []string) error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer = answer
}

func (e *edge) counts() map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.purged)
}

// harness is a database whose purges replicas send to an edge.
type harness struct {
	*mediatest.Harness
	edge  *edge
	tags  *cdn.Tags
	scope media.Scope
}

func setup(t *testing.T) *harness {
	t.Helper()
	h := &harness{Harness: mediatest.New(t), edge: newEdge()}
	tenant := h.Tenant(64 << 20)
	h.scope = media.Scope{AccountID: tenant.Account.ID, AppID: tenant.App.ID}
	id, err := h.Store.CDN.KeepPurger(t.Context())
	must(t, err)
	h.tags = cdn.NewTags(id)
	return h
}

func (h *harness) exec(sql string, args ...any) {
	h.T.Helper()
	must(h.T, check.ErrorOf(testenv.Connections(h.T, h.URL).Exec(h.T.Context(), sql, args...)))
}

// replica sends purges as another process does, until stop.
func (h *harness) replica(change ...func(*cdn.Deps)) (service *cdn.Service, stop func()) {
	h.T.Helper()
	store := h.Open()
	log := slog.New(slog.DiscardHandler)
	deps := cdn.Deps{Store: store.CDN, Purger: h.edge, Now: time.Now, Log: log, Registry: prometheus.NewRegistry()}
	for _, apply := range change {
		apply(&deps)
	}
	service, err := cdn.New(deps)
	must(h.T, err)
	runner, err := work.NewRunner(work.Deps{Store: store.Tasks, Log: log})
	must(h.T, err)
	must(h.T, runner.Register(cdn.PurgeWork, service, service.Policy()))
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = runner.Run(ctx) })
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	h.T.Cleanup(stop)
	return service, stop
}

// queue queues purges of items, and returns their tags.
func (h *harness) queue(items ...uuid.UUID) (tags []string) {
	h.T.Helper()
	for _, id := range items {
		h.exec(`INSERT INTO cdn_purge (account_id, item_id) VALUES ($1, $2)`, h.scope.AccountID, id)
		tags = append(tags, h.tags.Item(id))
	}
	return tags
}

func items(n int) []uuid.UUID {
	ids := make([]uuid.UUID, n)
	for i := range ids {
		ids[i] = uuid.New()
	}
	return ids
}

// due makes what is to be sent later due.
func (h *harness) due() {
	h.exec(`UPDATE cdn_purge SET due_at = now()`)
	h.exec(`UPDATE work SET due_at = now() WHERE kind = 'cdn_purge' AND claim IS NULL`)
}

func (h *harness) left() (purges int) {
	h.T.Helper()
	must(h.T, testenv.Connections(h.T, h.URL).QueryRow(h.T.Context(), `SELECT count(*) FROM cdn_purge`).Scan(&purges))
	return purges
}

// sent reports whether every tag was purged so often.
func (h *harness) sent(times int, tags []string) func() bool {
	return func() bool {
		counts := h.edge.counts()
		return !slices.ContainsFunc(tags, func(tag string) bool { return counts[tag] < times })
	}
}

// Whatever is queued is sent twice, in requests of at most 30 tags, by one of two replicas.
func TestService_SendsEachPurgeTwice(t *testing.T) {
	t.Parallel()
	h := setup(t)
	ids := items(100)
	tags := h.queue(ids...)
	h.queue(ids[0], ids[0]) // those of one tag are one
	h.exec(`INSERT INTO cdn_purge (account_id, preset) VALUES ($1, 'hero'), ($1, NULL)`, h.scope.AccountID)
	tags = append(tags, h.tags.Preset(h.scope.AccountID, "hero"), h.tags.Account(h.scope.AccountID))
	h.replica()
	h.replica()
	wait.Until(t, "all tags are purged", h.sent(1, tags))
	wait.Until(t, "all tags are purged again, and nothing is left", func() bool { h.due(); return h.left() == 0 })
	if !h.sent(2, tags)() {
		t.Error("a tag was purged once only")
	}
	if counts := h.edge.counts(); len(counts) != len(tags) || h.edge.most > cdn.MaxTags {
		t.Errorf("%d tags in requests of up to %d, want %d tags", len(counts), h.edge.most, len(tags))
	}
}

// later is the error of a CDN that is busy.
type later struct{ after time.Duration }

// Error implements error.
func (l later) Error() string { return "the CDN is busy" }

// RetryAfter returns when to try again.
func (l later) RetryAfter() time.Duration { return l.after }

// A CDN that is away gets everything once it is back, and what it has accepted before is not sent to it again.
func TestService_TriesWithoutEnd(t *testing.T) {
	t.Parallel()
	h := setup(t)
	tags := h.queue(items(70)...)
	failing := map[string]int{}
	h.edge.answers(func(tags []string) error {
		failing[tags[0]]++
		if len(tags) == cdn.MaxTags {
			return later{time.Hour}
		}
		return nil
	})
	h.replica()
	wait.Until(t, "the CDN was asked again and again", func() bool {
		h.due()
		h.edge.mu.Lock()
		defer h.edge.mu.Unlock()
		return len(failing) > 0 && slices.Max(slices.Collect(maps.Values(failing))) > 12
	})
	if h.left() < 60 {
		t.Error("purges ended that the CDN has not accepted")
	}
	h.edge.answers(nil)
	wait.Until(t, "nothing is left", func() bool { h.due(); return h.left() == 0 })
	if !h.sent(2, tags)() {
		t.Error("a tag was not purged")
	}
}

// A process that dies while it purges leaves the task to another one.
func TestService_AnotherProcessGoesOn(t *testing.T) {
	t.Parallel()
	h := setup(t)
	stuck := make(chan struct{}, 8)
	release := make(chan struct{})
	h.edge.answers(func([]string) error { return errors.New("not now") })
	hanging := &edge{purged: map[string]int{}}
	hanging.answer = func([]string) error { stuck <- struct{}{}; <-release; return errors.New("killed") }
	tags := h.queue(items(3)...)
	_, stop := h.replica(func(deps *cdn.Deps) { deps.Purger = hanging })
	wait.Receive(t, "the first process purges", stuck)
	h.edge.answers(nil)
	h.replica()
	// The lease of the first process ends, as after a kill.
	h.exec(`UPDATE work SET claim = NULL, instance_id = NULL, due_at = now() WHERE kind = 'cdn_purge'`)
	wait.Until(t, "the second process has purged", h.sent(1, tags))
	close(release)
	stop()
	wait.Until(t, "nothing is left", func() bool { h.due(); return h.left() == 0 })
}

// awaited is a store whose caches are slow to forget.
type awaited struct {
	cdn.Store
	await func(ctx context.Context) error
}

// AwaitItemCaches waits.
func (a awaited) AwaitItemCaches(ctx context.Context) error { return a.await(ctx) }

// A CDN asks the service again at once, so nothing is purged while a replica serves what was before.
func TestService_PurgesOnceNoReplicaServesWhatWasBefore(t *testing.T) {
	t.Parallel()
	h := setup(t)
	asked, forgotten := make(chan struct{}, 100), make(chan struct{})
	tags := h.queue(items(3)...)
	h.replica(func(deps *cdn.Deps) {
		deps.Store = awaited{deps.Store, func(ctx context.Context) error {
			asked <- struct{}{}
			select {
			case <-forgotten:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
	})
	wait.Receive(t, "the caches are waited for", asked)
	if counts := h.edge.counts(); len(counts) > 0 {
		t.Errorf("%v is purged before", counts)
	}
	close(forgotten)
	wait.Until(t, "the tags are purged", h.sent(1, tags))
}

func TestService_PurgesNothingWhileTheDatabaseIsHeld(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.exec(`DELETE FROM cdn_purger`)
	h.queue(items(1)...)
	asked := make(chan struct{}, 1000)
	service, _ := h.replica(func(deps *cdn.Deps) {
		deps.Ready = func() error { asked <- struct{}{}; return errors.New("held") }
	})
	for range 3 {
		wait.Receive(t, "the process checks", asked)
	}
	if len(h.edge.counts()) > 0 || h.left() != 1 {
		t.Error("something was purged")
	}
	if tags := service.Tags(media.Item{}, ""); tags != nil {
		t.Errorf("a file has the tags %v although nothing is queued", tags)
	}
}

// A tag says nothing, is as long as documented, and is of what it names alone.
func TestTags_AreDistinct(t *testing.T) {
	t.Parallel()
	h := setup(t)
	service, _ := h.replica()
	item := media.Item{ID: uuid.New(), AccountID: uuid.New(), AppID: uuid.New(), Group: "album"}
	wait.Until(t, "files have tags", func() bool { return len(service.Tags(item, "")) > 0 })
	all := service.Tags(item, "hero")
	want := []string{h.tags.Item(item.ID), h.tags.Account(item.AccountID), h.tags.Group(item.AppID, "album"), h.tags.Preset(item.AccountID, "hero")}
	if !slices.Equal(all, want) {
		t.Errorf("the tags are %v, want %v", all, want)
	}
	other := item
	other.ID, other.Group = uuid.New(), "other"
	if tags := service.Tags(other, ""); len(tags) != 3 || tags[1] != all[1] || tags[0] == all[0] || tags[2] == all[2] {
		t.Errorf("another item of the account has the tags %v", tags)
	}
	other.Group = ""
	if tags := service.Tags(other, ""); len(tags) != 2 {
		t.Errorf("an item without a group has the tags %v", tags)
	}
	same := uuid.New()
	seen := map[string]string{}
	tags := cdn.NewTags(uuid.UUID{1})
	for name, tag := range map[string]string{"item": tags.Item(same), "account": tags.Account(same), "group": tags.Group(same, "a"), "preset": tags.Preset(same, "a"), "other installation": cdn.NewTags(uuid.UUID{2}).Item(same)} {
		if len(tag) != cdn.TagLength {
			t.Errorf("the tag of the %s is %q", name, tag)
		}
		if before, ok := seen[tag]; ok {
			t.Errorf("%s and %s have one tag", before, name)
		}
		seen[tag] = name
	}
}
