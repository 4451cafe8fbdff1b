package work_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/work"
)

var must = check.NoError

var errDown = errors.New("the database is down")

const kind work.Kind = "test"

// queue is a work.Store of one kind in memory, for what a Runner does when. What a store has to do is tested in package postgres.
type queue struct {
	mu     sync.Mutex
	tasks  []*row
	claims int
	// claimErr and recordErr are returned while they are set.
	claimErr, recordErr error
	returns             []work.Return
	asked               []work.Claim
}

type row struct {
	task work.Task
	due  time.Time
	gone bool
}

func (q *queue) add(tasks ...work.Task) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, task := range tasks {
		task.Kind, task.Key = kind, uuid.New()
		q.tasks = append(q.tasks, &row{task: task, due: time.Now()})
	}
}

func (q *queue) fail(claimErr, recordErr error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.claimErr, q.recordErr = claimErr, recordErr
}

// now returns a copy of what is in the queue.
func (q *queue) now() (now queueState) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now = queueState{claims: q.claims, returns: slices.Clone(q.returns), asked: slices.Clone(q.asked)}
	for _, row := range q.tasks {
		now.rows = append(now.rows, *row)
	}
	return now
}

// queueState is what a queue had at a moment.
type queueState struct {
	rows    []row
	claims  int
	returns []work.Return
	asked   []work.Claim
}

func (q *queue) left() (left int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, row := range q.tasks {
		if !row.gone {
			left++
		}
	}
	return left
}

func (q *queue) ClaimTasks(_ context.Context, claim work.Claim) (tasks []work.Task, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.claims++
	q.asked = append(q.asked, claim)
	if q.claimErr != nil {
		return nil, q.claimErr
	}
	for _, row := range q.tasks {
		if !row.gone && !row.due.After(time.Now()) && len(tasks) < claim.Limit {
			row.due = time.Now().Add(claim.Duration)
			row.task.Attempt++
			row.task.Claim = uuid.New()
			tasks = append(tasks, row.task)
		}
	}
	return tasks, nil
}

func (q *queue) ClaimTask(_ context.Context, claim work.Claim, key uuid.UUID) (task work.Task, claimed bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.asked = append(q.asked, claim)
	for _, row := range q.tasks {
		if !row.gone && row.task.Key == key && (row.task.Claim == uuid.Nil || !row.due.After(time.Now())) {
			row.due = time.Now().Add(claim.Duration)
			row.task.Attempt++
			row.task.Claim = uuid.New()
			return row.task, true, q.claimErr
		}
	}
	return work.Task{}, false, q.claimErr
}

// end calls change with the row of a task, if its claim has not ended.
func (q *queue) end(ctx context.Context, task work.Task, change func(*row)) (work.Ending, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := cmp.Or(ctx.Err(), q.recordErr); err != nil {
		return work.Lost, err
	}
	for _, row := range q.tasks {
		if !row.gone && row.task.Key == task.Key && row.task.Claim == task.Claim {
			change(row)
			return work.Recorded, nil
		}
	}
	return work.Lost, nil
}

func (q *queue) FinishTask(ctx context.Context, task work.Task) (work.Ending, error) {
	return q.end(ctx, task, func(row *row) { row.gone = true })
}

func (q *queue) ReturnTask(ctx context.Context, task work.Task, why work.Return) (work.Ending, error) {
	return q.end(ctx, task, func(row *row) {
		q.returns = append(q.returns, why)
		row.due, row.task.Claim = time.Now().Add(why.Delay), uuid.Nil
		if why.Failure == "" || why.Uncounted {
			row.task.Attempt--
		}
	})
}

func (q *queue) ReleaseTasks(context.Context, work.Kind) (int, error) { return 0, nil }

// worker is a function that does tasks.
type worker func(ctx context.Context, task work.Task) error

func (w worker) Work(ctx context.Context, task work.Task) error { return w(ctx, task) }

// pass lets time pass on the clock of synctest.
func pass(duration time.Duration) { time.Sleep(duration) } //nolint:forbidigo // the clock of synctest

var policy = work.Policy{Slots: 2, Timeout: time.Minute, MinBackoff: 5 * time.Second, MaxBackoff: 2 * time.Minute}

// logs is a log that can be read.
type logs struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}

// running is a Runner whose Run has begun.
type running struct {
	*work.Runner
	registry *prometheus.Registry
	logs     *logs
	stop     func() // ends Run, and waits for it
}

