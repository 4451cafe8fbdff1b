package upload_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/runtimetest/mediatest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
	"mediastack.dev/runtime/upload"
	"mediastack.dev/runtime/work"
)

// later is a replica that makes derivatives after uploads, and what runs its tasks.
type later struct {
	mediatest.Replica
	*upload.Derivatives
	runner *work.Runner
	pool   *watched
}

// withLater returns such a replica over an object store.
func (b *harness) withLater(objects media.ObjectStore) *later {
	b.T.Helper()
	replica, pool := b.withQueue(objects, mediatest.Config, 2)
	runner, err := work.NewRunner(work.Deps{Store: b.Store.Tasks, Log: slog.New(slog.DiscardHandler)})
	must(b.T, err)
	made := upload.NewDerivatives(upload.DerivativesDeps{Store: b.Store.Uploads, Uploads: replica.Uploads, RunNow: runner.RunNow, Workers: 1,
		Timeout: time.Minute, Log: slog.New(slog.DiscardHandler)})
	must(b.T, runner.Register(upload.DerivativesWork, made, made.Policy()))
	return &later{replica, made, runner, pool}
}

// drain runs the tasks that are due.
func (l *later) drain(t *testing.T) {
	t.Helper()
	must(t, l.runner.Drain(t.Context(), upload.DerivativesWork))
}

// laterTenant returns an account whose derivatives are made after the upload.
func (b *harness) laterTenant(maxStorage int64) account.Principal {
	b.T.Helper()
	p := b.Tenant(maxStorage)
	b.choose(p, settings.Layer{UseWebP: new(true), Pictures: settings.Pictures{Derivatives: settings.DerivativesLater}})
	return p
}

// now returns an item as it is.
func (b *harness) now(p account.Principal, item media.Item) media.Item {
	b.T.Helper()
	found, err := b.Items.Get(b.T.Context(), p, item.ID)
	must(b.T, err)
	return found
}

func TestLater_AnswersBeforeTheDerivativesAreMade(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"draft", "sealed", "resumable"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			l, p := b.withLater(b.Objects), b.laterTenant(1<<30)
			// All slots of images are held: an upload that waits for none is not rejected.
			release := flood(t, l.pool, p, 1)
			file := jpegOf(t, picture(800, 600))
			var item media.Item
			if kind == "resumable" {
				r, err := l.Uploads.CreateResumable(t.Context(), p, int64(len(file)), media.Fields{FileName: "a.jpg"}, "")
				must(t, err)
				must(t, check.ErrorOf(r.Append(t.Context(), 0, bytes.NewReader(file), int64(len(file)), nil)))
				item = *b.resume(l.Uploads, p, r).State().Item
			} else {
				var err error
				item, err = uploadFile(t.Context(), l.Uploads, p, bytes.NewReader(file), media.Fields{FileName: "a.jpg"})
				must(t, err)
			}
			release()
			if item.Derivatives != media.DerivativesPending || variants(item) != "original" || item.FileVariant() != media.Shown {
				t.Fatalf("the draft is %+v", item)
			}
			if kind == "sealed" {
				must(t, check.ErrorOf(b.Items.Seal(t.Context(), p, item.ID)))
			}
			l.drain(t)
			made := b.now(p, item)
			if made.Derivatives != media.DerivativesLater || variants(made) != "original thumbnail webp" || made.FileVariant() != media.Shown || made.File().Variant != media.WebP {
				t.Errorf("afterwards it is %+v", made)
			}
			if made.Facts.Width != 800 || made.Facts.Height != 600 || len(made.Facts.Placeholder) == 0 || made.Version <= item.Version {
				t.Errorf("its facts are %+v, of version %d", made.Facts, made.Version)
			}
			for _, object := range made.Objects {
				if got := b.BytesOf(p, object); int64(len(got)) != object.Bytes {
					t.Errorf("%s has %d bytes, want %d", object.Variant, len(got), object.Bytes)
				}
			}
			b.Counts(0, "tasks", `SELECT count(*) FROM work WHERE kind = 'derivatives'`)
			b.Balanced(p)
		})
	}
}

