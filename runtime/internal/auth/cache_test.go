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
	"mediastack.dev/runtime/cell"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/oauth"
)

// scriptedStore is a store whose results the test sets, for what PostgreSQL cannot be made to
// return. The tests of package rest use PostgreSQL.
type scriptedStore struct {
	find  func(account.Hash) (account.Principal, error)
	calls atomic.Int64

	mu      sync.Mutex
	touched []map[uuid.UUID]account.Use
	fail    error
}

// Cell answers as a single installation.
func (s *scriptedStore) Cell() cell.Number { return 0 }

// FindPrincipal answers as scriptedStore.
func (s *scriptedStore) FindPrincipal(_ context.Context, hash account.Hash) (account.Principal, error) {
	s.calls.Add(1)
	return s.find(hash)
}

// FindPrincipalByKeyID answers as scriptedStore.
func (s *scriptedStore) FindPrincipalByKeyID(ctx context.Context, _ uuid.UUID) (account.Principal, error) {
	return s.FindPrincipal(ctx, account.Hash{})
}

// FindSession answers that the principal's token is for this service, until its key ends.
func (s *scriptedStore) FindSession(ctx context.Context, hash account.Hash) (oauth.Session, error) {
	principal, err := s.FindPrincipal(ctx, hash)
	return oauth.Session{Principal: principal, GrantID: uuid.UUID{3}, Scopes: []Scope{ScopeRead}, Resource: "http://media.test/mcp", ExpiresAt: time.Unix(1e9, 0).Add(time.Hour)}, err
}

// FindSessionOfGrant answers as FindSession does for no hash.
func (s *scriptedStore) FindSessionOfGrant(ctx context.Context, _ uuid.UUID) (oauth.Session, error) {
	return s.FindSession(ctx, account.Hash{})
}

// TouchGrants does what TouchKeys does.
func (s *scriptedStore) TouchGrants(ctx context.Context, used map[uuid.UUID]account.Use) error {
	return s.TouchKeys(ctx, used)
}

// TouchKeys records the call, or fails.
func (s *scriptedStore) TouchKeys(_ context.Context, used map[uuid.UUID]account.Use) error {
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
	store := &scriptedStore{find: func(h account.Hash) (account.Principal, error) { return holder(h), nil }}
	cache := newSessionCache(store, time.Minute, func() time.Time { return now })
	key := cacheKey{hash: account.Hash{7}}
	asks := func(reason string, want int64) {
		t.Helper()
		before := store.calls.Load()
		if _, err := cache.get(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		if got := store.calls.Load() - before; got != want {
			t.Errorf("%s: %d look-ups, want %d", reason, got, want)
		}
	}
	asks("before notifications are connected", 1)
	asks("still not connected", 1)
	cache.Connected()
	asks("once they are connected", 1)
	asks("then it is cached", 0)
	now = now.Add(59 * time.Second)
	asks("within its TTL", 0)
	now = now.Add(time.Second)
	asks("after its TTL", 1)
	cache.AccountChanged(uuid.UUID{9})
	asks("after another account's change", 0)
	cache.AccountChanged(uuid.UUID{1})
	asks("after its account's change", 1)
	cache.Disconnected()
	asks("when notifications are disconnected", 1)
	asks("still disconnected", 1)
}

func TestSessionCache_KeepsAnUnknownKeyForSeconds(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	missing := fault.New(fault.NotFound, "no such key")
	store := &scriptedStore{find: func(account.Hash) (account.Principal, error) { return account.Principal{}, missing }}
	cache := newSessionCache(store, time.Minute, func() time.Time { return now })
	cache.Connected()
	for range 3 {
		if _, err := cache.get(t.Context(), cacheKey{hash: account.Hash{7}}); !fault.Is(err, fault.NotFound) {
			t.Fatal(err)
		}
	}
	if calls := store.calls.Load(); calls != 1 {
		t.Errorf("%d look-ups", calls)
	}
	store.find = func(h account.Hash) (account.Principal, error) { return holder(h), nil }
	cache.AccountChanged(uuid.UUID{1})
	if _, err := cache.get(t.Context(), cacheKey{hash: account.Hash{7}}); err != nil {
		t.Errorf("a key that was just created: %v", err)
	}
}

func TestSessionCache_DoesNotKeepAFailure(t *testing.T) {
	t.Parallel()
	store := &scriptedStore{find: func(account.Hash) (account.Principal, error) {
		return account.Principal{}, fault.New(fault.Unavailable, "down")
	}}
	cache := newSessionCache(store, time.Minute, time.Now)
	cache.Connected()
	for range 3 {
		if _, err := cache.get(t.Context(), cacheKey{}); !fault.Is(err, fault.Unavailable) {
			t.Fatal(err)
		}
	}
	if calls := store.calls.Load(); calls != 3 {
		t.Errorf("%d look-ups", calls)
	}
}

// A result that was read before a change and arrives after it must not be cached: a revoked key
// would be accepted for the whole TTL.
func TestSessionCache_DoesNotKeepAResultFromBeforeAChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var began atomic.Int64
		proceed := []chan struct{}{make(chan struct{}), make(chan struct{})}
		store := &scriptedStore{find: func(h account.Hash) (account.Principal, error) { <-proceed[began.Add(1)-1]; return holder(h), nil }}
		cache := newSessionCache(store, time.Minute, time.Now)
		cache.Connected()
		key := cacheKey{hash: account.Hash{7}}
		done := make(chan error)
		go func() { _, err := cache.get(t.Context(), key); done <- err }()
		synctest.Wait() // the look-up is under way
		cache.AccountChanged(uuid.UUID{1})
		go func() { _, err := cache.get(t.Context(), key); done <- err }()
		synctest.Wait()
		if calls := store.calls.Load(); calls != 2 {
			t.Errorf("a request after the change joined a look-up from before it: %d look-ups", calls)
		}
		for i, after := range []bool{false, true} {
			close(proceed[i])
			if err := <-done; err != nil {
				t.Error(err)
			}
			if _, _, kept, _ := cache.cached(key); kept != after {
				t.Errorf("look-up %d is cached: %t", i, kept)
			}
		}
		cache.AccountChanged(uuid.UUID{1})
		if _, _, kept, _ := cache.cached(key); kept {
			t.Error("the result is cached after a change")
		}
	})
}