func run(t *testing.T, store work.Store, policy work.Policy, do worker) *running {
	t.Helper()
	r := &running{registry: prometheus.NewRegistry(), logs: &logs{}}
	runner, err := work.NewRunner(work.Deps{Store: store, Registry: r.registry, Log: slog.New(slog.NewTextHandler(r.logs, nil))})
	must(t, err)
	must(t, runner.Register(kind, do, policy))
	r.Runner = runner
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = runner.Run(ctx) }()
	r.stop = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(r.stop)
	return r
}

// outcome returns how many attempts had an outcome.
func (r *running) outcome(t *testing.T, outcome string) int {
	t.Helper()
	families, err := r.registry.Gather()
	must(t, err)
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == "mediastack_work_attempts_total" && metric.GetLabel()[1].GetValue() == outcome {
				return int(metric.GetCounter().GetValue())
			}
		}
	}
	t.Fatalf("the outcome %s has no series", outcome)
	return 0
}

func TestRunner_RepeatsFailedTasksAfterGrowingPauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &queue{}
		store.add(work.Task{})
		r := run(t, store, policy, func(_ context.Context, task work.Task) error {
			if task.Attempt <= 7 {
				return errors.New("not yet")
			}
			return nil
		})
		pass(15 * time.Minute)
		want := []int{5, 10, 20, 40, 80, 120, 120}
		if len(store.now().returns) != len(want) || store.left() != 0 || r.outcome(t, "retry") != len(want) || r.outcome(t, "done") != 1 {
			t.Fatalf("%d attempts failed, %d tasks are left", len(store.now().returns), store.left())
		}
		different := map[time.Duration]bool{}
		for i, got := range store.now().returns {
			least := time.Duration(want[i]) * time.Second
			if got.Delay < least || got.Delay > least+least/4 || got.Failure != "not yet" {
				t.Errorf("after attempt %d: %s, %q", i+1, got.Delay, got.Failure)
			}
			different[got.Delay%time.Second] = true
		}
		if len(different) == 1 {
			t.Error("the pauses have no random part")
		}
	})
}

func TestRunner_EndsAttemptsByTheirError(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do      worker
		change  func(*work.Policy)
		expired bool
		outcome string
		returns int
		log     string
	}{
		"done":      {do: func(context.Context, work.Task) error { return nil }, outcome: "done"},
		"discarded": {do: func(context.Context, work.Task) error { return fmt.Errorf("wrapped: %w", work.Discard(errDown)) }, outcome: "discarded", log: "down"},
		"snoozed":   {do: once(work.Snooze(time.Hour)), outcome: "snoozed", returns: 1},
		"rests":     {do: once(work.SnoozeAccount(time.Hour)), outcome: "snoozed", returns: 1},
		"a panic":   {do: once(nil), outcome: "retry", returns: 1, log: "runner_test.go"},
		"the timeout": {do: func(ctx context.Context, task work.Task) error {
			if task.Attempt > 1 {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}, outcome: "retry", returns: 1},
		"too many attempts":  {do: func(context.Context, work.Task) error { return errDown }, change: func(p *work.Policy) { p.MaxAttempts = 3 }, outcome: "discarded", returns: 2, log: "too often"},
		"uncounted attempts": {do: failing(5, work.RetryUncounted(time.Second, errDown)), change: func(p *work.Policy) { p.MaxAttempts = 3 }, outcome: "done", returns: 5, log: "down"},
		"expired":            {do: func(context.Context, work.Task) error { panic("it is not to be called") }, expired: true, outcome: "expired", log: "expired"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &queue{}
				store.add(work.Task{Expired: c.expired})
				changed := policy
				if c.change != nil {
					c.change(&changed)
				}
				r := run(t, store, changed, c.do)
				pass(2 * time.Hour)
				if store.left() != 0 || r.outcome(t, c.outcome) != 1 || len(store.now().returns) != c.returns {
					t.Errorf("%d left, %d times %s, %d returned", store.left(), r.outcome(t, c.outcome), c.outcome, len(store.now().returns))
				}
				if c.log != "" && r.logs.count(c.log) == 0 {
					t.Errorf("the log does not say %q", c.log)
				}
			})
		})
	}
}

// failing fails the first attempts.
func failing(times int32, err error) worker {
	var done atomic.Int32
	return func(context.Context, work.Task) error {
		if done.Add(1) > times {
			return nil
		}
		return err
	}
}