func TestLater_ARequestMakesThemAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l, p := b.withLater(b.Objects), b.laterTenant(1<<30)
	item, err := uploadFile(t.Context(), l.Uploads, p, bytes.NewReader(jpegOf(t, picture(80, 60))), media.Fields{})
	must(t, err)
	// Its task waits for hours after a failure.
	b.exec(`UPDATE work SET due_at = now() + interval '5 hours' WHERE kind = 'derivatives'`)
	errs := make(chan error, 8)
	for range cap(errs) {
		go func() { errs <- l.MakeNow(context.WithoutCancel(t.Context()), item, nil) }()
	}
	for range cap(errs) {
		must(t, <-errs)
	}
	if made := b.now(p, item); variants(made) != "original thumbnail webp" {
		t.Errorf("the item has %s", variants(made))
	}
	must(t, l.MakeNow(t.Context(), item, nil)) // again
	b.Balanced(p)
}

func TestLater_WithoutRoomTheOriginalStays(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l, p := b.withLater(b.Objects), b.laterTenant(1<<30)
	item, err := uploadFile(t.Context(), l.Uploads, p, bytes.NewReader(jpegOf(t, picture(800, 600))), media.Fields{})
	must(t, err)
	used := b.Number(`SELECT bytes FROM account_usage WHERE account_id = $1`, p.Account.ID)
	b.exec(`UPDATE account SET max_storage = $2 WHERE id = $1`, p.Account.ID, used+10)
	l.drain(t)
	if made := b.now(p, item); made.Derivatives != media.DerivativesPending || variants(made) != "original" {
		t.Errorf("without any room the item is %+v", made)
	}
	if err := l.MakeNow(t.Context(), item, nil); !fault.Is(err, fault.Unavailable) || !strings.Contains(fault.From(err).Public, "no room") {
		t.Errorf("a request: %v", err)
	}
	b.Clock.Advance(2 * time.Minute)
	b.exec(`UPDATE account SET max_storage = $2 WHERE id = $1`, p.Account.ID, used+100_000) // the thumbnail has less, the conversion more
	must(t, l.MakeNow(t.Context(), item, nil))
	if made := b.now(p, item); made.Derivatives != media.DerivativesLater || variants(made) != "original thumbnail" || made.File().Variant != media.Original {
		t.Errorf("with room for the thumbnail the item is %+v", made)
	}
	b.settle(p)
}

// An upload that did not fit was taken for an account without room for a thumbnail.
func TestLater_AnUploadThatDidNotFitLeavesRoomForThem(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l, p := b.withLater(b.Objects), b.laterTenant(1<<20)
	item, err := uploadFile(t.Context(), l.Uploads, p, bytes.NewReader(jpegOf(t, picture(80, 60))), media.Fields{})
	must(t, err)
	other, err := uploadFile(t.Context(), l.Uploads, p, bytes.NewReader(jpegOf(t, picture(60, 80))), media.Fields{})
	must(t, err)
	if _, err := uploadFile(t.Context(), l.Uploads, p, bytes.NewReader(make([]byte, 2<<20)), media.Fields{}); !fault.Is(err, fault.QuotaExceeded) {
		t.Fatalf("a file that does not fit: %v", err)
	}
	must(t, l.MakeNow(t.Context(), item, nil))
	l.drain(t)
	for _, item := range []media.Item{item, other} {
		if made := b.now(p, item); variants(made) != "original thumbnail webp" {
			t.Errorf("the item has %s", variants(made))
		}
	}
	b.settle(p)
}

