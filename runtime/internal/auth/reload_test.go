package auth

import (
	"testing"
	"testing/synctest"
	"time"

	"mediastack.dev/runtime/account"
)

// Requests that ask while a look-up is under way get a later one, which they share: the one under way
// may have read the credential before a change that is committed now.
func TestReload_SharesALookUpThatBeginsAfterTheRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		proceed := make(chan struct{})
		suspended := false
		store := &scriptedStore{find: func(h account.Hash) (account.Principal, error) {
			found := holder(h)
			found.Account.Suspended = suspended // as it was when the look-up began
			<-proceed
			return found, nil
		}}
		cache := newSessionCache(store, time.Minute, time.Now)
		answers := make(chan bool, 20)
		ask := func() {
			session, err := cache.reload(t.Context(), cacheKey{hash: account.Hash{7}})
			if err != nil {
				t.Error(err)
			}
			answers <- session.Account.Suspended
		}
		go ask()
		synctest.Wait() // its look-up is under way
		suspended = true
		for range cap(answers) - 1 {
			go ask()
		}
		synctest.Wait()
		proceed <- struct{}{}
		if <-answers {
			t.Error("the first look-up returned what was changed after it began")
		}
		proceed <- struct{}{}
		for range cap(answers) - 1 {
			if !<-answers {
				t.Error("a request was answered by a look-up that began before it")
			}
		}
		if calls := store.calls.Load(); calls != 2 {
			t.Errorf("%d look-ups, want 2", calls)
		}
		if synctest.Wait(); len(cache.reloads) != 0 {
			t.Errorf("%d queues are left", len(cache.reloads))
		}
	})
}
