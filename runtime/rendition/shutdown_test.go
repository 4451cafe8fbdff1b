package rendition_test

import (
	"context"
	"io"
	"testing"
	"time"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/rendition"
	"mediastack.dev/runtime/work"
)

// A job that a process had at its shutdown kept all requests for its rendition waiting until its lease ended.
func TestRun_LeavesNoClaimAtAShutdown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		grace  time.Duration
		stored int64
	}{"a job that ends in time": {time.Hour, 1}, "a job that does not": {time.Millisecond, 0}} {
		all := processes(t, 2)
		w := all[0]
		one := w.tenant(t, 100_000)
		item := w.sealed(t, one.Principal, 500)
		w.service.SetShutdownGrace(c.grace)
		w.renderer.gate, w.renderer.started = make(chan struct{}), make(chan struct{}, 1)
		leaving, leave := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			_, err := w.service.Get(leaving, item, one.owner, of("a", 100))
			left <- err
		}()
		<-w.renderer.started // a worker has it: it goes on without its request
		leave()
		if err := <-left; !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: the request that left: %v", name, err)
		}
		running, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- w.service.Run(running) }()
		stop()
		if c.stored > 0 {
			close(w.renderer.gate)
		}
		must(t, <-ended)
		if n := w.QueryInt(t, `SELECT count(*) FROM rendition WHERE NOT ready`); n != 0 || w.rows(t, one) != c.stored {
			t.Errorf("%s: %d claims are left, %d renditions are stored", name, n, w.rows(t, one))
		}
		all[1].get(t, one, item, of("a", 100))
		jobs(t, float64(1-c.stored), all[1])
		w.balanced(t, one)
	}
}

// lateQueue is a queue that commits a claim whose statement was canceled.
type lateQueue struct {
	work.Store
	claiming, left chan struct{}
}

// ClaimTasks claims when the process shuts down. The answer to a statement that was canceled is lost.
func (l *lateQueue) ClaimTasks(ctx context.Context, claim work.Claim) ([]work.Task, error) {
	close(l.claiming)
	<-l.left
	tasks, err := l.Store.ClaimTasks(context.WithoutCancel(ctx), claim)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return tasks, err
}

// An item whose claim was committed while the process shut down waited for the end of its lease.
func TestEager_GivesBackWhatItClaimsAtAShutdown(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.tenant(t, 10<<20)
	w.present(t, one, eager("a", 20))
	settle(t, w.eagerly(t, w.renderer))
	w.sealedBytes(t, one.Principal, photo(t, 64, 64))
	queue := &lateQueue{w.Store.Tasks, make(chan struct{}), make(chan struct{})}
	e := w.eagerly(t, w.renderer, func(deps *eagerDeps) { deps.Tasks = queue })
	w.renderer.gate = make(chan struct{}) // no picture is made in the grace period
	running, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- e.Run(running) }()
	<-queue.claiming
	stop()
	close(queue.left)
	must(t, <-ended)
	w.Counts(t, 1, "items are due", `SELECT count(*) FROM work WHERE kind = 'picture' AND key <> account_id AND claim IS NULL AND due_at <= now()`)
}

// endingPut is an object store in which an object is stored at the moment when its job is canceled.
type endingPut struct {
	rendition.Objects
	putting chan struct{}
}

// Put stores an object, and returns at the end of ctx.
func (e *endingPut) Put(ctx context.Context, bucket, key, contentType string, body io.ReadSeeker, size int64) error {
	err := e.Objects.Put(ctx, bucket, key, contentType, body, size)
	close(e.putting)
	<-ctx.Done()
	return err
}

// What is stored when a job is canceled is recorded: otherwise it would be removed, and made again.
func TestRun_RecordsWhatIsStoredAtAShutdown(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.tenant(t, 100_000)
	item := w.sealed(t, one.Principal, 500)
	objects := &endingPut{w.Objects, make(chan struct{})}
	deps := w.makerDeps(w.renderer)
	deps.Objects = objects
	service, err := rendition.New(w.maker(t, deps), rendition.Deps{Store: w.Store.Pictures, Now: w.clock.Now})
	must(t, err)
	service.SetShutdownGrace(time.Millisecond)
	got := make(chan error)
	go func() {
		_, err := service.Get(t.Context(), item, one.owner, of("a", 100))
		got <- err
	}()
	<-objects.putting
	stopped, stop := context.WithCancel(t.Context())
	stop()
	must(t, service.Run(stopped))
	must(t, <-got)
	w.Counts(t, 1, "renditions are stored", `SELECT count(*) FROM rendition WHERE ready`)
	w.balanced(t, one)
}
