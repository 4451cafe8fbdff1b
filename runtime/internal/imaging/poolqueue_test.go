package imaging_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
)

func TestDerive_AccountsTakeTurns(t *testing.T) {
	t.Parallel()
	pool := open(t, config(fakeWorker(t, "works")))
	blocker := hold(uuid.New(), nil)
	all := []<-chan derived{pool.begin(t.Context(), blocker.ImageJob)}
	<-blocker.started

	var order []string
	accounts := map[byte]uuid.UUID{'a': uuid.New(), 'b': uuid.New(), 'c': uuid.New()}
	for i, name := range []string{"a1", "a2", "a3", "b1", "a4", "b2", "c1"} {
		h := hold(accounts[name[0]], func() { order = append(order, name) })
		h.release()
		all = append(all, pool.begin(t.Context(), h.ImageJob))
		pool.waiting(i + 1)
	}
	blocker.release()
	for _, done := range all {
		if d := <-done; d.err != nil {
			t.Error(d.err)
		}
	}
	if want := []string{"a1", "b1", "c1", "a2", "b2", "a3", "a4"}; !slices.Equal(order, want) {
		t.Errorf("the order was %v, want %v", order, want)
	}
}

// queued returns a small job that has a slot of the queue.
func (b *harness) queued(account uuid.UUID) media.ImageJob {
	b.t.Helper()
	job := smallJob()
	job.AccountID = account
	var err error
	if job.Slot, err = b.Reserve(account); err != nil {
		b.t.Fatal(err)
	}
	return job
}

func TestReserve_SlotIsReleasedWhenAWorkerTakesTheJob(t *testing.T) {
	t.Parallel()
	cfg := config(fakeWorker(t, "works"))
	cfg.Queue = 4
	pool := open(t, cfg)
	busy, quiet := uuid.New(), uuid.New()
	blocker := hold(busy, nil)
	blocker.Slot = pool.queued(busy).Slot
	all := []<-chan derived{pool.begin(t.Context(), blocker.ImageJob)}
	<-blocker.started
	for i := range 2 { // the running job has released its slot
		if err := pool.CheckAdmission(busy); err != nil {
			t.Errorf("with %d jobs waiting: %v", i, err)
		}
		all = append(all, pool.begin(t.Context(), pool.queued(busy)))
		pool.waiting(i + 1)
	}
	_, rejected := pool.Reserve(busy)
	for _, err := range []error{rejected, pool.CheckAdmission(busy)} {
		if f := fault.From(err); f.Kind != fault.Busy || f.RetryAfter < time.Second || f.Public == "" {
			t.Errorf("got %v", err)
		}
	}
	if err := pool.CheckAdmission(quiet); err != nil {
		t.Errorf("another account: %v", err)
	}
	all = append(all, pool.begin(t.Context(), pool.queued(quiet)))
	left, leave := context.WithCancel(t.Context())
	leave()
	if _, err := pool.ReserveWait(left, busy); !fault.Is(err, fault.Busy) {
		t.Errorf("a job that was canceled while it waited: %v", err)
	}
	waited := make(chan error, 1)
	go func() { _, err := pool.ReserveWait(t.Context(), busy); waited <- err }()
	blocker.release()
	for _, done := range all {
		if d := <-done; d.err != nil {
			t.Error(d.err)
		}
	}
	if err := <-waited; err != nil {
		t.Errorf("a job that waited for a slot: %v", err)
	}
	if err := pool.CheckAdmission(busy); err != nil {
		t.Error(err)
	}
}

func TestDerive_CancelKillsTheWorker(t *testing.T) {
	t.Parallel()
	program := fakeWorker(t, "hangs")
	pool := open(t, config(program))
	ctx, cancel := context.WithCancel(t.Context())
	running := smallJob()
	read := make(chan struct{})
	running.Source = func(context.Context) (io.ReadCloser, error) {
		return &closing{Reader: strings.NewReader("ignored"), closed: read}, nil
	}
	ran := pool.begin(ctx, running)
	<-read // the worker has received the whole file, and never answers
	waited := pool.begin(ctx, smallJob())
	pool.waiting(1)
	before := children(t, program)
	cancel()
	for _, done := range []<-chan derived{ran, waited} {
		wait.Until(t, "the job is given up", func() bool { return len(done) == 1 })
		if d := <-done; !errors.Is(d.err, context.Canceled) || d.made != nil {
			t.Errorf("got %v, %v", d.made, d.err)
		}
	}
	pool.waiting(0)
	if after := children(t, program); len(before) != 1 || slices.Contains(after, before[0]) {
		t.Errorf("worker %v still runs: %v", before, after)
	}
	if n := pool.metric("mediastack_image_jobs_total", "canceled"); n != 2 {
		t.Errorf("%g canceled", n)
	}
	if n := pool.metric("mediastack_image_worker_exits_total", "crashed"); n != 0 {
		t.Errorf("%g workers failed", n)
	}
}
