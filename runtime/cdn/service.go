package cdn

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/work"
)

// PurgeWork is the kind of the task that sends purges. There is one at a time, and others while its process may be dead.
const PurgeWork work.Kind = "cdn_purge"

const (
	// checkInterval is how often a process looks for purges.
	checkInterval = 250 * time.Millisecond
	// keepInterval is how often a process records that it has a purger, and measureInterval, how often it reads how many purges wait.
	keepInterval    = time.Minute
	measureInterval = 10 * time.Second
	// RepeatPause is after how long a purge is sent a second time. What a replica has begun to answer before the first one is at the CDN by then:
	// see MaxAnswerDelay.
	RepeatPause = 5 * time.Second
	// MaxAnswerDelay is the time from the look-up of a file until the header of the answer, after which a CDN must not keep the answer: it may tell
	// what was before, and arrive after both purges.
	MaxAnswerDelay = 2 * time.Second
	// concurrency is how many requests are sent at once.
	concurrency = 4
	// turn is how long the task runs before it is claimed again, and attemptTimeout bounds one that waits for the CDN.
	turn = 2 * time.Second
	// stalledAfter is how long a claim of the task lasts until another one is added: its process may be dead, or the CDN slow. What is sent by both
	// is sent twice, which does no harm.
	stalledAfter   = 4 * time.Second
	attemptTimeout = time.Minute
	minBackoff     = 500 * time.Millisecond
	maxBackoff     = 10 * time.Second
	maxRetryAfter  = time.Minute
)

// Deps are the dependencies of a Service.
type Deps struct {
	Store  Store
	Purger Purger
	// Ready returns an error while nothing may be sent, as by a copied database; nil = it always may.
	Ready func() error
	Now   func() time.Time
	Log   *slog.Logger
	// Registry takes the metrics; nil = none are registered.
	Registry prometheus.Registerer
}

// Service names the tags of files, and is the worker that sends purges. It is safe for concurrent use.
type Service struct {
	deps    Deps
	metrics metrics
	tags    atomic.Pointer[Tags] // nil until the purger is recorded

	mu             sync.Mutex
	kept, measured time.Time
}

// New returns a Service that uses deps.
func New(deps Deps) (*Service, error) {
	metrics, err := newMetrics(deps.Registry)
	if err != nil {
		return nil, err
	}
	return &Service{deps: deps, metrics: metrics}, nil
}

// Tags returns the tags of a file of an item, at most four, with that of a preset unless it is empty. It returns none until purges are queued: a CDN
// must not keep the file.
func (s *Service) Tags(item media.Item, preset string) []string {
	tags := s.tags.Load()
	if tags == nil {
		return nil
	}
	all := append(make([]string, 0, 4), tags.Item(item.ID), tags.Account(item.AccountID))
	if item.Group != "" {
		all = append(all, tags.Group(item.AppID, item.Group))
	}
	if preset != "" {
		all = append(all, tags.Preset(item.AccountID, preset))
	}
	return all
}

// Policy returns how the task of PurgeWork runs.
func (s *Service) Policy() work.Policy {
	return work.Policy{Slots: 1, Timeout: attemptTimeout, Leased: true, CheckInterval: checkInterval, MinBackoff: minBackoff, MaxBackoff: maxBackoff, Ready: s.deps.Ready, Enqueue: s.Enqueue}
}

// Enqueue adds the task if purges are due. It also records the purger, and measures the queue, at intervals.
func (s *Service) Enqueue(ctx context.Context) (int, error) {
	if s.due(&s.kept, keepInterval) {
		installation, err := s.deps.Store.KeepPurger(ctx)
		if err != nil {
			s.again(&s.kept)
			return 0, err
		}
		s.tags.Store(NewTags(installation))
	}
	if s.due(&s.measured, measureInterval) {
		purges, oldest, err := s.deps.Store.WaitingCDNPurges(ctx)
		if err != nil {
			return 0, err
		}
		s.metrics.waiting.Set(float64(purges))
		s.metrics.oldest.Set(oldest.Seconds())
	}
	return s.deps.Store.EnqueueCDNPurges(ctx, attemptTimeout+work.ClaimMargin-stalledAfter)
}

// due reports whether an interval is over since it last did.
func (s *Service) due(last *time.Time, interval time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.deps.Now()
	if !last.IsZero() && now.Sub(*last) < interval {
		return false
	}
	*last = now
	return true
}

// again makes what due has reported due at once.
func (s *Service) again(last *time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*last = time.Time{}
}

// Work sends purges until none is due. It is the worker of PurgeWork.
func (s *Service) Work(ctx context.Context, task work.Task) error {
	for began := s.deps.Now(); ; {
		purges, err := s.deps.Store.DueCDNPurges(ctx, concurrency*MaxTags)
		switch {
		case err != nil:
			return err
		case len(purges) == 0:
			return nil
		case s.deps.Now().Sub(began) > turn:
			return work.Snooze(0)
		}
		if err := s.send(ctx, purges); err != nil {
			return retry(task.Attempt, err)
		}
	}
}

// retryAfter is implemented by the error of a CDN that says when to try again.
type retryAfter interface{ RetryAfter() time.Duration }

// retry returns the error of an attempt that failed, with the time that the CDN asked for.
func retry(attempt int, err error) error {
	var asked retryAfter
	if !errors.As(err, &asked) || asked.RetryAfter() <= 0 {
		return err
	}
	return work.Retry(max(min(asked.RetryAfter(), maxRetryAfter), minBackoff*time.Duration(attempt)), 0, err)
}

// send sends purges, and records those that were. The replicas have to forget what was before first: a CDN would ask them again.
func (s *Service) send(ctx context.Context, purges []Purge) error {
	tags := s.tags.Load()
	if tags == nil {
		return errors.New("the id of the installation is not read yet")
	}
	if err := s.deps.Store.AwaitItemCaches(ctx); err != nil {
		return err
	}
	var (
		sending sync.WaitGroup
		mu      sync.Mutex
		failure error
	)
	for _, batch := range batches(purges, tags) {
		sending.Go(func() {
			err := s.deps.Purger.Purge(ctx, batch.tags)
			if err == nil {
				err = s.deps.Store.CDNPurgesSent(ctx, batch.purges, RepeatPause)
			}
			s.metrics.count(len(batch.tags), err)
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				failure = err
			}
		})
	}
	sending.Wait()
	return failure
}

// batch is what one request purges. purges are those that it carries out.
type batch struct {
	tags   []string
	purges []Purge
}

// batches distributes purges to requests. Those of one tag are one.
func batches(purges []Purge, tags *Tags) []batch {
	var all []batch
	of := map[string]int{}
	for _, p := range purges {
		tag := tags.of(p)
		at, known := of[tag]
		if !known {
			if len(all) == 0 || len(all[len(all)-1].tags) == MaxTags {
				all = append(all, batch{})
			}
			at = len(all) - 1
			of[tag] = at
			all[at].tags = append(all[at].tags, tag)
		}
		all[at].purges = append(all[at].purges, p)
	}
	return all
}

var _ work.Worker = (*Service)(nil)
