package fetch_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	dto "github.com/prometheus/client_model/go"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fetch"
	"mediastack.dev/runtime/internal/runtimetest"
)

// accounts provisions accounts with these names.
func (w *world) accounts(t *testing.T, names ...string) (made []runtimetest.Tenant) {
	t.Helper()
	for _, name := range names {
		made = append(made, w.Tenant(t, account.Spec{Name: name, MaxStorage: 64 << 20, MaxUploadSize: 32 << 20}))
	}
	return made
}

// running returns how many jobs of an account run.
func (w *world) running(t *testing.T, of runtimetest.Tenant) int64 {
	t.Helper()
	return w.QueryInt(t, `SELECT count(*) FROM fetch_job WHERE state = 'running' AND account_id = $1`, of.Account.ID)
}

// Three accounts whose servers stall once held all four slots for as long as SERVICE_FETCH_TIMEOUT.
func TestRun_YieldsASlotToAnAccountThatHasNone(t *testing.T) {
	t.Parallel()
	w := &world{runtimetest.New(t)}
	one := w.accounts(t, "a", "b", "c", "d")
	p := w.process(t, newStall(12<<20).open, func(c *fetch.Config) { c.ContendedRate = 0 })
	w.RunFetches(t, p.core)
	for i, want := range []int64{2, 1, 1} { // the last slot is for an account that has none
		for range 2 {
			p.start(t, one[i], fetch.Request{URL: "https://example.com/"})
		}
		wait.Until(t, "the slots are in use", func() bool { return w.running(t, one[i]) == want })
	}
	p.start(t, one[3], fetch.Request{URL: "https://example.com/"})
	wait.Until(t, "each account has a slot", func() bool {
		for _, account := range one {
			if w.running(t, account) != 1 {
				return false
			}
		}
		return true
	})
	// What has yielded waits as before: the attempt does not count, and nothing of it is left.
	wait.Until(t, "the others wait", func() bool {
		return w.QueryInt(t, `SELECT count(*) FROM fetch_job WHERE state = 'queued' AND attempts = 0 AND error_code = '' AND EXISTS (SELECT FROM work WHERE key = id AND claim IS NULL AND work.attempts = 0 AND failure = '')`) == 3
	})
	wait.Until(t, "only running jobs have an upload", func() bool { return w.QueryInt(t, `SELECT count(*) FROM upload`) == 4 })
}

// Of two processes whose slots are all in use, one gives up one slot.
func TestRun_YieldsOneSlotForEachAccountThatWaits(t *testing.T) {
	t.Parallel()
	here, there := twoProcesses(t)
	one := here.accounts(t, "a", "b", "c", "d")
	change := func(c *fetch.Config) { c.ContendedRate, c.Concurrency, c.PerAccount = 0, 2, 4 }
	first, second := here.process(t, newStall(1).open, change), there.process(t, newStall(1).open, change)
	for i, jobs := range []int{3, 3} {
		for range jobs {
			first.start(t, one[i], fetch.Request{URL: "https://example.com/"})
		}
	}
	use := func(want int64) {
		t.Helper()
		wait.Until(t, "the slots are in use", func() bool { return here.running(t, one[0])+here.running(t, one[1]) == want })
	}
	// The last slot of each process is for an account of which none runs.
	here.RunFetches(t, first.core)
	use(2)
	there.RunFetches(t, second.core)
	use(3)
	first.start(t, one[2], fetch.Request{URL: "https://example.com/"})
	// It gets the last slot. If the machine is so slow that it waited too long, a slot was yielded to it already.
	wait.Until(t, "the account that had none runs", func() bool { return here.running(t, one[2]) == 1 })
	first.start(t, one[3], fetch.Request{URL: "https://example.com/"})
	wait.Until(t, "all accounts run", func() bool {
		return here.running(t, one[0]) == 1 && here.running(t, one[1]) == 1 && here.running(t, one[2]) == 1 && here.running(t, one[3]) == 1
	})
}

// Servers that stall hold all slots but the last one: it is for an account of which no job runs.
func TestRun_KeepsTheLastSlotForAnotherAccount(t *testing.T) {
	t.Parallel()
	w := &world{runtimetest.New(t)}
	tenants := w.accounts(t, "one", "other")
	one, other := tenants[0], tenants[1]
	p := w.process(t, newStall(1).open, func(c *fetch.Config) { c.Concurrency, c.PerAccount = 3, 3 })
	for range 3 {
		p.start(t, one, fetch.Request{URL: "https://example.com/"})
	}
	w.RunFetches(t, p.core)
	wait.Until(t, "two jobs run", func() bool { return w.running(t, one) >= 2 })
	p.start(t, other, fetch.Request{URL: "https://example.com/"})
	wait.Until(t, "the other account has a slot", func() bool { return w.running(t, other) == 1 })
	if n := w.running(t, one); n != 2 {
		t.Errorf("%d jobs of the first account run, want 2", n)
	}
}

