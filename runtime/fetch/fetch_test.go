package fetch_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/fetch"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/purge"
	"mediastack.dev/runtime/work"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// Two processes with a store each; the first one runs an upload from a URL whose server has stalled.
func TestJob_OfAKilledProcessIsTakenOver(t *testing.T) {
	t.Parallel()
	killed, other := twoProcesses(t)
	one := killed.tenant(t)
	stalled := newStall(20 << 20)
	first := killed.process(t, stalled.open, func(c *fetch.Config) { c.CheckInterval = time.Minute }) // it does not notice
	job := first.start(t, one, fetch.Request{URL: "https://example.com/a"})
	killed.RunFetches(t, first.core)
	wait.Until(t, "bytes are reserved", func() bool { return killed.QueryInt(t, `SELECT count(*) FROM upload WHERE reserved > 0`) == 1 })
	killed.exec(t, `UPDATE runtime_instance SET lease_ends = now() - interval '1s'`)

	second := other.process(t, serve("abc"))
	other.RunFetches(t, second.core)
	killed.exec(t, `UPDATE runtime_instance SET alive_since = now() - interval '2h' WHERE lease_ends > now()`)
	ended := second.ended(t, one, job)
	if ended.State != fetch.Done || ended.Bytes != 3 {
		t.Fatalf("%+v", ended)
	}
	other.holds(t, 1, 3)
	close(stalled.release) // the first process was only paused
	wait.Until(t, "the first process has noticed", func() bool { return strings.Contains(first.core.Logs.String(), "taken over") })
	other.holds(t, 1, 3) // still
	if n := other.QueryInt(t, `SELECT count(*) FROM fetch_job WHERE attempts = 2 AND item_id = $1`, ended.MediaID); n != 1 {
		t.Error("the first process has changed the job")
	}
}

func TestJob_CommittedByAKilledProcessIsNotFetchedAgain(t *testing.T) {
	t.Parallel()
	killed, other := twoProcesses(t)
	one := killed.tenant(t)
	first := killed.process(t, serve("abc"))
	_, err := killed.Store.Installations.TouchRuntime(t.Context(), uuid.New(), "test", time.Hour)
	must(t, err)
	job := first.start(t, one, fetch.Request{URL: "https://example.com/a", Seal: true})
	claim := killed.begin(t, killed.claim(t, 1)[0])
	upload, err := first.core.Uploads.BeginItem(t.Context(), killed.Principal(t, one), claim.ItemID, 3)
	must(t, err)
	must(t, upload.Receive(t.Context(), strings.NewReader("abc"), "text/plain"))
	_, err = upload.Commit(t.Context(), claim.Request.Fields)
	must(t, err)
	upload.Close(t.Context())
	killed.exec(t, `UPDATE runtime_instance SET lease_ends = now() - interval '1s'`)

	second := other.process(t, func(context.Context) (fetch.File, error) {
		t.Error("the file is fetched again")
		return fetch.File{}, errors.New("again")
	})
	other.RunFetches(t, second.core)
	killed.exec(t, `UPDATE runtime_instance SET alive_since = now() - interval '2h' WHERE lease_ends > now()`)
	if ended := second.ended(t, one, job); ended.State != fetch.Done || ended.MediaID != claim.ItemID {
		t.Errorf("%+v", ended)
	}
	if item, err := second.core.Media.Get(t.Context(), other.Principal(t, one), claim.ItemID); err != nil || item.Draft() {
		t.Errorf("%+v, %v", item, err)
	}
	other.holds(t, 1, 3)
	if err := killed.Store.Fetches.FinishFetch(t.Context(), claim, 3, nil); !errors.Is(err, fetch.ErrLost) {
		t.Errorf("the first process can end the job: %v", err)
	}
}

// unrecorded is a store that fails to record the first end of a job.
type unrecorded struct {
	fetch.Store
	failed atomic.Bool
}

