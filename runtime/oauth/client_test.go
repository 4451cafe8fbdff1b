package oauth_test

import (
	"context"
	"sync"
	"testing"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/oauth"
)

func TestRegisterClient_IsIdempotent(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	var mu sync.Mutex
	ids := map[string]int{}
	var registering sync.WaitGroup
	for range 10 {
		registering.Go(func() {
			for range 100 {
				made, err := w.RegisterClient(context.WithoutCancel(t.Context()), oauth.Client{Name: "Same", RedirectURIs: []string{redirect, "https://b.test/"}}, network)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				ids[made.ID]++
				mu.Unlock()
			}
		})
	}
	registering.Wait()
	if n := w.QueryInt(t, "SELECT count(*) FROM oauth_client"); len(ids) != 1 || n != 1 {
		t.Errorf("%d ids in %d rows", len(ids), n)
	}
	for i, name := range []string{"b", "c", "d"} {
		_, err := w.RegisterClient(t.Context(), oauth.Client{Name: name, RedirectURIs: []string{redirect}}, network)
		if (err != nil) != (i == 2) || err != nil && !fault.Is(err, fault.Busy) {
			t.Errorf("the application %s: %v", name, err)
		}
	}
	w.Counts(t, 3, "applications", "SELECT count(*) FROM oauth_client")
}
