package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
)

const (
	// defaultCheckInterval is how often a process looks for tasks that other processes have added, for those that are due again, and
	// for those of dead processes.
	defaultCheckInterval = 2 * time.Second
	// ClaimMargin is the part of a claim that remains after Policy.Timeout, to record how the attempt ended.
	ClaimMargin = 30 * time.Second
	// claimTimeout bounds one call of ClaimTasks or ReleaseTasks.
	claimTimeout = 5 * time.Second
	// recordTimeout bounds what records the end of an attempt at a shutdown, its repetitions included. Otherwise the claim does.
	recordTimeout = ClaimMargin / 2
	// recordPause is between these repetitions.
	recordPause = time.Second
	// shutdownGrace is how long attempts may continue after the context of Run has ended.
	shutdownGrace = 5 * time.Second
)

// Event is what a Runner tells tests: an attempt has ended, and this is recorded.
type Event struct {
	Kind    Kind
	Key     uuid.UUID
	Outcome string
}

// Deps are the dependencies of a Runner.
type Deps struct {
	Store Store
	// Registry takes the metrics; nil = they are not exported.
	Registry prometheus.Registerer
	Log      *slog.Logger
	// Events is a channel of a test, which must receive; nil in production.
	Events chan<- Event
}

// Runner runs the tasks of the kinds that are registered.
type Runner struct {
	deps    Deps
	metrics metrics
	queues  map[Kind]*queue
}

// NewRunner returns a Runner that uses deps.
func NewRunner(deps Deps) (*Runner, error) {
	metrics, err := newMetrics(deps.Registry)
	return &Runner{deps: deps, metrics: metrics, queues: map[Kind]*queue{}}, err
}

// Register lets worker do the tasks of a kind. It must be called once for a kind, before Run and Wake.
func (r *Runner) Register(kind Kind, worker Worker, policy Policy) error {
	if err := policy.validate(); err != nil {
		return fmt.Errorf("tasks of kind %s: %w", kind, err)
	}
	if r.queues[kind] != nil {
		return fmt.Errorf("tasks of kind %s have a worker already", kind)
	}
	r.metrics.add(kind)
	r.queues[kind] = &queue{Runner: r, kind: kind, worker: worker, policy: policy, wake: make(chan struct{}, 1)}
	return nil
}

// Wake lets a task run at once that this process has added. Other tasks wait for the next check. It does nothing if no worker is
// registered for the kind. It is safe for concurrent use.
func (r *Runner) Wake(kind Kind) {
	if q := r.queues[kind]; q != nil {
		select {
		case q.wake <- struct{}{}:
		default: // a check is about to begin
		}
	}
}

// Run runs tasks until ctx ends. Attempts that are running then may continue for a moment; the others are given back, for other
// processes. Run returns when none is running anymore. The Store must outlive it.
func (r *Runner) Run(ctx context.Context) error {
	var running sync.WaitGroup
	for _, q := range r.queues {
		running.Go(func() { q.run(ctx) })
	}
	running.Wait()
	return nil
}

// queue is one kind of a Runner.
type queue struct {
	*Runner
	kind   Kind
	worker Worker
	policy Policy
	wake   chan struct{}
}

// run claims as many tasks as there are free slots, so that no claim runs while its task waits for a slot.
func (q *queue) run(ctx context.Context) {
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	if q.policy.Interrupt {
		defer context.AfterFunc(ctx, stop)()
	}
	var attempts sync.WaitGroup
	slots := newSlots(q.policy)
	defer close(slots.closed)
	claimsFail, enqueueFails := false, false
	interval := cmp.Or(q.policy.CheckInterval, defaultCheckInterval)
	check := time.NewTimer(jitter(interval))
	defer check.Stop()
	for ctx.Err() == nil {
		for _, l := range slots.lanes {
			for l.more && l.free > 0 && ctx.Err() == nil && q.policy.ready() == nil {
				tasks, err := q.fill(ctx, l, slots.running)
				for _, task := range tasks {
					end := slots.begin(l, task.AccountID)
					attempts.Go(func() {
						defer end()
						_ = q.attempt(working, task)
					})
				}
				q.warn(ctx, &claimsFail, "tasks cannot be claimed; the next check tries again", err)
			}
		}
		select {
		case <-ctx.Done():
		case s := <-slots.ended:
			for slots.end(s); len(slots.ended) > 0; { // one claim for all that have ended meanwhile
				slots.end(<-slots.ended)
			}
		case s := <-slots.late:
			slots.move(s)
		case <-q.wake:
			slots.look()
		case <-check.C:
			q.release(ctx)
			if q.policy.ready() == nil {
				_, err := q.enqueue(ctx)
				q.warn(ctx, &enqueueFails, "tasks cannot be found; the next check tries again", err)
				if slots.lanes[0].free == 0 && q.policy.Full != nil {
					q.policy.Full(ctx)
				}
			}
			slots.look()
			check.Reset(jitter(interval))
		}
	}
	defer time.AfterFunc(shutdownGrace, stop).Stop()
	attempts.Wait()
}

