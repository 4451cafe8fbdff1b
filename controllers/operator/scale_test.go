package operator_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/testenv/wait"
)

// The log line is the measurement.
func TestScale_TwoHundredAccountsBecomeReady(t *testing.T) {
	const (
		accounts = 200
		// finalizer, Secret, status, and one event; the namespace is read for many
		maxRequests = 5
	)
	b := newHarness(t, func(o *options) { o.config.BucketCheckInterval, o.config.UsageInterval = time.Hour, time.Hour })
	began := time.Now()
	var group errgroup.Group
	group.SetLimit(8)
	for i := range accounts {
		object := &v1alpha1.MediaAccount{}
		object.Namespace, object.Name = b.namespace, fmt.Sprintf("account-%d", i)
		group.Go(func() error { return b.Create(b.ctx, object) })
	}
	must(t, group.Wait())
	applied := time.Since(began)
	wait.UntilNone(b.t, func() string {
		list := &v1alpha1.MediaAccountList{}
		must(t, b.List(b.ctx, list, client.InNamespace(b.namespace)))
		left := slices.DeleteFunc(list.Items, func(a v1alpha1.MediaAccount) bool {
			return a.Status.ObservedGeneration == a.Generation && lacks(a.Status.Conditions, v1alpha1.ConditionReady, "True", v1alpha1.ReasonSucceeded) == ""
		})
		if len(left) > 0 {
			return fmt.Sprintf("%d of %d accounts are not ready, such as %s: %s", len(left), accounts, left[0].Name, describe(left[0].Status.Conditions))
		}
		return ""
	})
	took := time.Since(began)
	b.settle()
	total := 0
	counts := b.requests.snapshot()
	for _, n := range counts {
		total += n
	}
	claims := 0
	for _, n := range b.buckets.snapshot() {
		claims += n
	}
	t.Logf("%d accounts: applied in %s, ready after %s; %.1f requests and %.1f bucket checks per account: %v",
		accounts, applied.Round(time.Millisecond), took.Round(time.Millisecond), float64(total)/accounts, float64(claims)/accounts, counts)
	if total > maxRequests*accounts+50 {
		t.Errorf("%d requests for %d accounts are more than %d each", total, accounts, maxRequests)
	}
	if claims > accounts {
		t.Errorf("%d bucket checks for %d accounts", claims, accounts)
	}
}