func TestSessionCache_SharesOneLookUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		proceed := make(chan struct{})
		store := &scriptedStore{find: func(h account.Hash) (account.Principal, error) { <-proceed; return holder(h), nil }}
		cache := newSessionCache(store, time.Minute, time.Now)
		done := make(chan error)
		gone, leave := context.WithCancel(t.Context())
		go func() { _, err := cache.get(gone, cacheKey{}); done <- err }()
		synctest.Wait()
		for range 10 {
			go func() { _, err := cache.get(t.Context(), cacheKey{}); done <- err }()
		}
		synctest.Wait()
		leave() // the end of the request that started the look-up must not end the others
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the canceled request returned %v", err)
		}
		close(proceed)
		for range 10 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if calls := store.calls.Load(); calls != 1 {
			t.Errorf("%d look-ups", calls)
		}
	})
}

func TestLastUsed_IsFlushedEveryMinuteAndAtTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &scriptedStore{fail: errors.New("down")}
		uses := newLastUsedRecorder(store.TouchKeys)
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); uses.run(ctx, slog.New(slog.DiscardHandler)) }()
		first, second := uuid.UUID{1}, uuid.UUID{2}
		at := time.Now()
		uses.record(first, at)
		uses.record(first, at.Add(-time.Hour))
		<-time.After(flushEvery + time.Second) //nolint:forbidigo // the clock of synctest; the write fails
		store.mu.Lock()
		store.fail = nil
		store.mu.Unlock()
		uses.record(first, at.Add(-time.Minute)) // counts with those of the batch that could not be written
		uses.record(second, at)
		<-time.After(flushEvery) //nolint:forbidigo // the clock of synctest
		synctest.Wait()
		if len(store.touched) != 1 || len(store.touched[0]) != 2 || !store.touched[0][first].At.Equal(at) || store.touched[0][first].Requests != 3 || store.touched[0][second].Requests != 1 {
			t.Errorf("written: %v", store.touched)
		}
		<-time.After(flushEvery) //nolint:forbidigo // the clock of synctest
		synctest.Wait()
		if len(store.touched) != 1 {
			t.Error("nothing was written although nothing was used")
		}
		uses.record(first, at.Add(time.Hour))
		end()
		<-ended
		if len(store.touched) != 2 {
			t.Error("the last uses were not written at the end")
		}
	})
}