// While an account waits for its first slot, a server must be as fast as SERVICE_FETCH_CONTENDED_MIN_TRANSFER_RATE.
func TestRun_EndsSlowTransfersWhileAnAccountWaits(t *testing.T) {
	t.Parallel()
	w := &world{runtimetest.New(t)}
	one := w.accounts(t, "fast", "slow", "waiting")
	const fast, slow, small = "https://fast.example.com/", "https://slow.example.com/", "https://small.example.com/"
	p := w.processOf(t, sources{fast: trickle, slow: newStall(1).open, small: serve("abc")}, func(c *fetch.Config) { c.ContendedRate, c.Concurrency = 1000, 2 })
	w.RunFetches(t, p.core)
	kept := p.start(t, one[0], fetch.Request{URL: fast})
	ended := p.start(t, one[1], fetch.Request{URL: slow})
	wait.Until(t, "both run", func() bool { return w.running(t, one[0]) == 1 && w.running(t, one[1]) == 1 })
	if done := p.ended(t, one[2], p.start(t, one[2], fetch.Request{URL: small})); done.State != fetch.Done {
		t.Errorf("%+v", done)
	}
	attempts := func(of fetch.Job) int64 { return w.QueryInt(t, `SELECT attempts FROM fetch_job WHERE id = $1`, of.ID) }
	if n := attempts(kept); n != 1 || w.running(t, one[0]) != 1 {
		t.Errorf("the transfer that is fast enough has %d attempts", n)
	}
	// The slow one is tried again, as often as is configured, while others wait.
	for range 3 {
		p.start(t, one[2], fetch.Request{URL: slow})
	}
	if state := p.ended(t, one[1], ended); state.Failure != (fetch.Failure{Code: fetch.Timeout, Text: "the server sends too slowly while uploads of other accounts wait"}) {
		t.Errorf("%+v", state)
	}
}

// Nobody waits: a slow transfer keeps its slot.
func TestStarved_OnlyWhileAnAccountWithoutASlotWaits(t *testing.T) {
	t.Parallel()
	w := &world{runtimetest.New(t)}
	one := w.accounts(t, "a", "b", "c")
	p := w.process(t, serve(""))
	_, err := w.Store.Installations.TouchRuntime(t.Context(), uuid.New(), "test", time.Hour)
	must(t, err)
	starved := func(wait time.Duration) (bool, uuid.UUID) {
		is, yields, err := w.Store.Fetches.StarvedFetch(t.Context(), wait)
		must(t, err)
		return is, yields
	}
	claim := func() fetch.Claim {
		t.Helper()
		claimed := w.claim(t, 4)
		if len(claimed) != 1 {
			t.Fatalf("%v are claimed", claimed)
		}
		return w.begin(t, claimed[0])
	}
	for range 3 {
		p.start(t, one[0], fetch.Request{URL: "https://example.com/"})
	}
	if is, _ := starved(0); !is {
		t.Error("an account without a slot does not starve")
	}
	if is, _ := starved(time.Hour); is {
		t.Error("it starves at once")
	}
	first := claim()
	if is, _ := starved(0); is {
		t.Error("an account with a slot starves")
	}
	p.start(t, one[1], fetch.Request{URL: "https://example.com/"})
	if is, yields := starved(0); !is || yields != uuid.Nil {
		t.Errorf("the only job of an account yields: %t, %s", is, yields)
	}
	claim() // of the second account
	second := claim()
	must(t, w.Store.Fetches.ReportFetch(t.Context(), second, 10, 0))
	p.start(t, one[2], fetch.Request{URL: "https://example.com/"})
	if is, yields := starved(0); !is || yields != first.ID {
		t.Errorf("%t, %s, want the job that has received the least, %s", is, yields, first.ID)
	}
	w.exec(t, `UPDATE runtime_instance SET lease_ends = now() - interval '1s'`)
	if is, yields := starved(0); !is || yields != uuid.Nil {
		t.Errorf("the job of a dead process yields: %t, %s", is, yields)
	}
}

// metric returns the sum of the series of a metric that have a label value; any for an empty one.
func (p process) metric(t *testing.T, name, value string) (sum float64) {
	t.Helper()
	families, err := p.core.Registry.Gather()
	must(t, err)
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, one := range family.GetMetric() {
			if value == "" || has(one, value) {
				sum += one.GetCounter().GetValue() + one.GetGauge().GetValue() + float64(one.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

func has(metric *dto.Metric, value string) bool {
	for _, label := range metric.GetLabel() {
		if label.GetValue() == value {
			return true
		}
	}
	return false
}

func TestMetrics_CountAttemptsByOutcome(t *testing.T) {
	t.Parallel()
	w := &world{runtimetest.New(t)}
	one := w.accounts(t, "a")[0]
	fails := func(code fetch.Code) source {
		return func(context.Context) (fetch.File, error) { return fetch.File{}, fetch.Fail(code, "no") }
	}
	stalled := newStall(7)
	files := sources{"ok": serve("abc"), "404": fails(fetch.StatusCode(404)), "503": fails(fetch.StatusCode(503)), "timeout": fails(fetch.Timeout), "stalled": stalled.open}
	p := w.processOf(t, files)
	stop := w.RunFetches(t, p.core)
	for _, url := range []string{"ok", "ok", "404", "503", "timeout"} {
		p.ended(t, one, p.start(t, one, fetch.Request{URL: url}))
	}
	p.start(t, one, fetch.Request{URL: "stalled"})
	wait.Until(t, "a job runs", func() bool {
		return p.metric(t, "mediastack_fetch_in_flight", "") == 1 && p.metric(t, "mediastack_fetch_received_bytes_total", "") == 3+3+7
	})
	stop()
	for value, want := range map[string]float64{"done": 2, "status": 2, "timeout": 1, "returned": 1, "internal_error": 0, "": 6} {
		if got := p.metric(t, "mediastack_fetch_attempts_total", value); got != want {
			t.Errorf("outcome %q: %v, want %v", value, got, want)
		}
	}
	for name, want := range map[string]float64{"mediastack_fetch_attempt_duration_seconds": 6, "mediastack_fetch_in_flight": 0, "mediastack_fetch_limit": 4} {
		if got := p.metric(t, name, ""); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