// fill claims tasks for slots of a lane that are free, and sets whether there may be more.
func (q *queue) fill(ctx context.Context, l *lane, running map[uuid.UUID]int) ([]Task, error) {
	limit, perAccount := l.share()
	of := Selection{}
	if q.policy.Select != nil {
		selecting, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTimeout)
		defer cancel()
		var err error
		if of, err = q.policy.Select(selecting, Selecting{Slow: l.slow, Slots: l.slots, PerAccount: perAccount, Running: running}); err != nil {
			l.more = false
			return nil, err
		}
	}
	if of.Only != nil && len(of.Only) == 0 {
		l.more = false
		return nil, nil
	}
	tasks, err := q.claim(ctx, limit, perAccount, of)
	l.more = err == nil && len(tasks) == limit
	return tasks, err
}

// RunNow claims one task, whenever it is due, and runs it at once, beside the slots. ran is false if the task is not there, a process works
// on it, no worker is registered for the kind, or Policy.Leased is set and the process has no lease. The error is that of the worker, which
// is recorded as with other attempts, of Policy.Ready, or of the Store. ctx ends the attempt. It is safe for concurrent use.
func (r *Runner) RunNow(ctx context.Context, kind Kind, key uuid.UUID) (ran bool, err error) {
	q := r.queues[kind]
	if q == nil {
		return false, nil
	}
	if err := cmp.Or(ctx.Err(), q.policy.ready()); err != nil {
		return false, err
	}
	claiming, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTimeout)
	defer cancel()
	task, claimed, err := q.deps.Store.ClaimTask(claiming, Claim{Kind: kind, Duration: q.policy.Timeout + ClaimMargin, Leased: q.policy.Leased}, key)
	if !claimed {
		return false, err
	}
	return true, q.attempt(ctx, task)
}

// Drain runs the tasks of a kind that are due, until none is. It may run beside Run and Drain of other processes, and leaves them the
// tasks that they have claimed. It does not wait for the backoff of tasks that fail. It returns the error of Policy.Ready, of ctx, or of
// the Store.
func (r *Runner) Drain(ctx context.Context, kind Kind) error {
	q := r.queues[kind]
	for {
		if err := q.policy.ready(); err != nil {
			return err
		}
		added, err := q.enqueue(ctx)
		if err != nil {
			return err
		}
		claimed, err := q.drain(ctx)
		if err != nil || added == 0 && claimed == 0 {
			return err
		}
	}
}

// drain runs tasks, as many at once as there are slots, until none is due.
func (q *queue) drain(ctx context.Context) (claimed int, err error) {
	for {
		if err := cmp.Or(ctx.Err(), q.policy.ready()); err != nil {
			return claimed, err
		}
		tasks, err := q.claim(ctx, q.policy.Slots, q.policy.PerAccount, Selection{})
		if err != nil || len(tasks) == 0 {
			return claimed, err
		}
		claimed += len(tasks)
		var attempts sync.WaitGroup
		for _, task := range tasks {
			attempts.Go(func() { _ = q.attempt(ctx, task) })
		}
		attempts.Wait()
	}
}

// enqueue adds the tasks of Policy.Enqueue, and returns how many.
func (q *queue) enqueue(ctx context.Context) (int, error) {
	if q.policy.Enqueue == nil {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	return q.policy.Enqueue(ctx)
}

// warn logs an error once, until there is none.
func (q *queue) warn(ctx context.Context, failing *bool, message string, err error) {
	if err != nil && !*failing && ctx.Err() == nil {
		q.deps.Log.WarnContext(ctx, message, "kind", q.kind, "error", err)
	}
	*failing = err != nil
}

// claim is not interrupted when ctx ends: a task that was claimed but not received here would wait until its claim ends.
func (q *queue) claim(ctx context.Context, limit, perAccount int, of Selection) ([]Task, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTimeout)
	defer cancel()
	return q.deps.Store.ClaimTasks(ctx, Claim{Kind: q.kind, Limit: limit, PerAccount: perAccount, Of: of, Duration: q.policy.Timeout + ClaimMargin, Leased: q.policy.Leased})
}

// release makes the tasks of dead processes due. If it fails, their claims end by their time.
func (q *queue) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	if released, err := q.deps.Store.ReleaseTasks(ctx, q.kind); err == nil && released > 0 {
		q.deps.Log.InfoContext(ctx, "tasks of another process are continued", "kind", q.kind, "tasks", released)
	}
}

