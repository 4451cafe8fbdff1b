package auth

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/oauth"
)

// scripted is a directory whose answers a test decides. It stands for nothing real:
// the tests of package rest run against PostgreSQL.
type scripted struct {
	find  func(account.Hash) (account.Principal, error)
	calls atomic.Int64

	mu      sync.Mutex
	touched []map[uuid.UUID]time.Time
	fail    error
}

// FindPrincipal answers as scripted.
func (s *scripted) FindPrincipal(_ context.Context, hash account.Hash) (account.Principal, error) {
	s.calls.Add(1)
	return s.find(hash)
}

// FindPrincipalByKeyID answers as scripted.
func (s *scripted) FindPrincipalByKeyID(ctx context.Context, _ uuid.UUID) (account.Principal, error) {
	return s.FindPrincipal(ctx, account.Hash{})
}

// FindSession answers that the principal's token is for this service, until its key ends.
func (s *scripted) FindSession(ctx context.Context, hash account.Hash) (oauth.Session, error) {
	principal, err := s.FindPrincipal(ctx, hash)
	return oauth.Session{Principal: principal, GrantID: uuid.UUID{3}, Scopes: []Scope{ScopeRead}, Resource: "http://media.test/mcp", ExpiresAt: time.Unix(1e9, 0).Add(time.Hour)}, err
}

// FindSessionOfGrant answers as FindSession does for no hash.
func (s *scripted) FindSessionOfGrant(ctx context.Context, _ uuid.UUID) (oauth.Session, error) {
	return s.FindSession(ctx, account.Hash{})
}

// TouchGrants does what TouchKeys does.
func (s *scripted) TouchGrants(ctx context.Context, used map[uuid.UUID]time.Time) error {
	return s.TouchKeys(ctx, used)
}

// TouchKeys remembers, or fails.
func (s *scripted) TouchKeys(_ context.Context, used map[uuid.UUID]time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return s.fail
	}
	s.touched = append(s.touched, maps.Clone(used))
	return nil
}

func holder(hash account.Hash) account.Principal {
	return account.Principal{Account: account.Account{ID: uuid.UUID{1}}, Key: account.Key{ID: uuid.UUID{2}, Hash: hash}}
}

func TestSessionCache_KeepsAKeyUntilItsExpiryOrAChange(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	directory := &scripted{find: func(h account.Hash) (account.Principal, error) { return holder(h), nil }}
	cache := newSessionCache(directory, time.Minute, func() time.Time { return now })
	what := cacheKey{hash: account.Hash{7}}
	asks := func(reason string, want int64) {
		t.Helper()
		before := directory.calls.Load()
		if _, err := cache.get(t.Context(), what); err != nil {
			t.Fatal(err)
		}
		if got := directory.calls.Load() - before; got != want {
			t.Errorf("%s: %d look-ups, want %d", reason, got, want)
		}
	}
	asks("before changes are heard", 1)
	asks("still", 1)
	cache.Connected()
	asks("once they are", 1)
	asks("then it is known", 0)
	now = now.Add(59 * time.Second)
	asks("within its time", 0)
	now = now.Add(time.Second)
	asks("after its time", 1)
	cache.AccountChanged(uuid.UUID{9})
	asks("after another account's change", 0)
	cache.AccountChanged(uuid.UUID{1})
	asks("after its account's change", 1)
	cache.Disconnected()
	asks("when changes are not heard any more", 1)
	asks("still not", 1)
}

func TestSessionCache_KeepsAnUnknownKeyForSeconds(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	missing := fault.New(fault.NotFound, "no such key")
	directory := &scripted{find: func(account.Hash) (account.Principal, error) { return account.Principal{}, missing }}
	cache := newSessionCache(directory, time.Minute, func() time.Time { return now })
	cache.Connected()
	for range 3 {
		if _, err := cache.get(t.Context(), cacheKey{hash: account.Hash{7}}); !fault.Is(err, fault.NotFound) {
			t.Fatal(err)
		}
	}
	if calls := directory.calls.Load(); calls != 1 {
		t.Errorf("%d look-ups", calls)
	}
	directory.find = func(h account.Hash) (account.Principal, error) { return holder(h), nil }
	cache.AccountChanged(uuid.UUID{1})
	if _, err := cache.get(t.Context(), cacheKey{hash: account.Hash{7}}); err != nil {
		t.Errorf("a key that was just made: %v", err)
	}
}