func (u *unrecorded) FinishFetch(ctx context.Context, claim fetch.Claim, bytes int64, failure *fetch.Failure) error {
	if !u.failed.Swap(true) {
		return fault.New(fault.Unavailable, "the database is away")
	}
	return u.Store.FinishFetch(ctx, claim, bytes, failure)
}

func TestJob_WhoseEndIsNotRecordedIsNotFetchedAgain(t *testing.T) {
	t.Parallel()
	w := &world{runtimetest.New(t)}
	one := w.tenant(t)
	var opened, queued atomic.Int32
	p := w.process(t, nil)
	tasks, err := work.NewRunner(work.Deps{Store: w.Store.Tasks, Log: p.core.Logs.Logger()})
	must(t, err)
	store := &unrecorded{Store: w.Store.Fetches}
	p.core.Tasks = tasks
	p.core.Fetch, err = fetch.New(runtimetest.FetchConfig(), fetch.Deps{Store: store, Media: p.core.Media, Uploads: p.core.Uploads, NewID: w.Store.Cell().NewID, Now: time.Now, Log: p.core.Logs.Logger(),
		Queued: func() { queued.Add(1); tasks.Wake(fetch.JobWork) }, Source: source(func(ctx context.Context) (fetch.File, error) {
			opened.Add(1)
			return serve("abc")(ctx)
		})})
	must(t, err)
	must(t, tasks.Register(fetch.JobWork, p.core.Fetch, p.core.Fetch.Policy()))
	job := p.start(t, one, fetch.Request{URL: "https://example.com/a", Seal: true})
	if queued.Load() != 1 {
		t.Errorf("the runner was woken %d times", queued.Load())
	}
	w.RunFetches(t, p.core)
	if ended := p.ended(t, one, job); ended.State != fetch.Done || opened.Load() != 1 || !store.failed.Load() {
		t.Errorf("%+v, after %d downloads", ended, opened.Load())
	}
	w.holds(t, 1, 3)
}

func TestShutdown_GivesJobsBack(t *testing.T) {
	t.Parallel()
	w := &world{runtimetest.New(t)}
	one := w.tenant(t)
	stalled := newStall(20 << 20)
	first := w.process(t, stalled.open)
	job := first.start(t, one, fetch.Request{URL: "https://example.com/a"})
	stop := w.RunFetches(t, first.core)
	wait.Until(t, "a part was received", func() bool { return w.QueryInt(t, `SELECT bytes FROM fetch_job`) >= stalled.size })
	stop()
	if n := w.QueryInt(t, `SELECT count(*) FROM fetch_job WHERE state = 'queued' AND attempts = 0 AND instance_id IS NULL`); n != 1 {
		t.Error("the job was not given back")
	}
	w.holds(t, 0, 0)
	second := w.process(t, serve("abc"))
	w.RunFetches(t, second.core)
	if ended := second.ended(t, one, job); ended.State != fetch.Done {
		t.Errorf("%+v", ended)
	}
}

func TestJob_EndsWithItsCredential(t *testing.T) {
	t.Parallel()
	w := &world{runtimetest.New(t)}
	for name, end := range map[string]func(runtimetest.Tenant){
		"suspended": func(of runtimetest.Tenant) { w.Change(t, of, func(s *account.Spec) { s.Suspended = true }) },
		"revoked": func(of runtimetest.Tenant) {
			_, _, err := w.Registry.IssueKey(t.Context(), of.App.ID, 2, 0)
			must(t, err)
		},
		"closed": func(of runtimetest.Tenant) {
			_, err := w.Registry.Close(t.Context(), of.Account.ID, account.CloseOptions{})
			must(t, err)
		},
	} {
		one := w.Tenant(t, account.Spec{Name: name, MaxStorage: 64 << 20, MaxUploadSize: 32 << 20})
		stalled := newStall(20 << 20)
		p := w.process(t, stalled.open)
		job := p.start(t, one, fetch.Request{URL: "https://example.com/a"})
		principal := w.Principal(t, one)
		stop := w.RunFetches(t, p.core)
		wait.Until(t, "a part was received", func() bool {
			return w.QueryInt(t, `SELECT bytes FROM fetch_job WHERE id = $1`, job.ID) >= stalled.size
		})
		end(one)
		if ended := p.endedFor(t, principal, job); ended.State != fetch.Failed || ended.Failure.Code != fetch.NotPermitted {
			t.Errorf("%s: %+v", name, ended)
		}
		stop()
		w.holds(t, 0, 0)
	}
}