// once fails the first attempt, by a panic without an error.
func once(err error) worker {
	var done atomic.Bool
	return func(context.Context, work.Task) error {
		if done.Swap(true) {
			return nil
		}
		if err == nil {
			panic("a fault")
		}
		return err
	}
}

func TestRunner_ClaimsNoMoreThanItRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &queue{}
		store.add(make([]work.Task, 7)...)
		var now, tooMany atomic.Int32
		run(t, store, policy, func(context.Context, work.Task) error {
			if now.Add(1) > 2 {
				tooMany.Add(1)
			}
			pass(20 * time.Second)
			now.Add(-1)
			return nil
		})
		synctest.Wait()
		claimed := 0
		for _, row := range store.now().rows {
			claimed += row.task.Attempt
		}
		if claimed != 2 {
			t.Errorf("%d of 2 slots are claimed for", claimed)
		}
		pass(80*time.Second + time.Millisecond) // 7 tasks in 2 slots, without a wait for the next check
		if store.left() != 0 || tooMany.Load() != 0 {
			t.Errorf("%d left, %d more than there are slots", store.left(), tooMany.Load())
		}
	})
}

// A task that is snoozed for nothing lets others run, and goes on without a wait for the next check.
func TestRunner_GoesOnWithTasksThatSnoozeForNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &queue{}
		store.add(work.Task{})
		var attempts atomic.Int32
		run(t, store, policy, func(context.Context, work.Task) error {
			pass(100 * time.Millisecond)
			if attempts.Add(1) < 10 {
				return work.Snooze(0)
			}
			return nil
		})
		pass(1100 * time.Millisecond)
		if store.left() != 0 {
			t.Errorf("%d attempts within a second", attempts.Load())
		}
	})
}

var errTest = errors.New("it failed")

// What is put off is told to the store: a task, or all of its account.
func TestRunner_SnoozesTheTaskOrItsAccount(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]work.Return{
		work.Snooze(time.Hour):         {Delay: time.Hour},
		work.SnoozeAccount(time.Hour):  {Delay: time.Hour, Rest: time.Hour},
		work.SnoozeAccount(-time.Hour): {},
		// A failed attempt counts, so it has the text of its error.
		work.Retry(time.Minute, 0, errTest):           {Delay: time.Minute, Failure: "wrapped: " + errTest.Error()},
		work.Retry(time.Minute, time.Hour, errTest):   {Delay: time.Minute, Rest: time.Hour, Failure: "wrapped: " + errTest.Error()},
		work.Retry(-time.Minute, -time.Hour, errTest): {Failure: "wrapped: " + errTest.Error()},
		work.RetryUncounted(time.Minute, errTest):     {Delay: time.Minute, Failure: "wrapped: " + errTest.Error(), Uncounted: true},
		work.RetryUncounted(-time.Minute, errTest):    {Failure: "wrapped: " + errTest.Error(), Uncounted: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := &queue{}
			store.add(work.Task{})
			run(t, store, policy, once(fmt.Errorf("wrapped: %w", err)))
			synctest.Wait()
			if got := store.now().returns; len(got) != 1 || got[0] != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
}

// A task that this process has added runs at once, and one of another process after the next check.
func TestRunner_WakesAndChecks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &queue{}
		r := run(t, store, policy, func(context.Context, work.Task) error { return nil })
		synctest.Wait()
		store.add(work.Task{})
		r.Wake(kind)
		r.Wake("another kind")
		synctest.Wait()
		if store.left() != 0 {
			t.Error("the task waits although the runner was woken")
		}
		store.add(work.Task{})
		synctest.Wait()
		if store.left() != 1 {
			t.Error("nobody has told the runner")
		}
		pass(3 * time.Second)
		if store.left() != 0 {
			t.Error("the check did not find the task")
		}
		before := store.now().claims
		pass(time.Minute)
		if checks := store.now().claims - before; checks < 24 || checks > 40 {
			t.Errorf("%d checks of an empty queue in a minute", checks)
		}
	})
}

