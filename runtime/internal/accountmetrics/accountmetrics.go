// Package accountmetrics counts the requests and bytes of each account of this process, in a bounded
// number of series. Package server counts every request with it.
//
// The accounts that have a series are members. While there is room, an account becomes a member with its
// first request. All others are counted under "other" until the next review, which replaces members by
// accounts that were more active. The counts of an account stay in its series: what was counted under
// "other" before is not moved, and when the account leaves, its series ends and its counts are added to
// the series "former-<time>", which is a new one whenever it changes. So each series only grows, the sum
// of all is the whole, and rate() sees no step.
package accountmetrics

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// Mode selects the accounts that have series of their own.
type Mode string

// The modes.
const (
	Off Mode = "off" // none, and nothing is counted
	Top Mode = "top" // the most active accounts
	All Mode = "all" // every account, up to maxTracked
)

// Config configures the metrics. The tags are flag and environment names.
type Config struct {
	Mode Mode `name:"account-metrics" env:"SERVICE_ACCOUNT_METRICS" enum:"off,top,all" default:"top" help:"Which accounts have metrics of their own: off = none, top = the SERVICE_ACCOUNT_METRICS_TOP most active ones, all = every account."`
	Top  int  `name:"account-metrics-top" env:"SERVICE_ACCOUNT_METRICS_TOP" default:"50" help:"Number of accounts with metrics of their own, from 1 to 1000; the others are counted together."`
}

// maxTop bounds Config.Top.
const maxTop = 1000

// Validate checks the bounds.
func (c Config) Validate() error {
	switch {
	case c.Mode != Off && c.Mode != Top && c.Mode != All:
		return fmt.Errorf("SERVICE_ACCOUNT_METRICS must be off, top or all, not %q", c.Mode)
	case c.Top < 1 || c.Top > maxTop:
		return fmt.Errorf("SERVICE_ACCOUNT_METRICS_TOP must be from 1 to %d, not %d", maxTop, c.Top)
	}
	return nil
}

// Limit returns how many accounts have series of their own.
func (c Config) Limit() int {
	switch c.Mode {
	case Off:
		return 0
	case All:
		return maxTracked
	case Top:
	}
	return c.Top
}

const (
	// maxTracked bounds the accounts whose activity is known. Others are counted under "other" until
	// accounts without requests are forgotten.
	maxTracked = 20_000
	// reviewInterval is the least time between two reviews. A scrape begins a review that is due.
	// The series of a member that leaves is exported unchanged for this time, so that every scraper
	// has its last value.
	reviewInterval = 5 * time.Minute
	// hysteresis is how many times more active than a member an account must be to replace it.
	hysteresis = 2
)

// Account is the account that a request counts towards. The zero Account is none.
type Account struct {
	ID              uuid.UUID
	Namespace, Name string
}

// Request is what is counted of a request.
type Request struct {
	Status  int
	Failed  bool // the service failed, whatever the status is: that of a tool call is 200
	In, Out int64
}

// counts are the counters of one series of each metric. They are updated with one addition each, without
// a lock.
type counts struct {
	classes [classes]atomic.Uint64
	errors  atomic.Uint64
	in, out atomic.Uint64
}

// classes is the number of status classes: 2xx to 5xx.
const classes = 4

func (c *counts) count(r Request) {
	c.classes[min(max(r.Status/100-2, 0), classes-1)].Add(1)
	if r.Failed {
		c.errors.Add(1)
	}
	c.in.Add(uint64(max(0, r.In)))
	c.out.Add(uint64(max(0, r.Out)))
}

func (c *counts) add(of *counts) {
	for i := range c.classes {
		c.classes[i].Add(of.classes[i].Load())
	}
	c.errors.Add(of.errors.Load())
	c.in.Add(of.in.Load())
	c.out.Add(of.out.Load())
}

// entry is an account whose activity is known.
type entry struct {
	account Account
	member  atomic.Bool // requests count in the series
	active  atomic.Uint64
	series  counts

	// Used by reviews only.
	leaving bool    // the series is exported unchanged until the next review
	score   float64 // requests of the last interval, and half of the score before it
}

// Metrics counts requests. It is safe for concurrent use; a nil Metrics counts nothing.
type Metrics struct {
	limit int64 // members
	now   func() time.Time

	entries sync.Map // of *entry, by uuid.UUID
	tracked atomic.Int64
	members atomic.Int64 // including those that leave
	other   counts

	reviewing sync.Mutex
	reviewed  time.Time
	former    counts    // of accounts that have left
	formerAt  time.Time // when former changed; zero = nobody has left
}

// New returns Metrics, nil in the mode Off.
func New(cfg Config, now func() time.Time) (*Metrics, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Mode == Off {
		return nil, nil //nolint:nilnil // a nil Metrics counts nothing
	}
	return &Metrics{limit: int64(cfg.Limit()), now: now, reviewed: now()}, nil
}

// Count counts a request of an account.
func (m *Metrics) Count(account Account, request Request) {
	if m == nil || account.ID == uuid.Nil {
		return
	}
	series := &m.other
	if e := m.entry(account); e != nil {
		e.active.Add(1)
		if e.member.Load() {
			series = &e.series
		}
	}
	series.count(request)
}

// entry returns the entry of an account, nil if no more are tracked.
func (m *Metrics) entry(account Account) *entry {
	if known, ok := m.entries.Load(account.ID); ok {
		return known.(*entry) //nolint:forcetypeassert // the map has no other type
	}
	if !acquire(&m.tracked, maxTracked) {
		return nil
	}
	created := &entry{account: account}
	created.member.Store(acquire(&m.members, m.limit))
	known, exists := m.entries.LoadOrStore(account.ID, created)
	if exists {
		m.tracked.Add(-1)
		if created.member.Load() {
			m.members.Add(-1)
		}
	}
	return known.(*entry) //nolint:forcetypeassert // the map has no other type
}

// acquire increments n unless it has reached limit.
func acquire(n *atomic.Int64, limit int64) bool {
	for {
		current := n.Load()
		if current >= limit {
			return false
		}
		if n.CompareAndSwap(current, current+1) {
			return true
		}
	}
}
