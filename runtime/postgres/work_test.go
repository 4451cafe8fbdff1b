package postgres_test

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/postgres"
	"mediastack.dev/runtime/work"
)

// testWork is the kind of the tasks of tests.
const testWork work.Kind = "test"

// accountOf returns the id of an account that only tasks name.
func accountOf(n int) uuid.UUID { return numbered(accountIDs, n) }

// addTasks adds tasks of an account, each a microsecond after the one before.
func addTasks(t *testing.T, url string, account uuid.UUID, tasks int) {
	t.Helper()
	statement(t, url, `INSERT INTO work (kind, key, account_id, due_at) SELECT 'test', gen_random_uuid(), $1, now() - interval '1 second' + n * interval '1 microsecond' FROM generate_series(1, $2::int) n`, account, tasks)
}

func workRows(t *testing.T, url string) (rows int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	must(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM work").Scan(&rows))
	return rows
}

// claimTasks returns how many tasks of each account a claim gets.
func claimTasks(t *testing.T, store *postgres.Store, limit, perAccount int) map[uuid.UUID]int {
	t.Helper()
	tasks, err := store.Tasks.ClaimTasks(t.Context(), work.Claim{Kind: testWork, Limit: limit, PerAccount: perAccount, Duration: time.Hour})
	must(t, err)
	got := map[uuid.UUID]int{}
	for _, task := range tasks {
		got[task.AccountID]++
	}
	return got
}

func TestWork_AccountsTakeTurns(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	a, b, c := accountOf(1), accountOf(2), accountOf(3)
	addTasks(t, url, a, 100)
	addTasks(t, url, b, 2)
	addTasks(t, url, c, 1)
	for i, want := range []map[uuid.UUID]int{
		{a: 1, b: 1, c: 1}, // the 97 others of a are due before, and wait
		{a: 2, b: 1},
		{a: 3},
	} {
		if got := claimTasks(t, store, 3, 0); !maps.Equal(got, want) {
			t.Errorf("claim %d: %v, want %v", i+1, got, want)
		}
	}
	// Six tasks of a run, and one of d: accounts with fewer come first.
	d := accountOf(4)
	addTasks(t, url, d, 4)
	if got, want := claimTasks(t, store, 3, 0), (map[uuid.UUID]int{d: 3}); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A claim can be for some accounts, with a number of tasks of each, or for all others.
func TestWork_ClaimsOfTheAccountsThatAreSelected(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	a, b, c := accountOf(1), accountOf(2), accountOf(3)
	for _, account := range []uuid.UUID{a, b, c} {
		addTasks(t, url, account, 9)
	}
	for i, step := range []struct {
		perAccount int
		of         work.Selection
		want       map[uuid.UUID]int
	}{
		{5, work.Selection{Except: []uuid.UUID{a, b}}, map[uuid.UUID]int{c: 5}},
		{5, work.Selection{Only: map[uuid.UUID]int{a: 2, b: 7, accountOf(4): 1}}, map[uuid.UUID]int{a: 2, b: 5}},
		{5, work.Selection{Only: map[uuid.UUID]int{}}, map[uuid.UUID]int{}},
		{5, work.Selection{Except: []uuid.UUID{}}, map[uuid.UUID]int{a: 3}},
		{0, work.Selection{Only: map[uuid.UUID]int{b: 1, c: 3}}, map[uuid.UUID]int{b: 1, c: 3}},
	} {
		tasks, err := store.Tasks.ClaimTasks(t.Context(), work.Claim{Kind: testWork, Limit: 20, PerAccount: step.perAccount, Of: step.of, Duration: time.Hour})
		must(t, err)
		got := map[uuid.UUID]int{}
		for _, task := range tasks {
			got[task.AccountID]++
		}
		if !maps.Equal(got, step.want) {
			t.Errorf("claim %d: %v, want %v", i+1, got, step.want)
		}
	}
}

// Of accounts of which as many run, the one that was served the longest time ago is next: not the one with the first id, nor
// the one whose task has been due for the longest time.
func TestWork_ServesTheAccountThatWaitedFirst(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	for n := range 3 {
		addTasks(t, url, accountOf(n), 5)
	}
	var order []uuid.UUID
	for range 9 {
		tasks, err := store.Tasks.ClaimTasks(t.Context(), work.Claim{Kind: testWork, Limit: 1, Duration: time.Hour})
		must(t, err)
		order = append(order, tasks[0].AccountID)
		ending, err := store.Tasks.FinishTask(t.Context(), tasks[0])
		if must(t, err); ending != work.Recorded {
			t.Fatal("a task is not finished")
		}
	}
	for i, account := range order {
		if account != accountOf(i%3) {
			t.Fatalf("the order is %v", order)
		}
	}
}

// A process that dies before it has a lease would leave a long claim.
func TestWork_LeasedTasksNeedALease(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	addTasks(t, url, accountOf(1), 1)
	claim := work.Claim{Kind: testWork, Limit: 10, Duration: time.Hour, Leased: true}
	for _, c := range []struct {
		begin string
		want  int
	}{{"", 0}, {`UPDATE runtime_instance SET lease_ends = now() - interval '1 second'`, 0}, {`UPDATE runtime_instance SET lease_ends = now() + interval '1 minute'`, 1}} {
		if c.begin != "" {
			_, err := store.Installations.TouchRuntime(t.Context(), uuid.New(), "test", time.Minute)
			must(t, err)
			statement(t, url, c.begin)
		}
		if tasks, err := store.Tasks.ClaimTasks(t.Context(), claim); err != nil || len(tasks) != c.want {
			t.Errorf("after %q: %d tasks, %v, want %d", c.begin, len(tasks), err, c.want)
		}
	}
}

// One task is claimed before its time, but not from another process, and not without the lease that a process has to have.
func TestWork_OneTaskIsClaimedWheneverItIsDue(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	key := uuid.New()
	statement(t, url, `INSERT INTO work (kind, key, account_id, due_at) VALUES ('test', $1, $2, now() + interval '5 hours')`, key, accountOf(1))
	claim := work.Claim{Kind: testWork, Duration: time.Hour, Leased: true}
	claimed := func(claim work.Claim, key uuid.UUID) bool {
		t.Helper()
		task, claimed, err := store.Tasks.ClaimTask(t.Context(), claim, key)
		must(t, err)
		if claimed && (task.Key != key || task.AccountID != accountOf(1) || task.Kind != testWork || task.Attempt < 1) {
			t.Errorf("claimed is %+v", task)
		}
		return claimed
	}
	if claimed(claim, key) {
		t.Error("it is claimed without a lease")
	}
	_, err := store.Installations.TouchRuntime(t.Context(), uuid.New(), "test", time.Minute)
	must(t, err)
	if claimed(claim, uuid.New()) {
		t.Error("a task that is not there is claimed")
	}
	if !claimed(claim, key) {
		t.Error("it is not claimed with a lease")
	}
	claim.Leased = false
	if claimed(claim, key) {
		t.Error("it is claimed twice")
	}
	statement(t, url, `UPDATE work SET due_at = now() - interval '1 second'`)
	if !claimed(claim, key) {
		t.Error("it is not claimed after a claim that has ended")
	}
}

// The limit of an account holds for all processes, and nothing is claimed twice.
func TestWork_LimitsHoldAcrossProcesses(t *testing.T) {
	t.Parallel()
	first, url := setup(t)
	second := open(t, url)
	for n := range 4 {
		addTasks(t, url, accountOf(n), 50)
	}
	var mu sync.Mutex
	keys, got := map[uuid.UUID]bool{}, map[uuid.UUID]int{}
	var claims sync.WaitGroup
	for i := range 8 {
		store := first
		if i%2 == 0 {
			store = second
		}
		claims.Go(func() {
			for range 5 {
				tasks, err := store.Tasks.ClaimTasks(t.Context(), work.Claim{Kind: testWork, Limit: 3, PerAccount: 2, Duration: time.Hour})
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				for _, task := range tasks {
					if keys[task.Key] {
						t.Errorf("task %s is claimed twice", task.Key)
					}
					keys[task.Key] = true
					got[task.AccountID]++
				}
				mu.Unlock()
			}
		})
	}
	claims.Wait()
	for n := range 4 {
		if got[accountOf(n)] != 2 {
			t.Errorf("of account %d %d tasks run, not 2", n, got[accountOf(n)])
		}
	}
}

func TestWork_AnEndedClaimChangesNothing(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	addTasks(t, url, uuid.Nil, 1)
	now := time.Now()
	claim := func() work.Task {
		t.Helper()
		tasks, err := store.Tasks.ClaimTasks(t.Context(), work.Claim{Kind: testWork, Limit: 9, Duration: time.Minute, Now: now})
		must(t, err)
		if len(tasks) != 1 {
			t.Fatalf("%d tasks are claimed", len(tasks))
		}
		return tasks[0]
	}
	first := claim()
	if tasks, err := store.Tasks.ClaimTasks(t.Context(), work.Claim{Kind: testWork, Limit: 9, Duration: time.Minute, Now: now.Add(59 * time.Second)}); err != nil || len(tasks) != 0 {
		t.Errorf("within its claim: %v %v", tasks, err)
	}
	now = now.Add(time.Minute)
	second := claim()
	if second.Key != first.Key || second.Attempt != 2 || second.Claim == first.Claim {
		t.Errorf("%+v, then %+v", first, second)
	}
	if ending, err := store.Tasks.FinishTask(t.Context(), first); err != nil || ending != work.Lost {
		t.Errorf("the first one finishes it: %v %v", ending, err)
	}
	if ending, err := store.Tasks.ReturnTask(t.Context(), first, work.Return{Failure: "down"}); err != nil || ending != work.Lost {
		t.Errorf("the first one returns it: %v %v", ending, err)
	}
	// An attempt that did not fail does not count.
	if ending, err := store.Tasks.ReturnTask(t.Context(), second, work.Return{Delay: time.Minute, Now: now}); err != nil || ending != work.Recorded {
		t.Errorf("the second one returns it: %v %v", ending, err)
	}
	now = now.Add(time.Minute)
	third := claim()
	if ending, err := store.Tasks.ReturnTask(t.Context(), third, work.Return{Failure: "others are down", Uncounted: true, Now: now}); err != nil || ending != work.Recorded {
		t.Errorf("it fails without being counted: %v %v", ending, err)
	}
	if third = claim(); third.Attempt != 2 {
		t.Errorf("it is attempt %d", third.Attempt)
	} else if ending, err := store.Tasks.FinishTask(t.Context(), third); err != nil || ending != work.Recorded || workRows(t, url) != 0 {
		t.Errorf("%v %v", ending, err)
	}
}

// All tasks of an account and kind rest together, also those that are added meanwhile; those of other accounts and kinds do not.
func TestWork_AccountsRest(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	a, b := accountOf(1), accountOf(2)
	addTasks(t, url, a, 2)
	tasks, err := store.Tasks.ClaimTasks(t.Context(), work.Claim{Kind: testWork, Limit: 2, Duration: time.Hour})
	must(t, err)
	for i, rest := range []time.Duration{time.Hour, time.Microsecond} { // a shorter rest does not end a longer one
		if ending, err := store.Tasks.ReturnTask(t.Context(), tasks[i], work.Return{Delay: time.Hour, Rest: rest}); err != nil || ending != work.Recorded {
			t.Fatalf("%v %v", ending, err)
		}
	}
	addTasks(t, url, a, 1)
	addTasks(t, url, b, 1)
	statement(t, url, "INSERT INTO work (kind, key, account_id) VALUES ('another', gen_random_uuid(), $1)", a)
	if got, want := claimTasks(t, store, 9, 0), (map[uuid.UUID]int{b: 1}); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if others, err := store.Tasks.ClaimTasks(t.Context(), work.Claim{Kind: "another", Limit: 9, Duration: time.Hour}); err != nil || len(others) != 1 {
		t.Errorf("%+v %v", others, err)
	}
	later := work.Claim{Kind: testWork, Limit: 9, Duration: time.Hour, Now: time.Now().Add(61 * time.Minute)}
	if tasks, err := store.Tasks.ClaimTasks(t.Context(), later); err != nil || len(tasks) != 4 { // that of b again, whose claim has ended
		t.Errorf("%+v %v", tasks, err)
	}
	// A claim that has ended lets nothing rest.
	c := accountOf(3)
	addTasks(t, url, c, 2)
	lost, err := store.Tasks.ClaimTasks(t.Context(), work.Claim{Kind: testWork, Limit: 1, Duration: time.Hour})
	must(t, err)
	statement(t, url, "UPDATE work SET claim = NULL, due_at = now() WHERE account_id = $1", c)
	if ending, err := store.Tasks.ReturnTask(t.Context(), lost[0], work.Return{Delay: time.Hour, Rest: time.Hour}); err != nil || ending != work.Lost {
		t.Errorf("%v %v", ending, err)
	}
	if got, want := claimTasks(t, store, 9, 0), (map[uuid.UUID]int{c: 2}); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestWork_EndsTasksThatExpire(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	now := time.Now()
	statement(t, url, `INSERT INTO work (kind, key, due_at, expires_at) VALUES ('test', gen_random_uuid(), $1, $2)`, now, now.Add(time.Minute))
	claim := func(at time.Time) work.Task {
		t.Helper()
		tasks, err := store.Tasks.ClaimTasks(t.Context(), work.Claim{Kind: testWork, Limit: 9, Duration: time.Second, Now: at})
		must(t, err)
		return tasks[0]
	}
	task := claim(now)
	if ending, err := store.Tasks.ReturnTask(t.Context(), task, work.Return{Delay: 59 * time.Second, Failure: "down", Now: now}); err != nil || ending != work.Recorded || task.Expired {
		t.Errorf("due before its time: %v %v", ending, err)
	}
	if task = claim(now.Add(time.Minute)); !task.Expired {
		t.Error("the task has not expired")
	}
	if ending, err := store.Tasks.ReturnTask(t.Context(), task, work.Return{Delay: time.Second, Failure: "down", Now: now.Add(59 * time.Second)}); err != nil || ending != work.Expired || workRows(t, url) != 0 {
		t.Errorf("due at its time: %v %v, %d rows", ending, err, workRows(t, url))
	}
}

// The tasks of a process that is dead are due before their claims end, as soon as another process has served for long enough to
// know; those of a process that lives are not, nor those that no process has claimed.
func TestWork_ReleasesTheTasksOfDeadProcesses(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	dying := open(t, url)
	own, other := uuid.New(), uuid.New()
	must(t, touch(t, store, own, "v1"))
	must(t, touch(t, dying, other, "v1"))
	addTasks(t, url, uuid.Nil, 3)
	if got := claimTasks(t, dying, 3, 0); got[uuid.Nil] != 3 {
		t.Fatalf("%v are claimed", got)
	}
	statement(t, url, "UPDATE runtime_instance SET alive_since = now() - interval '2 minutes' WHERE id = $1", own)
	release := func(when string, want int) {
		t.Helper()
		if got, err := store.Tasks.ReleaseTasks(t.Context(), testWork); err != nil || got != want {
			t.Errorf("%s: %d are released, not %d: %v", when, got, want, err)
		}
	}
	release("while it lives", 0)
	statement(t, url, lapse, other)
	statement(t, url, "UPDATE runtime_instance SET alive_since = now() WHERE id = $1", own)
	release("after an outage of all", 0)
	statement(t, url, "UPDATE runtime_instance SET alive_since = now() - interval '2 minutes' WHERE id = $1", own)
	release("once it is dead", 3)
	release("again", 0)
	if got := claimTasks(t, store, 9, 0); got[uuid.Nil] != 3 {
		t.Errorf("%v are claimed again", got)
	}
	// A process without a lease, as that of a command, has the tasks until its claims end.
	addTasks(t, url, uuid.Nil, 1)
	command := open(t, url)
	if got := claimTasks(t, command, 9, 0); got[uuid.Nil] != 1 {
		t.Errorf("%v are claimed", got)
	}
	release("by a command", 0)
}

func TestWork_EndsWithItsAccount(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	made, err := registry(store).Ensure(t.Context(), spec)
	must(t, err)
	addTasks(t, url, made.ID, 2)
	addTasks(t, url, accountOf(1), 1)
	statement(t, url, "INSERT INTO work (kind, key, account_id) VALUES ('another', gen_random_uuid(), $1)", made.ID)
	claimTasks(t, store, 1, 0)
	statement(t, url, "DELETE FROM app WHERE account_id = $1", made.ID)
	statement(t, url, "DELETE FROM account_usage WHERE account_id = $1", made.ID)
	statement(t, url, "DELETE FROM account WHERE id = $1", made.ID)
	if rows := workRows(t, url); rows != 1 {
		t.Errorf("%d tasks are left, not that of the other account", rows)
	}
}

// During an update, replicas of the version before queue e-mails in their own table, and send those that they have leased.
func TestWork_AdoptsEmailsOfTheVersionBefore(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	statement(t, url, `INSERT INTO email_outbox (encrypted, attempts, not_before, expires_at) VALUES ('due', 1, now(), now() + interval '10 minutes'), ('leased', 1, now() + interval '45 seconds', now() + interval '10 minutes')`)
	if adopted, err := store.Tasks.AdoptEmails(t.Context()); err != nil || adopted != 1 {
		t.Fatalf("%d are adopted: %v", adopted, err)
	}
	tasks, err := store.Tasks.ClaimTasks(t.Context(), work.Claim{Kind: oauth.EmailWork, Limit: 9, Duration: time.Minute})
	if err != nil || len(tasks) != 1 || string(tasks[0].Payload) != "due" || tasks[0].Attempt != 2 || tasks[0].Expired {
		t.Errorf("%+v %v", tasks, err)
	}
}

// done counts the tasks that a process did.
type done struct {
	mu   sync.Mutex
	keys map[uuid.UUID]int
}

func (d *done) Work(_ context.Context, task work.Task) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.keys[task.Key]++
	return nil
}

func TestWork_TwoProcessesDoEachTaskOnce(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	for n := range 10 {
		addTasks(t, url, accountOf(n), 20)
	}
	did := &done{keys: map[uuid.UUID]int{}}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, store := range []*postgres.Store{store, open(t, url)} {
		runner, err := work.NewRunner(work.Deps{Store: store.Tasks, Log: slog.New(slog.DiscardHandler)})
		must(t, err)
		must(t, runner.Register(testWork, did, work.Policy{Slots: 4, PerAccount: 1, Timeout: time.Minute, MinBackoff: time.Second, MaxBackoff: time.Minute}))
		running.Go(func() { _ = runner.Run(ctx) })
	}
	wait.Until(t, "all tasks are done", func() bool { return workRows(t, url) == 0 })
	stop()
	running.Wait()
	for key, times := range did.keys {
		if times != 1 {
			t.Errorf("task %s was done %d times", key, times)
		}
	}
	if len(did.keys) != 200 {
		t.Errorf("%d tasks of 200 were done", len(did.keys))
	}
}

// All processes enqueue the task of facts at each check: it is there once, also while a process works on it.
func TestEnqueueFacts_AddsOneTask(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	for i, want := range []int{1, 0} {
		if added, err := store.Items.EnqueueFacts(t.Context(), time.Hour); err != nil || added != want {
			t.Errorf("call %d: %d, %v", i+1, added, err)
		}
	}
	claim := work.Claim{Kind: media.FactsWork, Limit: 5, Duration: time.Hour}
	if tasks, err := store.Tasks.ClaimTasks(t.Context(), claim); err != nil || len(tasks) != 0 {
		t.Errorf("before its time: %+v, %v", tasks, err)
	}
	claim.Now = time.Now().Add(2 * time.Hour)
	if tasks, err := store.Tasks.ClaimTasks(t.Context(), claim); err != nil || len(tasks) != 1 || tasks[0].AccountID != uuid.Nil {
		t.Errorf("%+v, %v", tasks, err)
	}
	if added, err := store.Items.EnqueueFacts(t.Context(), 0); err != nil || added != 0 || workRows(t, url) != 1 {
		t.Errorf("while it runs: %d, %v", added, err)
	}
}
