package postgres_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/postgres"
	"mediastack.dev/runtime/purge"
)

// keyEnv is an account with its Default App.
type keyEnv struct {
	*account.Registry
	t     *testing.T
	store *postgres.Store
	url   string
	id    uuid.UUID
	app   account.App
}

func newKeyEnv(t *testing.T) *keyEnv {
	t.Helper()
	store, url := setup(t)
	e := &keyEnv{Registry: registry(store), t: t, store: store, url: url}
	a, err := e.Ensure(t.Context(), spec)
	must(t, err)
	apps, _, err := e.OpenApps(t.Context(), a.ID, nil)
	must(t, err)
	e.id, e.app = a.ID, apps[0]
	return e
}

// issue adds and delivers a key.
func (e *keyEnv) issue(overlap time.Duration) account.KeySecret {
	e.t.Helper()
	token, _, err := e.IssueKey(e.t.Context(), e.app.ID, 1, overlap)
	must(e.t, err)
	return token
}

// add adds a pending key.
func (e *keyEnv) add(overlap time.Duration) (account.KeySecret, account.Key) {
	e.t.Helper()
	token, key, err := e.AddKey(e.t.Context(), account.KeyRequest{AppID: e.app.ID, Generation: 1, ObjectUID: "uid", Overlap: overlap})
	must(e.t, err)
	return token, key
}

// proof returns the proof of a valid key.
func (e *keyEnv) proof(token account.KeySecret) string {
	e.t.Helper()
	keys, err := e.Keys(e.t.Context(), e.id)
	must(e.t, err)
	for _, key := range keys.Apps[e.app.ID].Valid {
		if key.Hash.Equal(token.Hash()) {
			return keys.ProofKey.Sign(e.id, e.app.Name, key)
		}
	}
	e.t.Fatal("the key is not valid")
	return ""
}

// accept applies a Secret with a key and its proof again.
func (e *keyEnv) accept(token account.KeySecret, proof string) bool {
	e.t.Helper()
	keys, err := e.Keys(e.t.Context(), e.id)
	must(e.t, err)
	accepted, err := e.AcceptKey(e.t.Context(), keys, e.app, token, proof, account.KeyRequest{ObjectUID: "uid", Overlap: time.Hour})
	must(e.t, err)
	return accepted
}

// valid reports whether the runtime accepts the key, and until when.
func (e *keyEnv) valid(token account.KeySecret) (bool, *time.Time) {
	e.t.Helper()
	principal, err := e.store.Credentials.FindPrincipal(e.t.Context(), token.Hash())
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	must(e.t, err)
	return true, principal.Key.ExpiresAt
}

func (e *keyEnv) rows() int64 { return number(e.t, e.url, `SELECT count(*) FROM api_key`) }

// close closes the account.
func (e *keyEnv) close() {
	e.t.Helper()
	_, err := e.Close(e.t.Context(), e.id, account.CloseOptions{})
	must(e.t, err)
}

// reopen opens the closed account, as a restore does.
func (e *keyEnv) reopen() {
	e.t.Helper()
	number(e.t, e.url, `WITH opened AS (UPDATE account SET closed_at = NULL WHERE id = $1 RETURNING 1) SELECT count(*) FROM opened`, e.id)
}

// forget makes the database as it was before a key was issued, as a restore does.
func (e *keyEnv) forget(sequence int64) {
	e.t.Helper()
	number(e.t, e.url, `WITH lost AS (DELETE FROM api_key WHERE sequence > $1), back AS (UPDATE app SET key_sequence = $1),
		valid AS (UPDATE api_key SET expires_at = NULL WHERE sequence = $1 RETURNING 1) SELECT count(*) FROM valid`, sequence)
}

// A key that no Secret holds must not end the one that clients use, however often it is replaced.
func TestKey_PendingEndsNoOther(t *testing.T) {
	t.Parallel()
	e := newKeyEnv(t)
	working := e.issue(0)
	var last account.KeySecret
	var pending account.Key
	for range 50 {
		before := last
		last, pending = e.add(0)
		if ok, ends := e.valid(working); !ok || ends != nil {
			t.Fatal("the delivered key ended before a Secret held the next one")
		}
		if ok, _ := e.valid(before); ok {
			t.Fatal("a key that was replaced before its delivery is valid")
		}
		if ok, _ := e.valid(last); !ok {
			t.Fatal("the pending key is not valid: its Secret may be read before the delivery is recorded")
		}
	}
	if n := e.rows(); n != 2 {
		t.Errorf("there are %d rows, want the delivered and the pending key", n)
	}
	must(t, e.DeliverKey(t.Context(), pending, "uid"))
	must(t, e.DeliverKey(t.Context(), pending, "uid"))
	if ok, _ := e.valid(working); ok {
		t.Error("the old key is valid after the delivery without overlap")
	}
}