func TestLater_NothingIsMadeForASuspendedAccount(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l, p := b.withLater(b.Objects), b.laterTenant(1<<30)
	item, err := uploadFile(t.Context(), l.Uploads, p, bytes.NewReader(jpegOf(t, picture(80, 60))), media.Fields{})
	must(t, err)
	b.exec(`UPDATE account SET suspended = true WHERE id = $1`, p.Account.ID)
	must(t, l.MakeNow(t.Context(), item, func() error { return errors.New("a request is counted") }))
	l.drain(t)
	if n := b.Number(`SELECT count(*) FROM item WHERE account_id = $1 AND derivatives_state = 1 AND jsonb_array_length(objects) = 1`, p.Account.ID); n != 1 {
		t.Errorf("%d items are as before", n)
	}
	if n := b.Number(`SELECT count(*) FROM work WHERE kind = 'derivatives' AND attempts = 0 AND due_at BETWEEN now() + interval '30 seconds' AND now() + interval '1 minute'`); n != 1 {
		t.Errorf("%d tasks rest for a minute", n)
	}
	b.exec(`UPDATE account SET suspended = false WHERE id = $1`, p.Account.ID)
	must(t, l.MakeNow(t.Context(), item, nil))
	if made := b.now(p, item); variants(made) != "original thumbnail webp" {
		t.Errorf("afterwards the item has %s", variants(made))
	}
	b.Balanced(p)
}

// A process without a lease can't make them. A request there waited for as long as an attempt may take.
func TestLater_WithoutALeaseARequestWaitsForAnotherProcessOnly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l, p := b.withLater(b.Objects), b.laterTenant(1<<30)
	item, err := uploadFile(t.Context(), l.Uploads, p, bytes.NewReader(jpegOf(t, picture(80, 60))), media.Fields{})
	must(t, err)
	b.exec(`UPDATE runtime_instance SET lease_ends = now() - interval '1 second'`)
	l.SetUnclaimedTimeout(100 * time.Millisecond)
	unavailable := func(when string, ctx context.Context, retry bool) {
		t.Helper()
		err := l.MakeNow(ctx, item, nil)
		var f *fault.Error
		if !errors.As(err, &f) || f.Kind != fault.Unavailable || (f.RetryAfter > 0) != retry {
			t.Errorf("%s the request ends with %v, of %+v", when, err, f)
		}
	}
	unavailable("while no process makes them,", t.Context(), true)
	b.exec(`UPDATE work SET claim = gen_random_uuid(), due_at = now() + interval '5 hours' WHERE kind = 'derivatives'`)
	waiting, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	unavailable("while another process makes them,", waiting, false)
	b.exec(`UPDATE work SET due_at = now() - interval '1 second' WHERE kind = 'derivatives'`)
	unavailable("after the claim of the other process has ended,", t.Context(), true)
	b.exec(`UPDATE runtime_instance SET lease_ends = now() + interval '1 hour'`)
	must(t, l.MakeNow(t.Context(), item, nil))
	if made := b.now(p, item); variants(made) != "original thumbnail webp" {
		t.Errorf("with a lease the item has %s", variants(made))
	}
	b.Balanced(p)
}

// A file that the store has lost may have been restored by the next attempt, but not for ever.
func TestLater_OfALostFileThereIsNoneAfterThreeAttempts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l, p := b.withLater(unreadable{b.Objects, fault.New(fault.NotFound, "not found in the object store")}), b.laterTenant(1<<30)
	item, err := uploadFile(t.Context(), l.Uploads, p, bytes.NewReader(jpegOf(t, picture(80, 60))), media.Fields{})
	must(t, err)
	for attempt, want := range []media.DerivativesState{media.DerivativesPending, media.DerivativesPending, media.DerivativesLater} {
		b.exec(`UPDATE work SET due_at = now() WHERE kind = 'derivatives'`)
		l.drain(t)
		if made := b.now(p, item); made.Derivatives != want || variants(made) != "original" {
			t.Errorf("after attempt %d the item is %+v", attempt+1, made)
		}
	}
	b.Counts(0, "tasks", `SELECT count(*) FROM work WHERE kind = 'derivatives'`)
}

// unreadable is an object store that opens no object.
type unreadable struct {
	media.ObjectStore
	err error
}

func (u unreadable) Open(context.Context, string, string, int64, int64) (io.ReadCloser, error) {
	return nil, u.err
}