// attempt runs a task, and records how the attempt ended. It returns the error of the Worker.
func (q *queue) attempt(ctx context.Context, task Task) (err error) {
	running := q.metrics.running.WithLabelValues(string(q.kind))
	running.Inc()
	defer running.Dec()
	began := time.Now()
	claimed, cancel := context.WithDeadline(context.WithoutCancel(ctx), began.Add(q.policy.Timeout+ClaimMargin))
	defer cancel()
	if !task.Expired {
		err = q.work(ctx, task)
	}
	q.metrics.duration.WithLabelValues(string(q.kind)).Observe(time.Since(began).Seconds())
	defer context.AfterFunc(ctx, func() { time.AfterFunc(recordTimeout, cancel) })() // a worker may have ended long after ctx
	outcome := q.end(ctx, claimed, task, err)
	q.metrics.attempts.WithLabelValues(string(q.kind), outcome).Inc()
	if q.deps.Events != nil {
		q.deps.Events <- Event{Kind: q.kind, Key: task.Key, Outcome: outcome}
	}
	return err
}

// work calls the Worker. A panic is a failed attempt: it would end the process, and the requests that it serves.
func (q *queue) work(ctx context.Context, task Task) (err error) {
	ctx, cancel := context.WithTimeout(ctx, q.policy.Timeout)
	defer cancel()
	defer func() {
		if panicked := recover(); panicked != nil {
			q.deps.Log.ErrorContext(ctx, "a task panicked", "kind", q.kind, "task", task.Key, "panic", panicked, "stack", string(debug.Stack()))
			err = errors.New("panic")
		}
	}()
	return q.worker.Work(ctx, task)
}

// end records how an attempt ended, and returns its outcome. claimed ends with the claim.
func (q *queue) end(ctx, claimed context.Context, task Task, err error) (outcome string) {
	log := q.deps.Log.With("kind", q.kind, "task", task.Key, "attempt", task.Attempt)
	if task.AccountID != uuid.Nil {
		log = log.With("account", task.AccountID)
	}
	var (
		discard discarded
		snooze  snoozed
		retry   retried
		why     Return
	)
	switch {
	case task.Expired:
		outcome = outcomeExpired
		log.WarnContext(ctx, "a task has expired")
	case err == nil:
		outcome = outcomeDone
	case errors.As(err, &discard):
		outcome = outcomeDiscarded
		log.WarnContext(ctx, "a task is discarded", "error", err)
	case ctx.Err() != nil:
		outcome = outcomeReturned
		log.InfoContext(ctx, "a task is left to another process: this one shuts down")
	case errors.As(err, &snooze):
		outcome, why.Delay = outcomeSnoozed, snooze.delay
		if snooze.account {
			why.Rest = snooze.delay
		}
	case q.policy.MaxAttempts > 0 && task.Attempt >= q.policy.MaxAttempts && (!errors.As(err, &retry) || !retry.uncounted):
		outcome = outcomeDiscarded
		log.ErrorContext(ctx, "a task is discarded: it has failed too often", "error", err)
	default:
		outcome, why = outcomeRetry, Return{Delay: q.policy.backoff(task.Attempt), Failure: cmp.Or(err.Error(), "an error without a text")}
		if errors.As(err, &retry) {
			why.Delay, why.Rest, why.Uncounted = retry.delay, retry.rest, retry.uncounted
		}
		log.WarnContext(ctx, "a task failed and is tried again", "error", err, "retry_in", why.Delay)
	}
	ending, recordErr := q.record(claimed, func(ctx context.Context) (Ending, error) {
		switch outcome {
		case outcomeReturned, outcomeSnoozed, outcomeRetry:
			return q.deps.Store.ReturnTask(ctx, task, why)
		}
		return q.deps.Store.FinishTask(ctx, task)
	})
	switch {
	case recordErr != nil:
		log.ErrorContext(ctx, "the end of a task is not recorded; it runs again", "outcome", outcome, "error", recordErr)
		return outcomeUnknown
	case ending == Expired:
		log.WarnContext(ctx, "a task expires before its next attempt", "error", err)
		return outcomeExpired
	case ending == Lost && outcome != outcomeReturned:
		log.WarnContext(ctx, "the claim of a task had ended before it was recorded; it may have run twice", "outcome", outcome)
		return outcomeLost
	case outcome == outcomeSnoozed && why.Delay == 0:
		q.Wake(q.kind) // it is due now
	}
	return outcome
}

// record repeats a call until it succeeds or ctx, which lasts as long as the claim, ends: nobody else may run the task before.
func (q *queue) record(ctx context.Context, call func(context.Context) (Ending, error)) (ending Ending, err error) {
	for {
		calling, cancel := context.WithTimeout(ctx, claimTimeout)
		ending, err = call(calling)
		cancel()
		if err == nil || ctx.Err() != nil {
			return ending, err
		}
		pause := time.NewTimer(recordPause)
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
		pause.Stop()
	}
}