func TestKey_ReplacedIsNotDelivered(t *testing.T) {
	t.Parallel()
	e := newKeyEnv(t)
	working := e.issue(0)
	_, lost := e.add(0)
	e.add(0)
	if err := e.DeliverKey(t.Context(), lost, "uid"); !errors.Is(err, account.ErrKeysChanged) {
		t.Errorf("the delivery of a replaced key: %v", err)
	}
	if ok, ends := e.valid(working); !ok || ends != nil {
		t.Error("the delivery of a replaced key ended the working one")
	}
}

func TestKey_OnlyFirstPendingKeysAreDeliveredTogether(t *testing.T) {
	t.Parallel()
	e := newKeyEnv(t)
	deliver := func(key account.Key, want int) {
		t.Helper()
		ids, err := e.DeliverFirstKeys(t.Context(), []account.Key{key}, "uid")
		if err != nil || len(ids) != want || want == 1 && ids[0] != key.ID {
			t.Errorf("delivered %v, %v; want %d", ids, err, want)
		}
	}
	first, key := e.add(0)
	other := key
	other.Hash[0]++
	deliver(other, 0) // another caller replaced it meanwhile
	deliver(key, 1)
	deliver(key, 0)
	if ok, ends := e.valid(first); !ok || ends != nil {
		t.Error("the delivered key is not valid")
	}
	_, second := e.add(0)
	deliver(second, 0) // its delivery ends the first one
	must(t, e.DeliverKey(t.Context(), second, "uid"))
	if ok, _ := e.valid(first); ok {
		t.Error("the first key is valid after the delivery of the second")
	}
}

// A replica that was paused delivers a key after a newer one was accepted.
func TestKey_LateDeliveryEndsOlderKeysOnly(t *testing.T) {
	t.Parallel()
	e := newKeyEnv(t)
	e.issue(0)
	e.issue(0)
	newer := e.issue(0)
	proof := e.proof(newer)
	e.forget(1)
	_, late := e.add(0)
	if !e.accept(newer, proof) {
		t.Fatal("the newer key is not accepted")
	}
	must(t, e.DeliverKey(t.Context(), late, "uid"))
	if ok, ends := e.valid(newer); !ok || ends != nil {
		t.Error("the late delivery ended the newer key")
	}
	e.issue(0)
	if err := e.DeliverKey(t.Context(), late, "uid"); !errors.Is(err, account.ErrKeysChanged) {
		t.Errorf("the delivery of a key that has ended: %v", err)
	}
}

// The overlap is stored with the pending key: a revocation that was interrupted stays one.
func TestKey_InterruptedRevocationStaysOne(t *testing.T) {
	t.Parallel()
	e := newKeyEnv(t)
	leaked := e.issue(0)
	e.add(0)
	_, key := e.add(time.Hour)
	if key.Overlap != 0 {
		t.Fatalf("the overlap is %s", key.Overlap)
	}
	must(t, e.DeliverKey(t.Context(), key, "uid"))
	if ok, _ := e.valid(leaked); ok {
		t.Error("the revoked key is valid")
	}
}