func TestLater_IsTriedUntilTheStoreResponds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l, p := b.withLater(unreadable{b.Objects, fault.New(fault.Unavailable, "the object store does not respond")}), b.laterTenant(1<<30)
	item, err := uploadFile(t.Context(), l.Uploads, p, bytes.NewReader(jpegOf(t, picture(80, 60))), media.Fields{})
	must(t, err)
	for range 5 {
		b.exec(`UPDATE work SET due_at = now() WHERE kind = 'derivatives'`)
		l.drain(t)
	}
	if made := b.now(p, item); made.Derivatives != media.DerivativesPending {
		t.Errorf("after five attempts the item is %+v", made)
	}
	must(t, b.withLater(b.Objects).MakeNow(t.Context(), item, nil))
	if made := b.now(p, item); variants(made) != "original thumbnail webp" {
		t.Errorf("the item has %s", variants(made))
	}
}

// A process whose writer is younger than the item replaces it: the search of what the process leaves would not look at the item.
func TestLater_AnItemThatIsOlderThanTheWriterGetsThem(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, p := b.withLater(b.Objects), b.laterTenant(1<<30)
	file := jpegOf(t, picture(80, 60))
	item, err := uploadFile(t.Context(), first.Uploads, p, bytes.NewReader(file), media.Fields{})
	must(t, err)
	b.Clock.Advance(time.Hour)
	second := b.withLater(b.Objects)
	younger, err := uploadFile(t.Context(), second.Uploads, p, bytes.NewReader(file), media.Fields{})
	must(t, err)
	must(t, second.MakeNow(t.Context(), item, nil))
	made := b.now(p, item)
	if variants(made) != "original thumbnail webp" {
		t.Fatalf("the item has %s", variants(made))
	}
	original, _ := younger.Objects.Find(media.Original)
	if derivative, _ := made.Objects.Find(media.WebP); b.writerOf(derivative.Key) == b.writerOf(original.Key) {
		t.Errorf("%s is of the writer of %s", derivative.Key, original.Key)
	}
	b.Balanced(p)
}

// Requests for one thumbnail each took a token of their client.
func TestLater_OneOfTheRequestsForAThumbnailIsCounted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l, p := b.withLater(b.Objects), b.laterTenant(1<<30)
	item, err := uploadFile(t.Context(), l.Uploads, p, bytes.NewReader(jpegOf(t, picture(80, 60))), media.Fields{})
	must(t, err)
	var counted atomic.Int32
	errs := make(chan error, 8)
	for range cap(errs) {
		go func() {
			errs <- l.MakeNow(context.WithoutCancel(t.Context()), item, func() error { counted.Add(1); return nil })
		}()
	}
	for range cap(errs) {
		must(t, <-errs)
	}
	if counted.Load() != 1 {
		t.Errorf("%d of %d requests are counted", counted.Load(), cap(errs))
	}
}

// The requests that wait for one that is rejected are not rejected with it.
func TestLater_ARequestIsRejectedByItsOwnLimit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l, p := b.withLater(b.Objects), b.laterTenant(1<<30)
	item, err := uploadFile(t.Context(), l.Uploads, p, bytes.NewReader(jpegOf(t, picture(80, 60))), media.Fields{})
	must(t, err)
	limit := fault.New(fault.Busy, "too many new pictures")
	begun, joined := make(chan struct{}), &waiting{Context: context.WithoutCancel(t.Context()), waits: make(chan struct{})}
	rejected, other := make(chan error, 1), make(chan error, 1)
	go func() {
		rejected <- l.MakeNow(context.WithoutCancel(t.Context()), item, func() error { close(begun); <-joined.waits; return limit })
	}()
	<-begun
	go func() { other <- l.MakeNow(joined, item, nil) }()
	if err := <-rejected; !errors.Is(err, limit) {
		t.Errorf("the request over its limit: %v", err)
	}
	if err := <-other; err != nil {
		t.Errorf("the other one: %v", err)
	}
	if made := b.now(p, item); variants(made) != "original thumbnail webp" {
		t.Errorf("the item has %s", variants(made))
	}
}

// waiting is a context that closes waits when a select waits for its end.
type waiting struct {
	context.Context
	once  sync.Once
	waits chan struct{}
}

func (w *waiting) Done() <-chan struct{} {
	w.once.Do(func() { close(w.waits) })
	return w.Context.Done()
}

// settle runs the removals that are due, and checks that the bucket has what the rows name.
func (b *harness) settle(p account.Principal) {
	b.T.Helper()
	b.Clock.Advance(10 * time.Minute)
	must(b.T, check.ErrorOf(b.Purger.Run(b.T.Context())))
	b.Balanced(p)
}

