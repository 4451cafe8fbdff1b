package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
)

const (
	// changesPerSecond is the pace of changes, and changedAccounts how many accounts take turns.
	changesPerSecond = 10
	changedAccounts  = 50
	// changesFor is for how long changes are timed, at most.
	changesFor = 30 * time.Second
	// changeTimeout is when a change that took no effect is given up; it counts as that long.
	changeTimeout = 30 * time.Second
	// pollPause is the first pause between two requests that look for the effect.
	pollPause    = 5 * time.Millisecond
	maxPollPause = 40 * time.Millisecond
)

// changed is an account that is suspended and resumed again.
type changed struct {
	mu        sync.Mutex
	key       kube.ObjectKey
	apiKey    string
	suspended bool
}

// accountsToChange are accounts of the fleet, spread over it.
func (c *cluster) accountsToChange(ctx context.Context, f fleet) ([]*changed, error) {
	var accounts []*changed
	count := min(changedAccounts, f.accounts)
	for i := range count {
		key := kube.ObjectKey{Namespace: fleetNamespace, Name: accountName(i * f.accounts / count)}
		var secret corev1.Secret
		if err := c.api.Get(ctx, kube.ObjectKey{Namespace: key.Namespace, Name: v1alpha1.SecretName(key.Name, "default")}, &secret); err != nil {
			return nil, err
		}
		accounts = append(accounts, &changed{key: key, apiKey: string(secret.Data[v1alpha1.SecretAPIKey])})
	}
	return accounts, nil
}

// patch suspends the account, or resumes it.
func (c *cluster) patch(ctx context.Context, account *changed) error {
	account.suspended = !account.suspended
	body := fmt.Appendf(nil, `{"spec":{"suspended":%t}}`, account.suspended)
	return c.api.Patch(ctx, &v1alpha1.MediaAccount{ObjectMeta: metav1.ObjectMeta{Namespace: account.key.Namespace, Name: account.key.Name}}, kube.RawPatch(types.MergePatchType, body))
}

// waitServed waits until a request at the runtime sees the change.
func (c *cluster) waitServed(ctx context.Context, account *changed, timeout time.Duration) error {
	want := http.StatusOK
	if account.suspended {
		want = http.StatusUnauthorized
	}
	e := *c.runtime
	e.key = account.apiKey
	pause := pollPause
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); pause = min(2*pause, maxPollPause) {
		if _, err := e.do(ctx, http.MethodGet, "/media/get/count", nil, "", want); err == nil {
			return nil
		}
		if err := wait(pause)(ctx); err != nil {
			return err
		}
	}
	return nil // it counts as the timeout
}

// changeTimes are the times of changes, sorted each.
type changeTimes struct {
	// accepted is from when a change was due until the API server had it, and served until the runtime
	// served it.
	accepted, served []time.Duration
}

// timeChanges changes accounts at an even pace until ctx ends.
func (c *cluster) timeChanges(ctx context.Context, accounts []*changed) (changeTimes, error) {
	served := context.WithoutCancel(ctx)
	var mu sync.Mutex
	var times changeTimes
	err := atPace(ctx, maxInFlight, changesPerSecond, func(n int, due time.Time) error {
		account := accounts[n%len(accounts)]
		account.mu.Lock() // one change of an account waits for that before it
		defer account.mu.Unlock()
		if err := c.patch(served, account); err != nil {
			return err
		}
		accepted := time.Since(due)
		if err := c.waitServed(served, account, changeTimeout); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		times.accepted, times.served = append(times.accepted, accepted), append(times.served, time.Since(due))
		return nil
	})
	slices.Sort(times.accepted)
	slices.Sort(times.served)
	return times, err
}

// measureChanges times changes while the operator is idle, while the S3 store hangs, and while accounts
// are created.
func (c *cluster) measureChanges(ctx context.Context, f fleet) error {
	accounts, err := c.accountsToChange(ctx, f)
	if err != nil {
		return err
	}
	shown := table{{"change until it is served, ms", "changes", "p50", "p99", "longest", "accepted, p99", "target", ""}}
	for _, one := range []struct {
		what string
		time func() (changeTimes, error)
	}{
		{"idle", func() (changeTimes, error) { return c.timeFor(ctx, accounts) }},
		{"S3 hangs", func() (changeTimes, error) { return c.timeWithoutS3(ctx, accounts) }},
		{fmt.Sprintf("%d creations", f.during), func() (changeTimes, error) { return c.timeDuringCreations(ctx, f, accounts) }},
	} {
		c.b.say("%s: timing changes: %s", c.b.name, one.what)
		times, err := one.time()
		if err != nil {
			return fmt.Errorf("changes, %s: %w", one.what, err)
		}
		r, accepted := round{times: times.served}, round{times: times.accepted}
		found := c.b.add(result{Benchmark: c.b.name, Case: "change, " + one.what, Figure: "ms, p99", Target: maximum(2000), Inputs: map[string]float64{"changes": float64(len(times.served))}},
			r.percentile(0.99).Seconds()*1000)
		shown.row(one.what, strconv.Itoa(len(times.served)), milliseconds(r.percentile(0.5)), milliseconds(r.percentile(0.99)), milliseconds(times.served[len(times.served)-1]),
			milliseconds(accepted.percentile(0.99)), found.Target.String(), found.targetText())
	}
	shown.print(c.b.out)
	c.b.note("%d changes a second come at an even pace, each suspends or resumes another one of %d accounts by the API; its time is from when it was due until a request at the runtime sees it, "+
		"accepted is until the API server has it; one that takes %s is given up, and counts as that", changesPerSecond, len(accounts), changeTimeout)
	return nil
}

// timeFor times changes for a while.
func (c *cluster) timeFor(ctx context.Context, accounts []*changed) (changeTimes, error) {
	ctx, cancel := context.WithTimeout(ctx, min(changesFor, 10*c.b.Idle))
	defer cancel()
	return c.timeChanges(ctx, accounts)
}

// timeWithoutS3 times changes from the moment on when the S3 store hangs.
func (c *cluster) timeWithoutS3(ctx context.Context, accounts []*changed) (changeTimes, error) {
	resume, err := c.hangS3()
	if err != nil {
		return changeTimes{}, err
	}
	defer resume()
	return c.timeFor(ctx, accounts)
}

// timeDuringCreations times changes while more accounts are created.
func (c *cluster) timeDuringCreations(ctx context.Context, f fleet, accounts []*changed) (changeTimes, error) {
	if err := c.settle(ctx); err != nil {
		return changeTimes{}, err
	}
	creating, done := context.WithCancel(ctx)
	created := make(chan error, 1)
	go func() {
		defer done()
		_, err := c.create(ctx, fleetNamespace, f.accounts, f.accounts+f.during, f.apps)
		created <- err
	}()
	times, err := c.timeChanges(creating, accounts)
	done()
	return times, errors.Join(err, <-created)
}
