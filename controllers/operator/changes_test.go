package operator_test

import (
	"context"
	"fmt"
	"maps"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/operator"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/settings"
)

// countingAccounts counts the statements about one account, and those about all.
type countingAccounts struct {
	account.Store
	single, comparisons, holdings atomic.Int64
}

// UpdateAccount counts: every reconcile of a MediaAccount calls it.
func (c *countingAccounts) UpdateAccount(ctx context.Context, want account.Account) (account.Account, error) {
	c.single.Add(1)
	return c.Store.UpdateAccount(ctx, want)
}

// FindAccount counts: every reconcile of a MediaSettings, and every complete check of a bucket, calls it.
func (c *countingAccounts) FindAccount(ctx context.Context, namespace, name string) (account.Account, error) {
	c.single.Add(1)
	return c.Store.FindAccount(ctx, namespace, name)
}

// VersionsAfter counts.
func (c *countingAccounts) VersionsAfter(ctx context.Context, namespaces []string, after uuid.UUID, limit int) ([]account.Version, error) {
	c.comparisons.Add(1)
	return c.Store.VersionsAfter(ctx, namespaces, after, limit)
}

// HoldingsAfter counts.
func (c *countingAccounts) HoldingsAfter(ctx context.Context, namespaces []string, after uuid.UUID, limit int) ([]account.Holding, error) {
	c.holdings.Add(1)
	return c.Store.HoldingsAfter(ctx, namespaces, after, limit)
}

// Each account once had timers of its own: 10,000 that nobody used cost 366 reconciles, 1,300 statements
// and 333 requests to S3 a second.
func TestIdle_CostsRoundsAndNothingForEachAccount(t *testing.T) {
	t.Parallel()
	const rounds, rate = 5, 4
	b := newHarness(t, func(o *options) { o.idle, o.config.BucketCheckRate = true, rate })
	counted := &countingAccounts{Store: b.database.Accounts}
	b.run(b.config, func(deps *operator.Deps) { deps.Accounts = counted })
	objects := b.accounts(size(20, 300))
	for i, object := range objects {
		if i%2 == 0 {
			b.ready(b.settings("of-"+object.Name, object.Name))
		}
	}
	b.settle()
	calm := func() string { // the reconciles after the operator's own changes are over
		before, round := counted.single.Load(), counted.comparisons.Load()
		wait.UntilNone(b.t, func() string {
			if counted.comparisons.Load() < round+2 {
				return "no comparison of all accounts is made"
			}
			return ""
		})
		if counted.single.Load() != before {
			return "accounts are still read one by one"
		}
		return ""
	}
	wait.UntilNone(b.t, calm)

	single, comparisons, holdings, requests := counted.single.Load(), counted.comparisons.Load(), counted.holdings.Load(), b.requests.snapshot()
	checks, began := b.buckets.total(), time.Now()
	wait.UntilNone(b.t, func() string {
		if counted.comparisons.Load() < comparisons+rounds || counted.holdings.Load() < holdings+rounds {
			return "the rounds are not over"
		}
		return ""
	})
	if reads := counted.single.Load() - single; reads > 0 {
		t.Errorf("%d statements about single accounts in %d rounds without a change", reads, rounds)
	}
	if after := b.requests.snapshot(); !maps.Equal(requests, after) {
		t.Errorf("requests to the API server went from %v to %v", requests, after)
	}
	if made, most := b.buckets.total()-checks, rate*(int(time.Since(began)/time.Second)+2); made == 0 || made > most {
		t.Errorf("%d bucket checks, want some and at most %d", made, most)
	}
}

// total returns how often any bucket was claimed.
func (c *countingBuckets) total() int {
	total := 0
	for _, n := range c.snapshot() {
		total += n
	}
	return total
}

// onlyNotified is a configuration in which nothing periodic finds a change.
func onlyNotified(o *options) {
	o.config.RetainedInterval, o.config.UsageInterval, o.config.BucketCheckInterval = time.Hour, time.Hour, time.Hour
}

// byTenant is who makes the changes of a tenant.
var byTenant = account.Actor{Kind: account.ActorKey}

// tenantSets changes a setting as a tenant does over REST.
func (b *harness) tenantSets(object *v1alpha1.MediaAccount, width int) {
	b.t.Helper()
	_, err := settings.NewService(b.database.Settings).Update(b.ctx, b.accountID(object), byTenant, settings.Layer{ThumbnailWidth: &width})
	must(b.t, err)
}

// showsWidth waits until the status of a MediaSettings shows a width.
func (b *harness) showsWidth(pins *v1alpha1.MediaSettings, width int32) {
	b.t.Helper()
	wait.UntilNone(b.t, func() string {
		must(b.t, b.Get(b.ctx, client.ObjectKeyFromObject(pins), pins))
		if got := pins.Status.Effective; got == nil || got.ThumbnailWidth != width {
			return fmt.Sprintf("the status shows %+v, not %d", got, width)
		}
		return ""
	})
}