func TestRunner_OutlivesAStoreThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &queue{}
		store.fail(errDown, nil)
		store.add(work.Task{})
		r := run(t, store, policy, func(context.Context, work.Task) error { return nil })
		pass(time.Minute)
		if n := r.logs.count("cannot be claimed"); n != 1 || store.now().claims < 20 {
			t.Errorf("one outage, %d lines, %d claims", n, store.now().claims)
		}
		store.fail(nil, errDown)
		pass(10 * time.Second) // it runs, and its end cannot be recorded
		store.fail(nil, nil)
		pass(2 * time.Second)
		if store.left() != 0 || r.outcome(t, "done") != 1 || r.outcome(t, "unknown") != 0 {
			t.Errorf("the end is not recorded once that is possible: %d left", store.left())
		}
		store.fail(nil, errDown)
		store.add(work.Task{})
		pass(policy.Timeout + 29*time.Second)
		if n := r.outcome(t, "unknown"); n != 0 {
			t.Errorf("before the end of the claim, %d ends are given up", n)
		}
		pass(4 * time.Second) // the check that claimed it came up to 2.5 s later
		if r.outcome(t, "unknown") != 1 || r.logs.count("it runs again") != 1 {
			t.Errorf("%d ends are not known", r.outcome(t, "unknown"))
		}
		store.fail(nil, nil)
		pass(5 * time.Second)
		if store.left() != 0 || r.outcome(t, "done") != 2 {
			t.Error("the task does not run again")
		}
	})
}

func TestRunner_ShutdownLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		takes   time.Duration // unless it is canceled
		cleanUp time.Duration // after it is canceled
		outcome string
		left    int
	}{"an attempt that ends soon": {4 * time.Second, 0, "done", 0}, "one that takes long": {time.Hour, 0, "returned", 1},
		"one whose clean-up takes long": {time.Hour, 30 * time.Second, "returned", 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &queue{}
				store.add(work.Task{})
				r := run(t, store, policy, func(ctx context.Context, _ work.Task) error {
					select {
					case <-ctx.Done():
						pass(c.cleanUp)
						return ctx.Err()
					case <-time.After(c.takes): //nolint:forbidigo // the clock of synctest
						return nil
					}
				})
				synctest.Wait()
				began := time.Now()
				r.stop()
				if took := time.Since(began); took > 5*time.Second+c.cleanUp || r.outcome(t, c.outcome) != 1 || store.left() != c.left {
					t.Errorf("%d left after %s, %d times %s", store.left(), took, r.outcome(t, c.outcome), c.outcome)
				}
				if c.left > 0 && (store.now().rows[0].due.After(time.Now()) || store.now().rows[0].task.Attempt != 0) {
					t.Errorf("the task is due at %s, after %d attempts", store.now().rows[0].due, store.now().rows[0].task.Attempt)
				}
			})
		})
	}
}

// A task that another process has taken over is not recorded by the first one.
// A task that a client waits for runs at once: its time, and the slots, which others hold, do not matter.
func TestRunNow_RunsATaskThatIsNotDueBesideTheSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, busy := &queue{}, make(chan struct{})
		store.add(work.Task{})
		held := store.now().rows[0].task.Key
		failing := errors.New("it fails")
		r := run(t, store, work.Policy{Slots: 1, Timeout: time.Hour, Leased: true, MinBackoff: time.Hour, MaxBackoff: time.Hour}, func(ctx context.Context, task work.Task) error {
			if task.Key == held {
				<-busy
				return nil
			}
			if task.Attempt == 1 {
				return failing
			}
			return nil
		})
		synctest.Wait()
		store.add(work.Task{})
		next := store.now().rows[1].task.Key
		if ran, err := r.RunNow(t.Context(), kind, next); !ran || !errors.Is(err, failing) {
			t.Errorf("the first attempt: %t, %v", ran, err)
		}
		asked := store.now().asked
		if last := asked[len(asked)-1]; last.Kind != kind || !last.Leased || last.Duration <= time.Hour {
			t.Errorf("its claim is %+v", last)
		}
		if ran, err := r.RunNow(t.Context(), kind, next); !ran || err != nil { // before its backoff ends
			t.Errorf("the second attempt: %t, %v", ran, err)
		}
		for what, key := range map[string]uuid.UUID{"a task that runs": held, "a task that is done": next} {
			if ran, err := r.RunNow(t.Context(), kind, key); ran || err != nil {
				t.Errorf("%s: %t, %v", what, ran, err)
			}
		}
		if ran, err := r.RunNow(t.Context(), "other", next); ran || err != nil {
			t.Errorf("a kind without a worker: %t, %v", ran, err)
		}
		close(busy)
	})
}