func TestJob_StaysWithinSizeAndCap(t *testing.T) {
	t.Parallel()
	w := &world{runtimetest.New(t)}
	one := w.tenant(t) // 64 MiB, 32 MiB a file
	for name, tt := range map[string]struct {
		open func(context.Context) (fetch.File, error)
		code fetch.Code
	}{
		"an endless file": {func(context.Context) (fetch.File, error) {
			return fetch.File{Body: io.NopCloser(endless{})}, nil
		}, fetch.TooLarge},
		"a declared size": {func(context.Context) (fetch.File, error) {
			return fetch.File{Body: io.NopCloser(unreadable{t}), Size: 1 << 40}, nil
		}, fetch.TooLarge},
		"a panic": {func(context.Context) (fetch.File, error) { panic("of the client") }, fetch.InternalError},
		"a store that stays unavailable": {func(context.Context) (fetch.File, error) {
			return fetch.File{}, fault.New(fault.Unavailable, "10.0.0.1")
		}, fetch.Unavailable},
	} {
		p := w.process(t, tt.open)
		job := p.start(t, one, fetch.Request{URL: "https://example.com/a"})
		stop := w.RunFetches(t, p.core)
		ended := p.ended(t, one, job)
		stop()
		if ended.State != fetch.Failed || ended.Failure.Code != tt.code || strings.Contains(ended.Failure.Text, "10.0") {
			t.Errorf("%s: %+v", name, ended)
		}
		w.holds(t, 0, 0)
	}
	small := w.Tenant(t, account.Spec{Name: "small", MaxStorage: 2, MaxUploadSize: 10})
	p := w.process(t, serve("abc"))
	job := p.start(t, small, fetch.Request{URL: "https://example.com/a"})
	w.RunFetches(t, p.core)
	if ended := p.ended(t, small, job); ended.Failure.Code != fetch.StorageCapExceeded {
		t.Errorf("%+v", ended)
	}
	w.holds(t, 0, 0)
}

