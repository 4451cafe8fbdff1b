package accountmetrics

import (
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
)

// clock is a clock that a test advances.
type clock struct{ nanoseconds atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.nanoseconds.Store(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	return c
}

func (c *clock) now() time.Time { return time.Unix(0, c.nanoseconds.Load()) }

func (c *clock) advance(by time.Duration) { c.nanoseconds.Add(int64(by)) }

// account returns one of the accounts of a test.
func account(number int) Account {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:], uint64(number)+1)
	return Account{ID: id, Namespace: "team", Name: "a"}
}

func metricsOf(t testing.TB, cfg Config, now func() time.Time) *Metrics {
	t.Helper()
	m, err := New(cfg, now)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// scrape returns the series of each metric by the labels.
func scrape(t *testing.T, m *Metrics) map[string]map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]map[string]float64{}
	for _, family := range families {
		series := map[string]float64{}
		for _, one := range family.GetMetric() {
			var labels []string
			for _, label := range one.GetLabel() {
				labels = append(labels, label.GetName()+"="+label.GetValue())
			}
			series[strings.Join(labels, " ")] = one.GetCounter().GetValue()
		}
		found[family.GetName()] = series
	}
	return found
}

func sum(series map[string]float64) (sum float64) {
	for _, value := range series {
		sum += value
	}
	return sum
}

// accounts returns the values of the label account.
func accounts(series map[string]float64) map[string]bool {
	found := map[string]bool{}
	for labels := range series {
		for label := range strings.FieldsSeq(labels) {
			if value, ok := strings.CutPrefix(label, "account="); ok {
				found[value] = true
			}
		}
	}
	return found
}

func TestConfigValidate_RejectsInvalidSettings(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]Config{
		"SERVICE_ACCOUNT_METRICS must":     {Mode: "some", Top: 1},
		"SERVICE_ACCOUNT_METRICS_TOP must": {Mode: Top},
		"from 1 to 1000, not 1001":         {Mode: Top, Top: 1001},
	} {
		if _, err := New(cfg, time.Now); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	if m := metricsOf(t, Config{Mode: Off, Top: 1}, time.Now); m != nil {
		t.Error("the mode off counts")
	} else {
		m.Count(account(1), Request{Status: 200})
	}
}

func TestCount_BoundsTheSeriesOfManyAccounts(t *testing.T) {
	t.Parallel()
	at := newClock()
	const top, requests = 50, 100_000
	m := metricsOf(t, Config{Mode: Top, Top: top}, at.now)
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			random := rand.New(rand.NewPCG(1, 2))
			for range requests / 8 {
				m.Count(account(random.IntN(10_000)), Request{Status: 100 * random.IntN(9), Failed: random.IntN(2) == 0, In: random.Int64N(9) - 1, Out: 1})
			}
		})
	}
	ended := make(chan struct{})
	go func() { defer close(ended); clients.Wait() }()
	check := func(name string, series map[string]float64) {
		// The others, and those that left.
		if got := accounts(series); len(got) > top+2 || !got["other"] {
			t.Errorf("%s has %d values of the label account", name, len(got))
		}
	}
	for running := true; running; {
		select {
		case <-ended:
			running = false
		default:
		}
		at.advance(reviewInterval)
		for name, series := range scrape(t, m) {
			check(name, series)
		}
	}
	last := scrape(t, m)
	if got := sum(last["mediastack_account_requests_total"]); got != requests {
		t.Errorf("the sum of all series is %v of %d requests", got, requests)
	}
	if got := m.tracked.Load(); got > maxTracked {
		t.Errorf("%d accounts are tracked", got)
	}
}

func TestCount_TracksABoundedNumberOfAccounts(t *testing.T) {
	t.Parallel()
	at := newClock()
	m := metricsOf(t, Config{Mode: All, Top: 1}, at.now)
	for i := range maxTracked + 1000 {
		m.Count(account(i), Request{Status: 200})
	}
	series := scrape(t, m)["mediastack_account_errors_total"]
	if got := len(accounts(series)); got != maxTracked+1 {
		t.Errorf("%d accounts have a series", got)
	}
	if got := m.tracked.Load(); got != maxTracked {
		t.Errorf("%d accounts are tracked", got)
	}
	// Accounts without requests are forgotten, unless they are members.
	m = metricsOf(t, Config{Mode: Top, Top: 1}, at.now)
	for i := range 100 {
		m.Count(account(i), Request{Status: 200})
	}
	for range 3 {
		at.advance(reviewInterval)
		scrape(t, m)
	}
	if got := m.tracked.Load(); got != 1 {
		t.Errorf("%d accounts are tracked", got)
	}
}

// increase is what Prometheus computes for a series between two scrapes: the first sample of a series
// counts nothing, and a value that is less than the one before is a counter that began again.
func increase(before, after map[string]float64) (sum float64) {
	for labels, value := range after {
		previous, ok := before[labels]
		switch {
		case ok && value < previous:
			sum += value
		case ok:
			sum += value - previous
		}
	}
	return sum
}