func TestChanges_InPostgreSQLAreNotified(t *testing.T) {
	t.Parallel()
	b := newHarness(t, onlyNotified)
	object, pins := b.account("demo"), b.settings("site", "demo")
	b.ready(object)
	b.ready(pins)
	b.tenantSets(object, 200)
	b.showsWidth(pins, 200)
	// A cap that was changed by hand is corrected, and a key that was ended is replaced.
	key := string(b.secret("demo", "default").Data["apiKey"])
	b.exec("UPDATE account SET max_storage = 1, suspended = true")
	b.exec("UPDATE api_key SET expires_at = now()")
	wait.UntilNone(b.t, func() string {
		found, err := b.registry.Find(b.ctx, b.namespace, "demo")
		must(t, err)
		if found.Suspended || found.MaxStorage == 1 {
			return "the account is still changed"
		}
		if next := b.secret("demo", "default").Data["apiKey"]; string(next) == key || !b.opens(next) {
			return "the ended key was not replaced"
		}
		return ""
	})
	b.ready(object)
}

// deaf is a source that delivers no change, and reconnects when it is told to.
type deaf struct{ reconnect chan struct{} }

// Listen implements changes.Source.
func (d deaf) Listen(ctx context.Context, onConnect func(), _ func(uuid.UUID), onLost func(error)) error {
	for {
		onConnect()
		select {
		case <-d.reconnect:
			onLost(context.Canceled)
		case <-ctx.Done():
			return nil
		}
	}
}

func TestChanges_ThatNoNotificationNamesAreCompared(t *testing.T) {
	t.Parallel()
	for name, reconnects := range map[string]bool{"periodically": false, "after a reconnect": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHarness(t, onlyNotified, func(o *options) { o.idle = true })
			if !reconnects {
				b.config.RetainedInterval = time.Second
			}
			source := deaf{make(chan struct{})}
			b.run(b.config, func(deps *operator.Deps) { deps.Changes = source })
			object, pins := b.account("demo"), b.settings("site", "demo")
			b.ready(object)
			b.ready(pins)
			b.settle()
			b.tenantSets(object, 200)
			if reconnects {
				source.reconnect <- struct{}{}
			}
			b.showsWidth(pins, 200)
		})
	}
}

func TestRestart_WritesNothing(t *testing.T) {
	t.Parallel()
	b := newHarness(t, func(o *options) { o.idle = true })
	stop := b.run(b.config)
	objects := b.accounts(size(10, 300))
	pins := b.settings("site", objects[0].Name, pinQuality(60))
	b.ready(pins)
	b.publishWebhookKey()
	b.ready(b.webhook("hook", objects[0].Name))
	b.settle()
	stop()
	before := b.requests.writes()
	counted := &countingAccounts{Store: b.database.Accounts}
	b.run(b.config, func(deps *operator.Deps) { deps.Accounts = counted })
	wait.UntilNone(b.t, func() string {
		if counted.single.Load() < int64(len(objects)) || counted.holdings.Load() < 3 {
			return "the accounts were not looked at"
		}
		return ""
	})
	b.settle()
	if wrote := b.requests.writes() - before; wrote != 0 {
		t.Errorf("the next leader wrote %d times: %v", wrote, b.requests.snapshot())
	}
}

// A request to a store that hangs once held every worker, so that a suspension waited behind it.
func TestHungStore_HoldsUpNoChangeOfTheSameAccount(t *testing.T) {
	t.Parallel()
	s3, choose := behindProxy(t)
	b := newHarness(t, choose, func(o *options) { o.config.OutageGrace, o.config.Concurrency = time.Hour, 2 })
	objects := b.accounts(2)
	pins := b.settings("site", objects[0].Name)
	b.ready(pins)
	// The operator gives a request up after 10 s, which a loaded machine may need for the changes, too. Changes that
	// wait for the requests never come before their end.
	const most = 5
	for attempt := int64(1); ; attempt++ {
		s3.hang(b, 2)
		b.changesAll(objects, attempt)
		change(b, pins, func(s *v1alpha1.MediaSettings) { s.Spec.WebPOutputQuality = new(int32(50 + attempt)) })
		b.holds(objects[0], int(50+attempt), "site")
		ended := s3.ended.Load()
		s3.hung.Store(false)
		for _, object := range objects {
			b.shows(object, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSuspended)
		}
		if ended == 0 {
			return
		}
		if attempt == most {
			t.Fatalf("%d times the changes took effect after a request to the store had ended, at last %d", most, ended)
		}
		t.Logf("the changes took effect after %d requests to the store had ended", ended)
		before := b.buckets.snapshot()
		wait.UntilNone(b.t, func() string { // nothing of this attempt is left
			for _, object := range objects {
				if now := b.buckets.of(object.Status.Bucket); now < before[object.Status.Bucket]+2 {
					return "the buckets are not checked again"
				}
			}
			return ""
		})
	}
}

// changesAll changes the suspension, the cap and the key of accounts, and waits until the changes are in effect.
func (b *harness) changesAll(objects []*v1alpha1.MediaAccount, attempt int64) {
	b.t.Helper()
	keys := map[string]string{}
	for _, object := range objects {
		keys[object.Name] = b.apiKey(object.Name, "default")
		change(b, object, func(a *v1alpha1.MediaAccount) {
			a.Spec.Suspended, a.Spec.Storage.MaxStorage = true, resource.NewQuantity(attempt<<30, resource.BinarySI)
			a.Spec.APIKeys.Generation++
		})
	}
	wait.UntilNone(b.t, func() string {
		for _, object := range objects {
			if found, err := b.registry.Find(b.ctx, b.namespace, object.Name); err != nil || !found.Suspended || found.MaxStorage != attempt<<30 {
				return "the database does not have the changes"
			}
			if b.apiKey(object.Name, "default") == keys[object.Name] {
				return "the key is not rotated"
			}
		}
		return ""
	})
}
