package operator_test

import (
	"context"
	"maps"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/operator"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/settings"
)

// accountCalls and settingsCalls count the calls with which a creation writes to the database, or could, by name.
type accountCalls struct {
	account.Store
	calls *requestCounter
}

type settingsCalls struct {
	settings.Store
	calls *requestCounter
}

func (s accountCalls) BindAccount(ctx context.Context, want account.Account, provision account.Provision, binding account.Binding) (account.Account, error) {
	s.calls.add("BindAccount")
	return s.Store.BindAccount(ctx, want, provision, binding)
}

func (s accountCalls) SetBucketOwned(ctx context.Context, id uuid.UUID, owned bool) error {
	s.calls.add("SetBucketOwned")
	return s.Store.SetBucketOwned(ctx, id, owned)
}

func (s accountCalls) OpenApps(ctx context.Context, id uuid.UUID, names []string) (open, others []account.App, err error) {
	s.calls.add("OpenApps")
	return s.Store.OpenApps(ctx, id, names)
}

func (s accountCalls) AddKey(ctx context.Context, key account.Key, seen *account.SeenKeys) (account.Key, error) {
	s.calls.add("AddKey")
	return s.Store.AddKey(ctx, key, seen)
}

func (s accountCalls) DeliverKey(ctx context.Context, key account.Key) error {
	s.calls.add("DeliverKey")
	return s.Store.DeliverKey(ctx, key)
}

func (s accountCalls) DeliverFirstKeys(ctx context.Context, keys []account.Key, objectUID string) ([]uuid.UUID, error) {
	s.calls.add("DeliverFirstKeys")
	return s.Store.DeliverFirstKeys(ctx, keys, objectUID)
}

func (s settingsCalls) Pin(ctx context.Context, id uuid.UUID, pins settings.Layer, by settings.Object) error {
	s.calls.add("Pin")
	return s.Store.Pin(ctx, id, pins, by)
}

func (s settingsCalls) Unpin(ctx context.Context, uid string) error {
	s.calls.add("Unpin")
	return s.Store.Unpin(ctx, uid)
}

// A status that is written twice, or a key that is replaced, costs each new account.
func TestCreation_WritesEachThingOnce(t *testing.T) {
	t.Parallel()
	calls := &requestCounter{calls: map[string]int{}}
	b := newHarness(t, func(o *options) {
		o.idle, o.config.BucketCheckInterval, o.config.UsageInterval = true, time.Hour, time.Hour
	})
	var stands atomic.Pointer[time.Time]
	b.run(b.config, func(d *operator.Deps) {
		d.Accounts, d.Settings = accountCalls{d.Accounts, calls}, settingsCalls{d.Settings, calls}
		d.Now = func() time.Time {
			if at := stands.Load(); at != nil {
				return *at
			}
			return time.Now()
		}
	})
	// The first account of a process reads what the others need not.
	b.ready(b.account("before"))
	b.settle()
	requests, statements := b.requests.snapshot(), calls.snapshot()
	object := b.account("demo", func(a *v1alpha1.MediaAccount) { a.Spec.Apps = []v1alpha1.AppSpec{{Name: "site"}, {Name: "shop"}} })
	pins := b.settings("site", "demo")
	stands.Store(&pins.CreationTimestamp.Time) // the time to wait with a status is never over
	b.ready(object)
	b.ready(pins)
	b.settle()

	want := map[string]int{
		"PATCH mediaaccounts": 1, "PATCH mediaaccounts/status": 1, "PATCH mediasettings": 1, "PATCH mediasettings/status": 1,
		"POST secrets": 3, "POST events": 1, "GET namespaces": 1, // one for all that are created at once
	}
	if got := difference(b.requests.snapshot(), requests); !maps.Equal(got, want) {
		t.Errorf("a creation takes the requests\n%v, not\n%v", got, want)
	}
	// Each of these writes. The others are reads, of which a reconcile that waits for the bucket, or that a
	// notification requests, has some: how many depends on what comes first. Pin writes if something differs.
	called := difference(calls.snapshot(), statements)
	for _, name := range []string{"BindAccount", "DeliverFirstKeys", "SetBucketOwned"} {
		if called[name] != 1 {
			t.Errorf("a creation calls %s %d times", name, called[name])
		}
	}
	for _, name := range []string{"OpenApps", "AddKey", "DeliverKey", "Unpin"} {
		if called[name] != 0 {
			t.Errorf("a creation calls %s %d times", name, called[name])
		}
	}
	if called["Pin"] == 0 {
		t.Error("nothing was pinned")
	}

	var account v1alpha1.MediaAccount
	must(t, b.Get(b.ctx, client.ObjectKeyFromObject(object), &account))
	if keys := account.Status.Keys; len(keys) != 3 || keys[0].CreatedAt.IsZero() {
		t.Errorf("the keys are %+v", keys)
	}
}

// difference returns what was added to counts.
func difference(after, before map[string]int) map[string]int {
	added := map[string]int{}
	for name, n := range after {
		if n > before[name] {
			added[name] = n - before[name]
		}
	}
	return added
}