// Three accounts, of which two have a series, take turns in being active. Each scrape finds the whole,
// and rates find every request once, also when the members change.
func TestReview_LeavesNoStepInRates(t *testing.T) {
	t.Parallel()
	at := newClock()
	m := metricsOf(t, Config{Mode: Top, Top: 2}, at.now)
	const metric = "mediastack_account_requests_total"
	total, rated, changes := 0.0, 0.0, 0
	count := func(number, requests int) {
		for range requests {
			m.Count(account(number), Request{Status: 200, In: 10})
			total++
		}
	}
	for number := range 3 {
		count(number, 1)
	}
	before, first := scrape(t, m)[metric], total
	ended := map[string]float64{}
	for round := range 60 {
		count(0, 5)
		count(1+round/20%2, 500)
		at.advance(reviewInterval / 2)
		after := scrape(t, m)[metric]
		if got := sum(after); got != total {
			t.Fatalf("round %d: the sum of all series is %v of %v requests", round, got, total)
		}
		for labels, value := range after {
			previous, ok := before[labels]
			if ok && value < previous {
				t.Errorf("round %d: %s went from %v to %v", round, labels, previous, value)
			}
			if !ok && !strings.Contains(labels, "former-") && value != 0 {
				t.Errorf("round %d: %s begins with %v", round, labels, value)
			}
		}
		for labels, value := range before {
			if _, ok := after[labels]; !ok && value > 0 {
				changes++
				ended[labels] = value
			}
		}
		rated += increase(before, after)
		before = after
	}
	if rated != total-first {
		t.Errorf("rates find %v of %v requests", rated, total-first)
	}
	if changes < 2 {
		t.Errorf("%d series ended: the members did not change", changes)
	}
	active := account(2)
	if !accounts(before)[active.ID.String()] && !accounts(before)[account(1).ID.String()] {
		t.Errorf("the most active account has no series: %v", before)
	}
}

// An account that is a little more active than a member does not replace it, so that the members do not
// change with every review.
func TestReview_KeepsMembersOfSimilarActivity(t *testing.T) {
	t.Parallel()
	at := newClock()
	m := metricsOf(t, Config{Mode: Top, Top: 1}, at.now)
	for round := range 20 {
		for range 10 + round%2*5 {
			m.Count(account(1), Request{Status: 200})
		}
		for range 15 - round%2*5 {
			m.Count(account(2), Request{Status: 200})
		}
		at.advance(reviewInterval)
		if got := accounts(scrape(t, m)["mediastack_account_errors_total"]); len(got) != 2 || !got[account(1).ID.String()] {
			t.Fatalf("round %d: %v", round, got)
		}
	}
}

func TestCount_LabelsTheClassesAndTheDirection(t *testing.T) {
	t.Parallel()
	m := metricsOf(t, Config{Mode: Top, Top: 1}, time.Now)
	m.Count(Account{}, Request{Status: 200})
	for _, status := range []int{101, 200, 204, 301, 304, 404, 429, 500, 503, 999} {
		m.Count(account(1), Request{Status: status, Failed: status >= 500, In: 2, Out: 3})
	}
	m.Count(account(1), Request{Status: 200, Failed: true})
	of := "account=" + account(1).ID.String()
	found := scrape(t, m)
	for class, want := range map[string]float64{"2xx": 4, "3xx": 2, "4xx": 2, "5xx": 3} {
		if got := found["mediastack_account_requests_total"][of+" account_name=a account_namespace=team class="+class]; got != want {
			t.Errorf("%s: %v", class, got)
		}
	}
	if in, out := found["mediastack_account_body_bytes_total"][of+" account_name=a account_namespace=team direction=in"], found["mediastack_account_body_bytes_total"][of+" account_name=a account_namespace=team direction=out"]; in != 20 || out != 30 {
		t.Errorf("bytes: %v in, %v out", in, out)
	}
	if got := found["mediastack_account_errors_total"][of+" account_name=a account_namespace=team"]; got != 4 {
		t.Errorf("%v errors", got)
	}
	if got := sum(found["mediastack_account_requests_total"]); got != 11 {
		t.Errorf("%v requests: one without an account counts", got)
	}
}

// BenchmarkCount measures what a request pays, of a member and of an account without a series, on all
// processors at once.
func BenchmarkCount(b *testing.B) {
	for name, of := range map[string]int{"one member": 1, "50 members": 50, "10000 accounts": 10_000} {
		b.Run(name, func(b *testing.B) {
			m := metricsOf(b, Config{Mode: Top, Top: 50}, time.Now)
			tenants := make([]Account, of)
			for i := range tenants {
				tenants[i] = account(i)
			}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					m.Count(tenants[i%of], Request{Status: 200, In: 1, Out: 1})
				}
			})
		})
	}
}
