package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
)

const (
	// changeClients is how many accounts are changed at a time.
	changeClients = 4
	// changeTimeout is when a change that took no effect is given up; it counts as that long.
	changeTimeout = 30 * time.Second
	// pollPause is the pause between two requests that look for the effect.
	pollPause = 5 * time.Millisecond
	// shortestHang is for how long at least the S3 store hangs.
	shortestHang = 30 * time.Second
)

// changed is an account that is suspended and resumed again.
type changed struct {
	key       kube.ObjectKey
	apiKey    string
	suspended bool
}

// changedAccounts are accounts of the fleet, spread over it.
func (c *cluster) changedAccounts(ctx context.Context, f fleet) ([]*changed, error) {
	var accounts []*changed
	for i := range min(changeClients, f.accounts) {
		key := kube.ObjectKey{Namespace: fleetNamespace, Name: accountName(i * f.accounts / changeClients)}
		var secret corev1.Secret
		if err := c.api.Get(ctx, kube.ObjectKey{Namespace: key.Namespace, Name: v1alpha1.SecretName(key.Name, "default")}, &secret); err != nil {
			return nil, err
		}
		accounts = append(accounts, &changed{key: key, apiKey: string(secret.Data[v1alpha1.SecretAPIKey])})
	}
	slices.SortFunc(accounts, func(a, b *changed) int { return bytes.Compare([]byte(a.key.Name), []byte(b.key.Name)) })
	return slices.CompactFunc(accounts, func(a, b *changed) bool { return a.key == b.key }), nil
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
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); {
		if _, err := e.do(ctx, http.MethodGet, "/media/get/count", nil, "", want); err == nil {
			return nil
		}
		if err := wait(pollPause)(ctx); err != nil {
			return err
		}
	}
	return nil // it counts as the timeout
}

// timeChanges changes accounts until done reports true for the number of changes, and returns the times
// from the patch until the runtime served the change.
func (c *cluster) timeChanges(ctx context.Context, accounts []*changed, done func(changes int) bool) ([]time.Duration, error) {
	var mu sync.Mutex
	var times []time.Duration
	err := atOnceEach(ctx, accounts, func(ctx context.Context, account *changed) error {
		for {
			mu.Lock()
			enough := done(len(times))
			mu.Unlock()
			if enough {
				return nil
			}
			started := time.Now()
			if err := c.patch(ctx, account); err != nil {
				return err
			}
			if err := c.waitServed(ctx, account, changeTimeout); err != nil {
				return err
			}
			mu.Lock()
			times = append(times, time.Since(started))
			mu.Unlock()
		}
	})
	return slices.Sorted(slices.Values(times)), err
}

func atOnceEach[T any](ctx context.Context, all []T, call func(ctx context.Context, one T) error) error {
	next := make(chan T, len(all))
	for _, one := range all {
		next <- one
	}
	return atOnce(ctx, len(all), func(ctx context.Context) error { return call(ctx, <-next) })
}

// changes is how many changes are timed at least.
const changes = 100

// measureChanges times changes while the operator is idle, while the S3 store hangs, and while accounts
// are created.
func (c *cluster) measureChanges(ctx context.Context, f fleet) error {
	accounts, err := c.changedAccounts(ctx, f)
	if err != nil {
		return err
	}
	shown := table{{"change until it is served, ms", "changes", "p50", "p99", "longest", "target", ""}}
	for _, one := range []struct {
		what string
		time func() ([]time.Duration, error)
	}{
		{"idle", func() ([]time.Duration, error) {
			return c.timeChanges(ctx, accounts, func(n int) bool { return n >= changes })
		}},
		{"S3 hangs", func() ([]time.Duration, error) { return c.timeWithoutS3(ctx, accounts) }},
		{fmt.Sprintf("%d creations", f.during), func() ([]time.Duration, error) { return c.timeDuringCreations(ctx, f, accounts) }},
	} {
		c.b.say("%s: timing changes: %s", c.b.name, one.what)
		times, err := one.time()
		if err != nil {
			return fmt.Errorf("changes, %s: %w", one.what, err)
		}
		r := round{times: times}
		found := c.b.add(result{Benchmark: c.b.name, Case: "change, " + one.what, Figure: "ms, p99", Target: maximum(2000), Inputs: map[string]float64{"changes": float64(len(times))}},
			r.percentile(0.99).Seconds()*1000)
		shown.row(one.what, strconv.Itoa(len(times)), milliseconds(r.percentile(0.5)), milliseconds(r.percentile(0.99)), milliseconds(times[len(times)-1]), found.Target.String(), found.targetText())
	}
	shown.print(c.b.out)
	c.b.note("a change suspends or resumes an account by the API, %d at a time, until a request at the runtime sees it; one that takes %s is given up, and counts as that", changeClients, changeTimeout)
	return nil
}

// timeWithoutS3 times changes from the moment on when the S3 store hangs.
func (c *cluster) timeWithoutS3(ctx context.Context, accounts []*changed) ([]time.Duration, error) {
	resume, err := c.hangS3()
	if err != nil {
		return nil, err
	}
	defer resume()
	end := time.Now().Add(max(min(c.b.Idle, time.Minute), min(shortestHang, 10*c.b.Idle)))
	return c.timeChanges(ctx, accounts, func(n int) bool {
		return n >= changes && time.Now().After(end) || time.Now().After(end.Add(changeTimeout)) && n > 0
	})
}

