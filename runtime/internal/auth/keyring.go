package auth

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/singleflight"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/lru"
	"mediastack.dev/runtime/oauth"
)

// Bounds of the keyring, in entries and in time.
const (
	keyringLimit = 10_000
	// unknownTTL is short, and there is a limit of its own, so that made-up keys
	// neither push good ones out nor hide a key that was just made.
	unknownTTL = 5 * time.Second
	// loadTimeout bounds one look-up, which serves every request that waits for it.
	loadTimeout = 10 * time.Second
)

// lookup names a credential: a key by its hash or its id, a login by the hash of its access
// token or the id of its grant.
type lookup struct {
	hash  account.Hash
	id    uuid.UUID // set when hash is not
	token bool      // it is a login
}

// known is a remembered answer of the directory.
type known struct {
	session oauth.Session
	until   time.Time
}

// keyring remembers between requests who credentials stand for: a key is the session of
// its app. Whatever it holds of an account is
// dropped when the database says that the account changed, and it remembers nothing
// while nobody would tell it. It is safe for concurrent use.
type keyring struct {
	directory Directory
	ttl       time.Duration
	now       func() time.Time
	flights   singleflight.Group

	mu      sync.Mutex
	told    bool   // changes reach us
	epoch   uint64 // raised by every change: an answer from before it is not kept
	found   *lru.Map[lookup, known]
	unknown *lru.Map[lookup, time.Time] // until when
	// good are those that the directory had when it was asked last. They permit a
	// look-up and never stand for one: that is why neither time nor changes end them.
	// Only what the directory has gets in, so strangers can't push anything out.
	good *lru.Map[lookup, struct{}]
}

func newKeyring(directory Directory, ttl time.Duration, now func() time.Time) *keyring {
	return &keyring{directory: directory, ttl: ttl, now: now,
		found: lru.New[lookup, known](keyringLimit), unknown: lru.New[lookup, time.Time](keyringLimit),
		good: lru.New[lookup, struct{}](keyringLimit)}
}

// find returns the session; NotFound when the directory has none.
func (k *keyring) find(ctx context.Context, what lookup) (oauth.Session, error) {
	session, epoch, ok, err := k.recall(what)
	if ok || err != nil {
		return session, err
	}
	// Requests share one look-up, but never one that began before a change.
	flight := k.flights.DoChan(fmt.Sprintf("%d %x %s %t", epoch, what.hash, what.id, what.token), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTimeout)
		defer cancel()
		return k.load(ctx, what, epoch)
	})
	select {
	case <-ctx.Done():
		return oauth.Session{}, fault.Wrap(ctx.Err(), fault.Unavailable, "the request ended before its key was looked up")
	case result := <-flight:
		session, _ = result.Val.(oauth.Session)
		return session, result.Err
	}
}

// reload returns the session as the directory has it now, and caches it. It does not share
// the look-up of another request: that one may have begun before a change which is
// committed, and whose notification has not arrived.
func (k *keyring) reload(ctx context.Context, what lookup) (oauth.Session, error) {
	k.mu.Lock()
	epoch := k.epoch
	k.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTimeout)
	defer cancel()
	return k.load(ctx, what, epoch)
}

// recall returns what is remembered, and the epoch for a look-up when nothing is.
func (k *keyring) recall(what lookup) (oauth.Session, uint64, bool, error) {
	now := k.now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if entry, ok := k.found.Get(what); ok && now.Before(entry.until) {
		return entry.session, k.epoch, true, nil
	}
	if until, ok := k.unknown.Get(what); ok && now.Before(until) {
		return oauth.Session{}, k.epoch, false, fault.New(fault.NotFound, "no such key")
	}
	return oauth.Session{}, k.epoch, false, nil
}

// wasGood reports whether the last answer about a key was good, however long ago. It
// says nothing about now.
func (k *keyring) wasGood(what lookup) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.good.Get(what)
	return ok
}

func (k *keyring) load(ctx context.Context, what lookup, epoch uint64) (oauth.Session, error) {
	var session oauth.Session
	var err error
	switch {
	case what.token && what.id != uuid.Nil:
		session, err = k.directory.FindSessionOfGrant(ctx, what.id)
	case what.token:
		session, err = k.directory.FindSession(ctx, what.hash)
	case what.id != uuid.Nil:
		session.Principal, err = k.directory.FindPrincipalByKeyID(ctx, what.id)
	default:
		session.Principal, err = k.directory.FindPrincipal(ctx, what.hash)
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		return oauth.Session{}, err
	}
	now := k.now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil && !ended(session, now) {
		k.good.Put(what, struct{}{})
	} else {
		k.good.Delete(what)
	}
	switch {
	case !k.told || k.epoch != epoch:
		// The answer may be older than a change that we were, or were not, told of.
	case err != nil:
		k.unknown.Put(what, now.Add(unknownTTL))
	default:
		k.found.Put(what, known{session: session, until: now.Add(k.ttl)})
	}
	return session, err
}

// lost is called when changes no longer reach us. It tells whether they did before.
func (k *keyring) lost() bool { return k.reset(false) }

// reset forgets all answers, and gives whether changes reached us before.
func (k *keyring) reset(told bool) (before bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before, k.told = k.told, told
	k.epoch++
	k.found.Clear()
	k.unknown.Clear()
	return before
}

// changed is called when an account, its apps or its keys changed.
func (k *keyring) changed(accountID uuid.UUID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.epoch++
	k.found.DeleteFunc(func(entry known) bool { return entry.session.Account.ID == accountID })
	k.unknown.Clear()
}
