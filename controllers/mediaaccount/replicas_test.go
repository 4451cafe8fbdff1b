package mediaaccount

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"mediastack.dev/runtime/installation"
)

// slowRuntimes answers when answer is closed.
type slowRuntimes struct {
	answer chan struct{}
	err    error
	asked  int
}

func (s *slowRuntimes) ServingRuntimes(ctx context.Context) (installation.Runtimes, error) {
	s.asked++
	select {
	case <-s.answer:
	case <-ctx.Done():
		return installation.Runtimes{}, ctx.Err()
	}
	return installation.Runtimes{Replicas: 2, Versions: []string{"1.0"}}, s.err
}

// The accounts that were reconciled while the first one asked got a status without the replicas of the
// runtime, and kept it until they were changed or another leader wrote it.
func TestRuntimes_EveryCallWaitsForTheFirstAnswer(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]error{"an answer": nil, "an error": errors.New("no")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &slowRuntimes{answer: make(chan struct{}), err: failure}
				r := &runtimes{store: store, now: time.Now}
				replicas := make(chan int64, 3)
				for range cap(replicas) {
					go func() {
						if serving, _, known := r.Look(t.Context()); known == (failure == nil) {
							replicas <- int64(serving.Replicas)
						}
					}()
				}
				synctest.Wait()
				if len(replicas) != 0 {
					t.Errorf("%d calls returned before the answer", len(replicas))
				}
				gone, leave := context.WithCancel(t.Context())
				leave()
				r.Look(gone) // does not wait
				close(store.answer)
				synctest.Wait()
				if len(replicas) != cap(replicas) || store.asked != 1 {
					t.Errorf("%d calls have the result, and the store was asked %d times", len(replicas), store.asked)
				}
				for failure == nil && len(replicas) > 0 {
					if n := <-replicas; n != 2 {
						t.Errorf("%d replicas", n)
					}
				}
				r.Look(t.Context()) // the first question has ended, also without an answer
			})
		})
	}
}