func TestKey_IsIssuedOnceByManyReplicas(t *testing.T) {
	t.Parallel()
	e := newKeyEnv(t)
	e.issue(0)
	seen := account.SeenKeys{Sequence: 1}
	var added, rejected atomic.Int64
	var callers sync.WaitGroup
	for range 20 {
		callers.Go(func() {
			_, key, err := e.AddKey(t.Context(), account.KeyRequest{AppID: e.app.ID, Generation: 2, Overlap: time.Hour, Seen: &seen})
			switch {
			case err == nil:
				added.Add(1)
				if err := e.DeliverKey(t.Context(), key, "uid"); err != nil {
					t.Error(err)
				}
			case errors.Is(err, account.ErrKeysChanged):
				rejected.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	callers.Wait()
	if _, _, err := e.AddKey(t.Context(), account.KeyRequest{AppID: e.app.ID, Generation: 2, Seen: &seen}); !errors.Is(err, account.ErrKeysChanged) {
		t.Errorf("a late caller: %v", err)
	}
	if added.Load() != 1 || rejected.Load() != 19 || e.rows() != 2 {
		t.Errorf("%d keys were added and %d rejected; there are %d rows", added.Load(), rejected.Load(), e.rows())
	}
}

// A replica takes the rotation of another one for an interrupted one, which is delivered before the
// replica can replace its key.
func TestKey_DeliveredMeanwhileIsNotReplaced(t *testing.T) {
	t.Parallel()
	e := newKeyEnv(t)
	e.issue(0)
	_, key := e.add(time.Hour)
	keys, err := e.Keys(t.Context(), e.id)
	must(t, err)
	seen := keys.Apps[e.app.ID].Seen()
	must(t, e.DeliverKey(t.Context(), key, "uid"))
	if _, _, err := e.AddKey(t.Context(), account.KeyRequest{AppID: e.app.ID, Seen: seen}); !errors.Is(err, account.ErrKeysChanged) {
		t.Errorf("the key was added: %v", err)
	}
	if e.rows() != 2 {
		t.Errorf("there are %d rows", e.rows())
	}
}

// The clock of the database decides: the callers have none.
func TestKey_EndsByTheClockOfTheDatabase(t *testing.T) {
	t.Parallel()
	e := newKeyEnv(t)
	e.issue(0)
	e.issue(time.Hour)
	if n := number(t, e.url, `SELECT count(*) FROM api_key WHERE sequence = 1 AND expires_at BETWEEN now() + interval '59 minutes' AND now() + interval '1 hour'`); n != 1 {
		t.Error("the overlap does not begin at the database's time")
	}
	keys, err := e.Keys(t.Context(), e.id)
	must(t, err)
	if n := number(t, e.url, `SELECT (abs(extract(epoch FROM now() - $1::timestamptz)) < 60)::int`, keys.Now); n != 1 {
		t.Errorf("the time of the keys is %s", keys.Now)
	}
	e.issue(2 * time.Hour)
	if n := number(t, e.url, `SELECT count(*) FROM api_key WHERE sequence = 1 AND expires_at <= now() + interval '1 hour'`); n != 1 {
		t.Error("a rotation moved the end of a key")
	}
}

func TestAcceptKey_TakesBackWhatARestoreLost(t *testing.T) {
	t.Parallel()
	e := newKeyEnv(t)
	old := e.issue(0)
	current := e.issue(0)
	proof := e.proof(current)
	e.forget(1)
	if !e.accept(current, proof) {
		t.Fatal("the current key is not accepted after the restore")
	}
	if ok, ends := e.valid(current); !ok || ends != nil {
		t.Error("the accepted key is not valid")
	}
	if ok, ends := e.valid(old); !ok || ends == nil {
		t.Error("the older key does not end with the overlap")
	}
	next := e.issue(time.Hour).Hash()
	if number(t, e.url, `SELECT sequence FROM api_key WHERE hash = $1`, next[:]) != 3 {
		t.Error("the next key is not newer than the accepted one")
	}
}

func TestAcceptKey_RejectsReplacedKeys(t *testing.T) {
	t.Parallel()
	for name, replay := range map[string]func(e *keyEnv) (account.KeySecret, string){
		"a key that was rotated": func(e *keyEnv) (account.KeySecret, string) {
			leaked := e.issue(0)
			proof := e.proof(leaked)
			e.issue(0)
			return leaked, proof
		},
		"a key whose record was purged": func(e *keyEnv) (account.KeySecret, string) {
			leaked := e.issue(0)
			proof := e.proof(leaked)
			e.issue(0)
			number(e.t, e.url, `WITH purged AS (DELETE FROM api_key WHERE sequence = 1) SELECT 0`)
			return leaked, proof
		},
		"a key that a restore lost, after a newer one came back": func(e *keyEnv) (account.KeySecret, string) {
			e.issue(0)
			leaked := e.issue(0)
			proof := e.proof(leaked)
			current := e.issue(0)
			currentProof := e.proof(current)
			e.forget(1)
			if !e.accept(current, currentProof) {
				e.t.Fatal("the current key is not accepted")
			}
			return leaked, proof
		},
		"a key in its overlap when the account was closed": func(e *keyEnv) (account.KeySecret, string) {
			leaked := e.issue(0)
			proof := e.proof(leaked)
			e.issue(time.Hour)
			e.close()
			e.reopen()
			return leaked, proof
		},
		"a key whose revocation had begun when the account was closed": func(e *keyEnv) (account.KeySecret, string) {
			revoked := e.issue(0)
			proof := e.proof(revoked)
			e.add(0)
			e.close()
			e.reopen()
			return revoked, proof
		},
		"the key of a closed account after a newer one": func(e *keyEnv) (account.KeySecret, string) {
			old := e.issue(0)
			proof := e.proof(old)
			e.close()
			e.reopen()
			e.issue(0)
			return old, proof
		},
		"the key of a closed app": func(e *keyEnv) (account.KeySecret, string) {
			old := e.issue(0)
			proof := e.proof(old)
			must(e.t, e.CloseApps(e.t.Context(), e.id, []account.App{e.app}))
			_, _, err := e.OpenApps(e.t.Context(), e.id, nil)
			must(e.t, err)
			return old, proof
		},
		"the key of a closed account whose app was closed": func(e *keyEnv) (account.KeySecret, string) {
			old := e.issue(0)
			proof := e.proof(old)
			e.close()
			e.reopen()
			must(e.t, e.CloseApps(e.t.Context(), e.id, []account.App{e.app}))
			_, _, err := e.OpenApps(e.t.Context(), e.id, nil)
			must(e.t, err)
			return old, proof
		},
		"a pending key that was replaced": func(e *keyEnv) (account.KeySecret, string) {
			e.issue(0)
			lost, _ := e.add(0)
			proof := e.proof(lost)
			e.add(0)
			return lost, proof
		},
		"a forged proof": func(e *keyEnv) (account.KeySecret, string) {
			e.issue(0)
			forged, err := account.NewKeySecret(0)
			must(e.t, err)
			return forged, "v1.99.1.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
		},
		"the proof of another account": func(e *keyEnv) (account.KeySecret, string) {
			other := *e
			moved := spec
			moved.Name = "other"
			a, err := e.Ensure(e.t.Context(), moved)
			must(e.t, err)
			apps, _, err := e.OpenApps(e.t.Context(), a.ID, nil)
			must(e.t, err)
			other.id, other.app = a.ID, apps[0]
			for range 3 {
				other.issue(0)
			}
			token := other.issue(0)
			return token, other.proof(token)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newKeyEnv(t)
			token, proof := replay(e)
			before := version(t, e.url, "api_key")
			wasValid, _ := e.valid(token)
			if e.accept(token, proof) {
				t.Error("the key is accepted")
			}
			if ok, _ := e.valid(token); ok != wasValid || version(t, e.url, "api_key") != before {
				t.Error("the rejected key changed something")
			}
		})
	}
}

func TestAcceptKey_OpensTheKeyOfAReopenedAccount(t *testing.T) {
	t.Parallel()
	e := newKeyEnv(t)
	current := e.issue(0)
	proof := e.proof(current)
	e.close()
	keys, err := e.Keys(t.Context(), e.id)
	must(t, err)
	if _, err := e.AcceptKey(t.Context(), keys, e.app, current, proof, account.KeyRequest{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("the key of a closed account: %v", err)
	}
	e.reopen()
	if ok, _ := e.valid(current); ok {
		t.Fatal("the key came back without its proof")
	}
	if !e.accept(current, proof) {
		t.Fatal("the key is not accepted")
	}
	if ok, ends := e.valid(current); !ok || ends != nil {
		t.Error("the key is not valid")
	}
}

func TestPurgeKeys_KeepsWhatMayComeBack(t *testing.T) {
	t.Parallel()
	e := newKeyEnv(t)
	for range 4 {
		e.issue(0)
	}
	closed := e.issue(0)
	proof := e.proof(closed)
	e.close()
	age := func(interval string) {
		number(t, e.url, `WITH aged AS (UPDATE api_key SET expires_at = expires_at - $1::interval RETURNING 1) SELECT count(*) FROM aged`, interval)
	}
	cfg := account.KeyPurgeConfig{KeyRetention: 720 * time.Hour}
	age("719 hours")
	if n, err := account.PurgeKeys(t.Context(), cfg, e.store.Accounts, purge.Batches{Size: 3}); err != nil || n != 0 {
		t.Errorf("%d keys were purged before their retention: %v", n, err)
	}
	age("2 hours")
	if n, err := account.PurgeKeys(t.Context(), cfg, e.store.Accounts, purge.Batches{Size: 3}); err != nil || n != 4 {
		t.Errorf("%d keys were purged, want 4: %v", n, err)
	}
	e.reopen()
	if !e.accept(closed, proof) {
		t.Error("the key of the closed account cannot come back")
	}
}

// A Secret that something else deletes again and again issues a key each time.
func TestKey_RecordsOfAnAppAreBounded(t *testing.T) {
	t.Parallel()
	e := newKeyEnv(t)
	for range 120 {
		e.issue(0)
	}
	if n := e.rows(); n > 102 {
		t.Errorf("there are %d rows", n)
	}
}

func TestKeyPurgeConfig_IsBounded(t *testing.T) {
	t.Parallel()
	for retention, ok := range map[time.Duration]bool{0: false, time.Minute: false, time.Hour: true, 8784 * time.Hour: true, 8785 * time.Hour: false} {
		if err := (account.KeyPurgeConfig{KeyRetention: retention}).Validate(); (err == nil) != ok {
			t.Errorf("%s: %v", retention, err)
		}
	}
}
