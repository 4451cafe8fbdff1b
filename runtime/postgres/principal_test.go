package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/postgres"
)

// Each upload looks its key up at its end: with many accounts that was more than half of all statements.
func TestFindPrincipal_ConcurrentLookUpsShareAStatement(t *testing.T) {
	t.Parallel()
	store, _ := setup(t)
	const keys, unknown = 6, 3
	var hashes []account.Hash
	for i := range keys {
		of := spec
		of.Name, of.ObjectUID = fmt.Sprintf("account-%d", i), fmt.Sprintf("uid-%d", i)
		a, err := registry(store).Ensure(t.Context(), of)
		must(t, err)
		apps, _, err := registry(store).OpenApps(t.Context(), a.ID, nil)
		must(t, err)
		token, _, err := registry(store).IssueKey(t.Context(), apps[0].ID, 1, 0)
		must(t, err)
		hashes = append(hashes, token.Hash())
	}
	for i := range unknown {
		hashes = append(hashes, account.Hash{byte(i + 1)})
	}
	hashes = append(hashes, hashes[0]) // one key twice
	entered, leave := make(chan struct{}, 1), make(chan struct{})
	var statements []int
	postgres.HoldLookUps(store, func(lookUps int) {
		if statements = append(statements, lookUps); len(statements) == 1 {
			entered <- struct{}{}
			<-leave
		}
	})
	var all sync.WaitGroup
	for i, hash := range hashes {
		all.Go(func() {
			found, err := store.Credentials.FindPrincipal(t.Context(), hash)
			switch name := fmt.Sprintf("account-%d", i%(len(hashes)-1)); {
			case i >= keys && i < keys+unknown:
				if !fault.Is(err, fault.NotFound) {
					t.Errorf("an unknown key: %v", err)
				}
			case err != nil || !found.Key.Hash.Equal(hash) || found.Account.Name != name || found.App.AccountID != found.Account.ID:
				t.Errorf("key %d: %+v, %v", i, found, err)
			}
		})
		if i == 0 {
			<-entered
		}
	}
	wait.Until(t, "the other look-ups are queued", func() bool { return postgres.QueuedLookUps(store) >= len(hashes)-1 })
	close(leave)
	all.Wait()
	if !slices.Equal(statements, []int{1, len(hashes) - 1}) {
		t.Errorf("%d look-ups took statements of %v", len(hashes), statements)
	}
}

// A look-up changes nothing: its caller does not wait for it.
func TestFindPrincipal_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	store, _ := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	leave := make(chan struct{})
	postgres.HoldLookUps(store, func(int) { cancel(); <-leave })
	if _, err := store.Credentials.FindPrincipal(ctx, account.Hash{1}); !fault.Is(err, fault.Unavailable) {
		t.Error(err)
	}
	close(leave)
}