func TestLater_OfABrokenImageThereIsNone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l, p := b.withLater(b.Objects), b.laterTenant(1<<30)
	file := jpegOf(t, picture(80, 60))
	item, err := uploadFile(t.Context(), l.Uploads, p, strings.NewReader(string(file[:200])), media.Fields{})
	must(t, err)
	l.drain(t)
	if made := b.now(p, item); made.Derivatives != media.DerivativesLater || variants(made) != "original" {
		t.Errorf("the item is %+v", made)
	}
	if _, ok := b.now(p, item).Thumbnail(); ok {
		t.Error("it has a thumbnail")
	}
	b.Counts(0, "tasks", `SELECT count(*) FROM work WHERE kind = 'derivatives'`)
	b.Balanced(p)
}

func TestLater_OfADeletedItemNothingIsLeft(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.laterTenant(1 << 30)
	deleting := &hookedStore{ObjectStore: b.Objects}
	l := b.withLater(deleting)
	item, err := uploadFile(t.Context(), l.Uploads, p, bytes.NewReader(jpegOf(t, picture(80, 60))), media.Fields{})
	must(t, err)
	deleting.before = func() { must(t, deleteItem(t.Context(), b.Items, p, item.ID)) }
	l.drain(t)
	b.Counts(0, "items", `SELECT count(*) FROM stored_item WHERE account_id = $1`, p.Account.ID)
	b.Counts(0, "tasks", `SELECT count(*) FROM work WHERE kind = 'derivatives'`)
	b.settle(p)
}

// hookedStore calls before when the first object is stored after it was set.
type hookedStore struct {
	media.ObjectStore
	before func()
}

func (s *hookedStore) Put(ctx context.Context, bucket, key, contentType string, body io.ReadSeeker, size int64) error {
	if before := s.before; before != nil {
		s.before = nil
		before()
	}
	return s.ObjectStore.Put(ctx, bucket, key, contentType, body, size)
}

func TestLater_ADeletedItemThatIsRestoredGetsThem(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l, p := b.withLater(b.Objects), b.laterTenant(1<<30)
	b.SetUndo(&p, account.Undo{Window: time.Hour, For: account.UndoEveryone})
	item, err := uploadFile(t.Context(), l.Uploads, p, bytes.NewReader(jpegOf(t, picture(80, 60))), media.Fields{})
	must(t, err)
	must(t, check.ErrorOf(b.Items.Seal(t.Context(), p, item.ID)))
	must(t, deleteItem(t.Context(), b.Items, p, item.ID))
	l.drain(t)
	b.Counts(0, "tasks", `SELECT count(*) FROM work WHERE kind = 'derivatives'`)
	must(t, check.ErrorOf(b.Items.Restore(t.Context(), p, item.ID)))
	l.drain(t)
	if made := b.now(p, item); variants(made) != "original thumbnail webp" {
		t.Errorf("the item has %s", variants(made))
	}
	b.Balanced(p)
}

// Seals, changes and deletes of items whose derivatives are being made keep the counters right.
func TestLater_BesideOtherChangesTheTotalsAreExact(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l, p := b.withLater(b.Objects), b.laterTenant(1<<30)
	file := jpegOf(t, picture(80, 60))
	var items []media.Item
	for range 24 {
		item, err := uploadFile(t.Context(), l.Uploads, p, bytes.NewReader(file), media.Fields{})
		must(t, err)
		items = append(items, item)
	}
	done := make(chan error, 1)
	go func() { done <- l.runner.Drain(context.WithoutCancel(t.Context()), upload.DerivativesWork) }()
	for i, item := range items {
		must(t, check.ErrorOf(b.Items.Seal(t.Context(), p, item.ID)))
		if i%3 == 0 {
			must(t, deleteItem(t.Context(), b.Items, p, item.ID))
		}
	}
	must(t, <-done)
	l.drain(t)
	b.Counts(16, "items with derivatives", `SELECT count(*) FROM item WHERE account_id = $1 AND derivatives_state = 2 AND jsonb_array_length(objects) = 3`, p.Account.ID)
	b.settle(p)
}