func TestStart_BoundsTheQueueOfEachAccount(t *testing.T) {
	t.Parallel()
	w := &world{runtimetest.New(t)}
	one, other := w.tenant(t), w.Tenant(t, account.Spec{Name: "other", MaxStorage: 10, MaxUploadSize: 10})
	p := w.process(t, serve(""), func(c *fetch.Config) { c.MaxOpen = 3 })
	principal := w.Principal(t, one)
	// What is added cannot be committed until all connections of the process add something: what they have counted is outdated then.
	conn, err := pgx.Connect(t.Context(), w.Database.DatabaseURL)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	must(t, check.ErrorOf(conn.Exec(t.Context(), `BEGIN; SELECT FROM app FOR UPDATE`)))
	var racers sync.WaitGroup
	results := make(chan error, 12)
	for range 12 {
		racers.Go(func() {
			_, err := p.core.Fetch.Start(t.Context(), fetch.Caller{Principal: principal}, fetch.Request{URL: "https://example.com/"})
			results <- err
		})
	}
	connections := int64(w.Database.DatabaseConns)
	wait.Until(t, "all connections add a job", func() bool {
		return w.QueryInt(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == connections
	})
	must(t, check.ErrorOf(conn.Exec(t.Context(), `COMMIT`)))
	racers.Wait()
	close(results)
	started := 0
	for err := range results {
		if err == nil {
			started++
		} else if !fault.Is(err, fault.Busy) || fault.From(err).RetryAfter == 0 {
			t.Errorf("%v", err)
		}
	}
	if started != 3 {
		t.Errorf("%d jobs, want 3", started)
	}
	p.start(t, other, fetch.Request{URL: "https://example.com/"})
}

func TestClaim_BoundsTheRunningJobsOfEachAccount(t *testing.T) {
	t.Parallel()
	here, there := twoProcesses(t)
	one := here.tenant(t)
	p := here.process(t, serve(""))
	for range 6 {
		p.start(t, one, fetch.Request{URL: "https://example.com/"})
	}
	var racers sync.WaitGroup
	claimed := make(chan work.Task, 32)
	for i := range 16 {
		store := []*world{here, there}[i%2].Store
		racers.Go(func() {
			tasks, err := store.Tasks.ClaimTasks(t.Context(), work.Claim{Kind: fetch.JobWork, Limit: 2, PerAccount: 2, Duration: time.Hour})
			if err != nil {
				t.Error(err)
			}
			for _, task := range tasks {
				claimed <- task
			}
		})
	}
	racers.Wait()
	close(claimed)
	if first, second := <-claimed, <-claimed; first.Key == second.Key || len(claimed) != 0 {
		t.Errorf("%s, %s and %d more are claimed, want 2", first.Key, second.Key, len(claimed))
	}
}

func TestClaim_PrefersAccountsWithFewerRunningJobs(t *testing.T) {
	t.Parallel()
	w := &world{runtimetest.New(t)}
	one, other := w.tenant(t), w.Tenant(t, account.Spec{Name: "other", MaxStorage: 10, MaxUploadSize: 10})
	p := w.process(t, serve(""))
	var jobs []fetch.Job
	for _, of := range []runtimetest.Tenant{one, one, one, other} {
		jobs = append(jobs, p.start(t, of, fetch.Request{URL: "https://example.com/"}))
	}
	for i, want := range []int{0, 3, 1} {
		if claimed := w.claim(t, 2); len(claimed) != 1 || claimed[0].Key != jobs[want].ID {
			t.Errorf("claim %d is %v, want job %d", i, claimed, want)
		}
	}
	if claimed := w.claim(t, 2); len(claimed) != 0 {
		t.Errorf("%v are claimed", claimed)
	}
}

// A replica of the version before package work claims jobs by their rows, and adds rows without tasks.
func TestBegin_LeavesAJobToAReplicaOfTheVersionBefore(t *testing.T) {
	t.Parallel()
	w := &world{runtimetest.New(t)}
	one := w.tenant(t)
	p := w.process(t, serve("abc"))
	job := p.start(t, one, fetch.Request{URL: "https://example.com/a"})
	former := uuid.New()
	w.exec(t, fmt.Sprintf(`INSERT INTO runtime_instance (id, version, started_at, alive_since, lease_ends) VALUES ('%s', 'before', now(), now(), now() + interval '1 hour')`, former))
	w.exec(t, fmt.Sprintf(`UPDATE fetch_job SET state = 'running', instance_id = '%s', item_id = gen_random_uuid(), attempts = 1`, former))
	_, err := w.Store.Installations.TouchRuntime(t.Context(), uuid.New(), "test", time.Hour)
	must(t, err)
	if _, err := w.Store.Fetches.BeginFetch(t.Context(), job.ID, media.UploadKeys, time.Now()); !errors.Is(err, fetch.ErrLost) {
		t.Errorf("a job that another process runs: %v", err)
	}
	w.RunFetches(t, p.core)
	wait.Until(t, "the task was put off", func() bool { return p.metric(t, "mediastack_work_attempts_total", "snoozed") > 0 })
	w.Counts(t, 1, "jobs are left to the other process", fmt.Sprintf(`SELECT count(*) FROM fetch_job WHERE instance_id = '%s' AND attempts = 1`, former))
	// It dies, and what it queued has no tasks.
	w.exec(t, `DELETE FROM work`)
	w.exec(t, fmt.Sprintf(`UPDATE runtime_instance SET lease_ends = now() - interval '1s' WHERE id = '%s'`, former))
	w.exec(t, `UPDATE runtime_instance SET alive_since = now() - interval '2h' WHERE lease_ends > now()`)
	if ended := p.ended(t, one, job); ended.State != fetch.Done || ended.Bytes != 3 {
		t.Errorf("%+v", ended)
	}
	wait.Until(t, "no task is left", func() bool { return w.QueryInt(t, `SELECT count(*) FROM work`) == 0 })
}

// Its claim would last for a day if it died before it has a lease.
func TestRun_ClaimsNothingWithoutALease(t *testing.T) {
	t.Parallel()
	w := &world{runtimetest.New(t)}
	one := w.tenant(t)
	p := w.process(t, serve("abc"))
	p.start(t, one, fetch.Request{URL: "https://example.com/a"})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = p.core.Tasks.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	for range 3 { // a check enqueues first, and claims then
		w.exec(t, `DELETE FROM work`)
		wait.Until(t, "the task is enqueued", func() bool { return w.QueryInt(t, `SELECT count(*) FROM work`) == 1 })
	}
	w.Counts(t, 0, "accounts were served", `SELECT count(*) FROM work_turn`)
}

func TestEnqueue_AddsATaskForEachQueuedJobWithoutOne(t *testing.T) {
	t.Parallel()
	w := &world{runtimetest.New(t)}
	one := w.tenant(t)
	p := w.process(t, serve("abc"))
	var jobs []fetch.Job
	for range 4 {
		jobs = append(jobs, p.start(t, one, fetch.Request{URL: "https://example.com/a"}))
	}
	w.exec(t, fmt.Sprintf(`DELETE FROM work WHERE key <> '%s'`, jobs[0].ID))
	w.exec(t, fmt.Sprintf(`UPDATE fetch_job SET state = 'running', instance_id = gen_random_uuid() WHERE id = '%s'`, jobs[1].ID)) // not known to be dead
	w.exec(t, fmt.Sprintf(`UPDATE fetch_job SET state = 'failed', ended_at = now() WHERE id = '%s'`, jobs[2].ID))
	for _, want := range []int{1, 0} {
		if added, err := w.Store.Fetches.EnqueueFetches(t.Context()); err != nil || added != want {
			t.Errorf("%d tasks are added, %v, want %d", added, err, want)
		}
	}
	w.Counts(t, 2, "jobs have a task", `SELECT count(*) FROM work WHERE kind = 'fetch'`)
}

// A job that ended is deleted after the retention. One that nobody has run for as long fails, and can be read for as long; one that waits for
// its next attempt, or that a process runs, stays.
func TestPurge_DeletesEndedJobsAndEndsOverdueOnes(t *testing.T) {
	t.Parallel()
	w := &world{runtimetest.New(t)}
	one := w.tenant(t)
	p := w.process(t, serve("abc"))
	job := p.start(t, one, fetch.Request{URL: "https://example.com/a"})
	stop := w.RunFetches(t, p.core)
	p.ended(t, one, job)
	stop()
	const rest = `SELECT count(*) FROM fetch_job WHERE ended_at IS NULL`
	overdue := p.start(t, one, fetch.Request{URL: "https://example.com/b"})
	p.start(t, one, fetch.Request{URL: "https://example.com/c"})
	w.exec(t, `UPDATE work SET due_at = now() + interval '3 hours' WHERE key <> '`+overdue.ID.String()+`'`)
	for _, want := range []struct {
		at   time.Time
		jobs int
		open int64
	}{{time.Now(), 0, 2}, {time.Now().Add(2 * time.Hour), 2, 1}} {
		n, err := fetch.Purge(t.Context(), fetch.PurgeConfig{Retention: time.Hour}, w.Store.Fetches, purge.Batches{Size: 50}, want.at)
		if err != nil || n != want.jobs {
			t.Errorf("%d, %v, want %d", n, err, want.jobs)
		}
		w.Counts(t, want.open, "jobs are open", rest)
		w.Counts(t, want.open, "tasks wait", `SELECT count(*) FROM work`)
	}
	if got := p.ended(t, one, overdue); got.State != fetch.Failed || got.Failure.Code != fetch.Interrupted || got.Request.URL != "" {
		t.Errorf("%+v", got)
	}
	if n, err := fetch.Purge(t.Context(), fetch.PurgeConfig{Retention: time.Hour}, w.Store.Fetches, purge.Batches{Size: 50}, time.Now().Add(2*time.Hour)); err != nil || n != 1 {
		t.Errorf("%d, %v: the job that was overdue is not deleted", n, err)
	}
	w.Counts(t, 1, "jobs are open", rest)
}

// A job that a process runs for longer than the retention goes on.
func TestPurge_LeavesAJobThatRuns(t *testing.T) {
	t.Parallel()
	w := &world{runtimetest.New(t)}
	one := w.tenant(t)
	p := w.process(t, serve("abc"))
	_, err := w.Store.Installations.TouchRuntime(t.Context(), uuid.New(), "test", time.Hour)
	must(t, err)
	job := p.start(t, one, fetch.Request{URL: "https://example.com/a"})
	claim := w.begin(t, w.claim(t, 1)[0])
	if n, err := fetch.Purge(t.Context(), fetch.PurgeConfig{Retention: time.Hour}, w.Store.Fetches, purge.Batches{Size: 50}, time.Now().Add(72*time.Hour)); err != nil || n != 0 {
		t.Errorf("%d, %v", n, err)
	}
	must(t, w.Store.Fetches.FinishFetch(t.Context(), claim, 3, nil))
	if got := p.ended(t, one, job); got.State != fetch.Done {
		t.Errorf("%+v", got)
	}
}

// A job whose process was dead when the purge looked, and that another one has begun before the purge locks its row, goes on.
func TestPurge_LeavesAJobThatBeginsMeanwhile(t *testing.T) {
	t.Parallel()
	w := &world{runtimetest.New(t)}
	one := w.tenant(t)
	p := w.process(t, serve("abc"))
	p.start(t, one, fetch.Request{URL: "https://example.com/a"})
	dead, live := uuid.New(), uuid.New()
	for instance, lease := range map[uuid.UUID]time.Duration{dead: -time.Minute, live: time.Hour} {
		_, err := w.Store.Installations.TouchRuntime(t.Context(), instance, "test", lease)
		must(t, err)
	}
	// Statements that read the instance of a job wait for this lock.
	conn, err := pgx.Connect(t.Context(), w.Database.DatabaseURL)
	must(t, err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), `UPDATE fetch_job SET state = 'running', instance_id = '`+dead.String()+`';
		ALTER TABLE runtime_instance RENAME TO instance;
		CREATE FUNCTION may_read() RETURNS boolean STABLE LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock_shared(77); RETURN true; END';
		CREATE VIEW runtime_instance AS SELECT * FROM instance WHERE may_read();
		SELECT pg_advisory_lock(77)`)
	must(t, err)
	purged := make(chan int, 1)
	go func() {
		n, err := fetch.Purge(t.Context(), fetch.PurgeConfig{Retention: time.Hour}, w.Store.Fetches, purge.Batches{Size: 50}, time.Now().Add(72*time.Hour))
		if err != nil {
			t.Error(err)
		}
		purged <- n
	}()
	wait.Until(t, "the purge reads the instance", func() bool {
		return w.QueryInt(t, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`) == 1
	})
	_, err = conn.Exec(t.Context(), `UPDATE fetch_job SET instance_id = '`+live.String()+`'; SELECT pg_advisory_unlock(77)`)
	must(t, err)
	if n := wait.Receive(t, "the purge ends", purged); n != 0 {
		t.Errorf("%d jobs are purged", n)
	}
	w.Counts(t, 1, "jobs are open", `SELECT count(*) FROM fetch_job WHERE ended_at IS NULL`)
}
