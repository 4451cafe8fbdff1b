package handover

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fairlimit"
	"mediastack.dev/runtime/purge"
)

const (
	// MaxWait is how long a caller waits for the file at most. It is shorter than the timeouts of proxies and of MCP clients.
	MaxWait = 20 * time.Second
	// maxWaiting is how many callers of one account wait in a process. More get their answer at once.
	maxWaiting = 16
	// A caller that waits looks again after a time from minPause to maxPause, so those that began together do not stay together.
	minPause = 800 * time.Millisecond
	maxPause = 1200 * time.Millisecond
)

// Deps are the dependencies of a Service.
type Deps struct {
	Store Store
	// Drained is done once the process takes no new requests: nobody waits then. nil = never.
	Drained <-chan struct{}
	Now     func() time.Time
}

// Service implements the use cases of requests. It is safe for concurrent use.
type Service struct {
	cfg     Config
	deps    Deps
	waiting *fairlimit.Limiter[uuid.UUID]
}

// New returns a Service that uses deps.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Service{cfg: cfg, deps: deps, waiting: fairlimit.New[uuid.UUID](fairlimit.Config{Limit: fairlimit.Unlimited, PerKey: maxWaiting})}, nil
}

// TTL returns how long a person can begin to hand over a file.
func (s *Service) TTL() time.Duration { return s.cfg.TTL }

// Create records a request, which package auth has made.
func (s *Service) Create(ctx context.Context, request Request) error {
	return s.deps.Store.CreateRequest(ctx, request, MaxOpen)
}

// Of returns the request whose page has the token.
func (s *Service) Of(ctx context.Context, token Token) (Found, error) {
	id, err := s.deps.Store.RequestOf(ctx, token.Capability())
	if err != nil {
		return Found{}, err
	}
	return s.find(ctx, id)
}

// Get returns a request of a connection. NotFound for those of all others.
func (s *Service) Get(ctx context.Context, p account.Principal, connection string, id uuid.UUID) (Found, error) {
	found, err := s.find(ctx, id)
	if err == nil && (found.AccountID != p.Account.ID || found.AppID != p.App.ID || found.Connection() != connection) {
		err = ErrNotFound
	}
	if err != nil {
		return Found{}, err
	}
	return found, nil
}

// Await is Get, but waits for the file up to MaxWait. waited is how long it has.
func (s *Service) Await(ctx context.Context, p account.Principal, connection string, id uuid.UUID) (found Found, waited time.Duration, err error) {
	found, err = s.Get(ctx, p, connection, id)
	if err != nil || found.State.Final() || s.waiting.TryAcquire(p.Account.ID) != nil {
		return found, 0, err
	}
	defer s.waiting.Release(p.Account.ID)
	began := time.Now()
	for until := began.Add(MaxWait); err == nil && !found.State.Final() && time.Now().Before(until); {
		pause := time.NewTimer(min(time.Until(until), minPause+rand.N(maxPause-minPause)))
		select {
		case <-pause.C:
		case <-s.deps.Drained:
			pause.Stop()
			return found, time.Since(began), nil
		case <-ctx.Done():
			pause.Stop()
			return Found{}, time.Since(began), ctx.Err()
		}
		found, err = s.Get(ctx, p, connection, id)
	}
	return found, time.Since(began), err
}

func (s *Service) find(ctx context.Context, id uuid.UUID) (Found, error) {
	found, err := s.deps.Store.FindRequest(ctx, id)
	if err == nil && found.State == Waiting && !s.deps.Now().Before(found.Capability.ExpiresAt) {
		found.State = Expired
	}
	return found, err
}

// Purge deletes the requests that have expired for longer than Retention, and returns how many.
func Purge(ctx context.Context, store PurgeStore, batches purge.Batches, now time.Time) (ended int, err error) {
	return batches.Each(ctx, func(ctx context.Context, size int) (int, error) {
		return store.ExpireRequests(ctx, now.Add(-Retention), size)
	})
}