// The conditional update takes what a seal that it waits for has made of the item.
func TestLater_WaitsForASealThatIsCommitted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l, p := b.withLater(b.Objects), b.laterTenant(1<<30)
	item, err := uploadFile(t.Context(), l.Uploads, p, bytes.NewReader(jpegOf(t, picture(80, 60))), media.Fields{})
	must(t, err)
	tx, err := testenv.Connections(t, b.URL).Begin(t.Context())
	must(t, err)
	must(t, check.ErrorOf(tx.Exec(t.Context(), `UPDATE stored_item SET caption = 'changed', sealed_at = now(), version = version + 1 WHERE id = $1`, item.ID)))
	done := make(chan error, 1)
	go func() { done <- l.MakeNow(context.WithoutCancel(t.Context()), item, nil) }()
	wait.Until(t, "the statement waits", func() bool {
		return b.Number(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == 1
	})
	before := b.Number(`SELECT coalesce(sum(bytes), 0)::bigint FROM app_total WHERE account_id = $1`, p.Account.ID)
	must(t, tx.Commit(t.Context()))
	must(t, <-done)
	made := b.now(p, item)
	if made.Draft() || made.Caption != "changed" || variants(made) != "original thumbnail webp" {
		t.Errorf("the item is %+v", made)
	}
	original, _ := made.Objects.Find(media.Original)
	if after := b.Number(`SELECT coalesce(sum(bytes), 0)::bigint FROM app_total WHERE account_id = $1`, p.Account.ID); after-before != made.Objects.Bytes()-original.Bytes {
		t.Errorf("the totals grew by %d", after-before)
	}
}

// What a process stored and did not record is found although its item is there and older than the process.
func TestLater_WhatADeadProcessHasStoredIsRemoved(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.laterTenant(1 << 30)
	dead := b.process()
	l := b.withLater(b.Objects)
	item, err := uploadFile(t.Context(), l.Uploads, p, bytes.NewReader(jpegOf(t, picture(80, 60))), media.Fields{})
	must(t, err)
	writer, err := dead.data.Uploads.RegisterWriter(t.Context(), p.Account.ID, p.Account.Bucket, item.ID)
	must(t, err)
	lost := b.put(p, media.DerivativeKey(item.ID, media.WebP, uuid.New(), writer.Number))
	l.drain(t)
	dead.dies()
	b.search()
	b.graceOver()
	if queued := b.queued(p); !slices.Equal(queued, []string{lost}) {
		t.Errorf("the removal of %v is queued, want %s", queued, lost)
	}
	b.RemoveEnded()
	b.Balanced(p)
}

// A commit whose answer was lost, and that of objects which could not be stored, leave nothing and are tried again.
func TestLater_IsTriedAgainAfterAFailure(t *testing.T) {
	t.Parallel()
	b := setup(t)
	store := &brokenOnce{ObjectStore: b.Objects}
	l, p := b.withLater(store), b.laterTenant(1<<30)
	item, err := uploadFile(t.Context(), l.Uploads, p, bytes.NewReader(jpegOf(t, picture(80, 60))), media.Fields{})
	must(t, err)
	store.failing = true
	if err := l.MakeNow(t.Context(), item, nil); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a request: %v", err)
	}
	if made := b.now(p, item); made.Derivatives != media.DerivativesPending || variants(made) != "original" {
		t.Errorf("the item is %+v", made)
	}
	must(t, l.MakeNow(t.Context(), item, nil)) // before its backoff ends
	if made := b.now(p, item); variants(made) != "original thumbnail webp" {
		t.Errorf("the item has %s", variants(made))
	}
	b.settle(p)
}

// brokenOnce is an object store that stores an object, and fails, once.
type brokenOnce struct {
	media.ObjectStore
	failing bool
}

func (s *brokenOnce) Put(ctx context.Context, bucket, key, contentType string, body io.ReadSeeker, size int64) error {
	err := s.ObjectStore.Put(ctx, bucket, key, contentType, body, size)
	if s.failing {
		s.failing = false
		return errStore
	}
	return err
}