func TestSessionCache_DoesNotKeepAFailure(t *testing.T) {
	t.Parallel()
	directory := &scripted{find: func(account.Hash) (account.Principal, error) {
		return account.Principal{}, fault.New(fault.Unavailable, "down")
	}}
	cache := newSessionCache(directory, time.Minute, time.Now)
	cache.Connected()
	for range 3 {
		if _, err := cache.get(t.Context(), cacheKey{}); !fault.Is(err, fault.Unavailable) {
			t.Fatal(err)
		}
	}
	if calls := directory.calls.Load(); calls != 3 {
		t.Errorf("%d look-ups", calls)
	}
}

// An answer that was read before a change, and arrives after it, must not be kept:
// it would let a revoked key live for the whole of its time.
func TestSessionCache_DoesNotKeepAResultFromBeforeAChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		arrive := make(chan struct{})
		directory := &scripted{find: func(h account.Hash) (account.Principal, error) { <-arrive; return holder(h), nil }}
		cache := newSessionCache(directory, time.Minute, time.Now)
		cache.Connected()
		what := cacheKey{hash: account.Hash{7}}
		done := make(chan error)
		go func() { _, err := cache.get(t.Context(), what); done <- err }()
		synctest.Wait() // the look-up is under way
		cache.AccountChanged(uuid.UUID{1})
		go func() { _, err := cache.get(t.Context(), what); done <- err }()
		synctest.Wait()
		if calls := directory.calls.Load(); calls != 2 {
			t.Errorf("a request after the change joined a look-up from before it: %d look-ups", calls)
		}
		close(arrive)
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		_, _, kept, _ := cache.cached(what)
		if !kept {
			t.Error("the answer from after the change was not kept")
		}
		cache.AccountChanged(uuid.UUID{1})
		if _, _, kept, _ := cache.cached(what); kept {
			t.Error("the answer outlived a change")
		}
	})
}

func TestSessionCache_SharesOneLookUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		arrive := make(chan struct{})
		directory := &scripted{find: func(h account.Hash) (account.Principal, error) { <-arrive; return holder(h), nil }}
		cache := newSessionCache(directory, time.Minute, time.Now)
		done := make(chan error)
		gone, leave := context.WithCancel(t.Context())
		go func() { _, err := cache.get(gone, cacheKey{}); done <- err }()
		synctest.Wait()
		for range 10 {
			go func() { _, err := cache.get(t.Context(), cacheKey{}); done <- err }()
		}
		synctest.Wait()
		leave() // the request that began the look-up must not take the others with it
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the request that left saw %v", err)
		}
		close(arrive)
		for range 10 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if calls := directory.calls.Load(); calls != 1 {
			t.Errorf("%d look-ups", calls)
		}
	})
}

func TestLastUsed_IsFlushedEveryMinuteAndAtTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		directory := &scripted{fail: errors.New("down")}
		uses := newLastUsedRecorder(directory.TouchKeys)
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); uses.run(ctx, slog.New(slog.DiscardHandler)) }()
		first, second := uuid.UUID{1}, uuid.UUID{2}
		at := time.Now()
		uses.record(first, at)
		uses.record(first, at.Add(-time.Hour))
		<-time.After(flushEvery + time.Second) // synctest's clock: the write fails
		directory.mu.Lock()
		directory.fail = nil
		directory.mu.Unlock()
		uses.record(second, at)
		<-time.After(flushEvery)
		synctest.Wait()
		if len(directory.touched) != 1 || len(directory.touched[0]) != 2 || !directory.touched[0][first].Equal(at) {
			t.Errorf("written: %v", directory.touched)
		}
		<-time.After(flushEvery)
		synctest.Wait()
		if len(directory.touched) != 1 {
			t.Error("nothing was written although nothing was used")
		}
		uses.record(first, at.Add(time.Hour))
		end()
		<-ended
		if len(directory.touched) != 2 {
			t.Error("the last uses were not written at the end")
		}
	})
}