func TestRunner_SaysThatAClaimHadEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &queue{}
		store.add(work.Task{})
		r := run(t, store, policy, func(context.Context, work.Task) error {
			store.mu.Lock()
			defer store.mu.Unlock()
			store.tasks[0].task.Claim = uuid.New()
			return nil
		})
		pass(time.Second)
		if r.outcome(t, "lost") != 1 || store.left() != 1 || r.logs.count("may have run twice") != 1 {
			t.Errorf("%d lost, %d left", r.outcome(t, "lost"), store.left())
		}
	})
}

func TestRunner_TellsTestsWhatHasEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, events := &queue{}, make(chan work.Event)
		store.add(work.Task{})
		runner, err := work.NewRunner(work.Deps{Store: store, Log: slog.New(slog.DiscardHandler), Events: events})
		must(t, err)
		must(t, runner.Register(kind, worker(func(context.Context, work.Task) error { return nil }), policy))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = runner.Run(ctx) }()
		if got, want := <-events, (work.Event{Kind: kind, Key: store.now().rows[0].task.Key, Outcome: "done"}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

func TestRegister_RejectsWhatCannotRun(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	runner, err := work.NewRunner(work.Deps{Registry: registry, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	if _, err := work.NewRunner(work.Deps{Registry: registry}); err == nil {
		t.Error("a second one registers the same metrics")
	}
	for name, change := range map[string]func(*work.Policy){
		"no slot":                      func(p *work.Policy) { p.Slots = 0 },
		"no timeout":                   func(p *work.Policy) { p.Timeout = 0 },
		"no backoff":                   func(p *work.Policy) { p.MinBackoff = 0 },
		"a lower maximum":              func(p *work.Policy) { p.MaxBackoff = time.Second },
		"a negative limit":             func(p *work.Policy) { p.PerAccount = -1 },
		"a negative pause":             func(p *work.Policy) { p.CheckInterval = -1 },
		"a spare slot of all accounts": func(p *work.Policy) { p.Spare = 1 },
		"slow slots without Select":    func(p *work.Policy) { p.Slow = &work.Slow{Slots: 1, After: time.Second} },
	} {
		wrong := policy
		change(&wrong)
		if err := runner.Register(kind, nil, wrong); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if err := runner.Register(kind, nil, policy); err != nil {
		t.Error(err)
	}
	if err := runner.Register(kind, nil, policy); err == nil {
		t.Error("a second worker of a kind is accepted")
	}
	if n, err := testutil.GatherAndCount(registry, "mediastack_work_attempts_total"); err != nil || n != 8 {
		t.Errorf("%d series before the first attempt: %v", n, err)
	}
}

// A kind whose causes add no tasks finds them at each check, unless nothing may run.
func TestRunner_EnqueuesWhileItIsReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &queue{}
		var held atomic.Bool
		var enqueued atomic.Int32
		finding := policy
		finding.Ready = func() error {
			if held.Load() {
				return errDown
			}
			return nil
		}
		finding.Enqueue = func(context.Context) (int, error) {
			enqueued.Add(1)
			if store.left() == 0 {
				store.add(work.Task{})
			}
			return 1, nil
		}
		r := run(t, store, finding, func(context.Context, work.Task) error { return nil })
		pass(9 * time.Second)
		done := r.outcome(t, "done")
		if done < 3 {
			t.Errorf("%d tasks were found", done)
		}
		held.Store(true)
		pass(3 * time.Second) // for an attempt that has begun
		store.add(work.Task{})
		calls, done, claims := enqueued.Load(), r.outcome(t, "done"), store.now().claims
		pass(time.Minute)
		if enqueued.Load() != calls || r.outcome(t, "done") != done || store.now().claims != claims {
			t.Errorf("while nothing may run, %d calls, %d tasks, %d claims", enqueued.Load()-calls, r.outcome(t, "done")-done, store.now().claims-claims)
		}
		held.Store(false)
		pass(3 * time.Second)
		if r.outcome(t, "done") == done {
			t.Error("nothing runs afterwards")
		}
	})
}

// A queue that cannot be filled is logged once, and served all the same.
func TestRunner_SurvivesAFailingEnqueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &queue{}
		failing := policy
		failing.Enqueue = func(context.Context) (int, error) { return 0, errDown }
		r := run(t, store, failing, func(context.Context, work.Task) error { return nil })
		store.add(work.Task{})
		pass(time.Minute)
		if store.left() != 0 {
			t.Error("the task did not run")
		}
		if logged := r.logs.count("cannot be found"); logged != 1 {
			t.Errorf("it is logged %d times", logged)
		}
	})
}