// timeDuringCreations times changes while more accounts are created.
func (c *cluster) timeDuringCreations(ctx context.Context, f fleet, accounts []*changed) ([]time.Duration, error) {
	if err := c.settle(ctx); err != nil {
		return nil, err
	}
	finished := make(chan error, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, err := c.create(ctx, fleetNamespace, f.accounts, f.accounts+f.during, f.apps)
		finished <- err
	}()
	times, err := c.timeChanges(ctx, accounts, func(n int) bool {
		select {
		case <-ended:
			return n > 0
		default:
			return false
		}
	})
	return times, errors.Join(err, <-finished)
}

// measureRestart starts the operator again: once when nothing changed meanwhile, and once with a change
// that was made before.
func (c *cluster) measureRestart(ctx context.Context, f fleet) error {
	c.operator.Stop()
	before, err := c.counters(ctx)
	if err != nil {
		return err
	}
	started := time.Now()
	if err := c.startOperator(ctx); err != nil {
		return err
	}
	if err := c.settle(ctx); err != nil {
		return err
	}
	took := time.Since(started) - quietFor
	after, err := c.counters(ctx)
	if err != nil {
		return err
	}
	used := after.since(before)
	accounts, err := c.changedAccounts(ctx, f)
	if err != nil {
		return err
	}
	waiting, err := c.timeAfterRestart(ctx, accounts[0], true)
	if err != nil {
		return err
	}
	fresh, err := c.timeAfterRestart(ctx, accounts[len(accounts)-1], false)
	if err != nil {
		return err
	}
	shown := table{{"restart", "", "min", "max", "target", ""}}
	for _, one := range []struct {
		what, figure string
		value        float64
		target       *target
	}{
		{"API writes", "writes", max(used.apiWrites(), 1e-6), maximum(1)},
		{"seconds until it has settled", "seconds", took.Seconds(), nil},
		{"seconds from the lease to a change made before it", "seconds", waiting.Seconds(), maximum(2)},
		{"seconds from the lease to a change made after it", "seconds", fresh.Seconds(), maximum(2)},
	} {
		found := c.b.add(result{Benchmark: c.b.name, Case: "restart, " + one.what, Figure: one.figure, Target: one.target}, one.value)
		shown.row(append([]string{one.what}, found.cells()...)...)
	}
	shown.print(c.b.out)
	c.b.note("after the restart: %s SQL statements, %s of them wrote, %s S3 requests; %s s of processor time", number(used.statements), number(used.writes), number(used.s3), number(used.cpu[operatorName]))
	c.noteTop(used, 1, "in all")
	return nil
}

// timeAfterRestart starts the operator again and returns the time from the acquisition of the lease until
// a change is served, which was made while no operator ran, or when the lease was acquired.
func (c *cluster) timeAfterRestart(ctx context.Context, account *changed, before bool) (time.Duration, error) {
	c.operator.Stop()
	held, err := c.leaseAcquired(ctx)
	if err != nil {
		return 0, err
	}
	if before {
		if err := c.patch(ctx, account); err != nil {
			return 0, err
		}
	}
	started := make(chan error, 1)
	go func() { started <- c.startOperator(ctx) }()
	acquired := held
	for deadline := time.Now().Add(time.Minute); !acquired.After(held); {
		if time.Now().After(deadline) {
			return 0, errors.Join(errors.New("the operator did not acquire its lease"), <-started)
		}
		if err := wait(pollPause)(ctx); err != nil {
			return 0, err
		}
		if acquired, err = c.leaseAcquired(ctx); err != nil {
			return 0, err
		}
	}
	if !before {
		if err := c.patch(ctx, account); err != nil {
			return 0, err
		}
	}
	if err := c.waitServed(ctx, account, changeTimeout); err != nil {
		return 0, err
	}
	took := time.Since(acquired)
	if err := <-started; err != nil {
		return 0, err
	}
	if account.suspended { // the next measurement begins with accounts that are served
		if err := errors.Join(c.patch(ctx, account), c.waitServed(ctx, account, changeTimeout)); err != nil {
			return 0, err
		}
	}
	return took, c.settle(ctx)
}

// leaseAcquired returns when the operator's lease was acquired last.
func (c *cluster) leaseAcquired(ctx context.Context) (time.Time, error) {
	var lease coordinationv1.Lease
	if err := c.api.Get(ctx, kube.ObjectKey{Namespace: operatorNamespace, Name: operatorLease}, &lease); err != nil {
		return time.Time{}, err
	}
	if lease.Spec.AcquireTime == nil {
		return time.Time{}, nil
	}
	return lease.Spec.AcquireTime.Time, nil
}

// addRotations adds the rows that the rotations of a key leave: ended keys of the same app.
func (c *cluster) addRotations(ctx context.Context, f fleet) error {
	if f.rotations == 0 {
		return nil
	}
	tag, err := c.sql.Exec(ctx, `INSERT INTO api_key SELECT (json_populate_record(k, json_build_object('id', gen_random_uuid(), 'hash', sha256((k.id::text || n)::bytea),
			'sequence', k.sequence - 1 - n, 'delivered_at', k.created_at, 'expires_at', now() - make_interval(days => n + 1)))).*
		FROM api_key k CROSS JOIN generate_series(0, $1 - 1) AS n WHERE k.expires_at IS NULL`, f.rotations)
	if err != nil {
		return fmt.Errorf("add the keys of rotations: %w", err)
	}
	c.b.note("%d ended keys were added to the database, as %d rotations leave them", tag.RowsAffected(), f.rotations)
	return nil
}
