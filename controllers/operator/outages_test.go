package operator_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/wait"
)

// store is an S3 store behind a proxy that can end or hold every request.
type store struct {
	away     atomic.Bool   // connections are cut
	hung     atomic.Bool   // requests are not answered
	released chan struct{} // closed at the end of the test: hung requests end
	requests atomic.Int64  // while it was away or hung
	ended    atomic.Int64  // hung requests that their client gave up
	later    atomic.Int64  // hung requests after the first hungWorkers that are under way
	together atomic.Int64  // how many of those were at a time, if more than one
}

// hungWorkers is how many requests reach a store that hangs before the operator knows.
const hungWorkers = 8

func behindProxy(t *testing.T) (*store, func(*options)) {
	s := &store{released: make(chan struct{})}
	return s, func(o *options) {
		o.s3 = func(t testing.TB) testenv.S3Access {
			access := testenv.S3Proxy(t, testenv.S3(t), s.answer)
			t.Cleanup(func() { close(s.released) })
			return access
		}
	}
}

// hang makes the store hang, and waits until it holds n requests.
func (s *store) hang(b *harness, n int64) {
	b.t.Helper()
	s.requests.Store(0)
	s.ended.Store(0)
	s.hung.Store(true)
	wait.UntilNone(b.t, func() string {
		if s.requests.Load() < n {
			return "not every worker of buckets has called the store"
		}
		return ""
	})
}

// answer implements the proxy.
func (s *store) answer(_ http.ResponseWriter, r *http.Request) bool {
	switch {
	case s.away.Load():
		s.requests.Add(1)
		panic(http.ErrAbortHandler)
	case s.hung.Load():
		if s.requests.Add(1) > hungWorkers {
			defer s.later.Add(-1)
			if now := s.later.Add(1); now > 1 {
				s.together.Store(now)
			}
		}
		select {
		case <-r.Context().Done():
			s.ended.Add(1)
		case <-s.released:
		}
		panic(http.ErrAbortHandler)
	}
	return false
}

// accounts creates n accounts and waits until they are Ready.
func (b *harness) accounts(n int) []*v1alpha1.MediaAccount {
	b.t.Helper()
	objects := make([]*v1alpha1.MediaAccount, n)
	var group errgroup.Group
	group.SetLimit(8)
	for i := range objects {
		objects[i] = &v1alpha1.MediaAccount{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: fmt.Sprintf("account-%d", i)}}
		group.Go(func() error { return b.Create(b.ctx, objects[i]) })
	}
	must(b.t, group.Wait())
	b.reaches(n, b.countReady)
	for _, object := range objects {
		must(b.t, b.Get(b.ctx, client.ObjectKeyFromObject(object), object))
	}
	return objects
}

// reaches waits until a number is n, for as long as it changes.
func (b *harness) reaches(n int, read func() int) {
	b.t.Helper()
	for current := read(); current != n; {
		wait.UntilNone(b.t, func() string {
			before := current
			if current = read(); current == before {
				return fmt.Sprintf("it is still %d, not %d", current, n)
			}
			return ""
		})
	}
}

func (b *harness) countReady() int {
	return b.countShowing(metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
}

// countShowing returns how many accounts have a status and a reason in Ready.
func (b *harness) countShowing(status metav1.ConditionStatus, reason string) int {
	b.t.Helper()
	list := &v1alpha1.MediaAccountList{}
	must(b.t, b.List(b.ctx, list, client.InNamespace(b.namespace)))
	return len(slices.DeleteFunc(list.Items, func(a v1alpha1.MediaAccount) bool {
		return lacks(a.Status.Conditions, v1alpha1.ConditionReady, status, reason) != ""
	}))
}

// 60 s without S3 once made 1,188 API writes for 300 accounts.
func TestOutage_ShortOneWritesNothing(t *testing.T) {
	t.Parallel()
	accounts, lasts, interval := size(60, 1000), size(8*time.Second, time.Minute), size(2*time.Second, 10*time.Second)
	s3, choose := behindProxy(t)
	b := newHarness(t, choose, func(o *options) {
		o.config.OutageGrace = far
		o.config.BucketCheckInterval, o.config.UsageInterval = interval, time.Hour
	})
	objects := b.accounts(accounts)
	b.settle()
	writes, began := b.requests.writes(), time.Now()
	s3.away.Store(true)
	<-time.After(lasts) //nolint:forbidigo // the outage
	requests, checks := s3.requests.Load(), b.buckets.snapshot()
	s3.away.Store(false)
	wait.UntilNone(b.t, func() string {
		now := b.buckets.snapshot()
		for _, object := range objects {
			if bucket := object.Status.Bucket; now[bucket] == checks[bucket] {
				return "a bucket was not checked after the outage"
			}
		}
		return ""
	})
	b.settle()
	t.Logf("%d accounts, S3 away for %s: %d API writes, %d requests to S3; all buckets were checked %s after the outage began",
		accounts, lasts, b.requests.writes()-writes, requests, time.Since(began).Round(time.Second))
	if wrote := b.requests.writes() - writes; wrote > 20 {
		t.Errorf("the operator wrote %d times: %v", wrote, b.requests.snapshot())
	}
	if perSecond := float64(requests) / lasts.Seconds(); perSecond > 10 {
		t.Errorf("%.0f requests a second reached a store that is away", perSecond)
	}
	for _, object := range objects[:10] {
		b.staysReady(object)
	}
}

func TestOutage_LongOneChangesEachStatusOnce(t *testing.T) {
	t.Parallel()
	accounts, lasts, grace := size(30, 1000), size(10*time.Second, 10*time.Minute), size(3*time.Second, 2*time.Minute)
	s3, choose := behindProxy(t)
	b := newHarness(t, choose, func(o *options) {
		o.config.OutageGrace = grace
		o.config.BucketCheckInterval, o.config.UsageInterval = time.Second*time.Duration(max(1, accounts/100)), time.Hour
	})
	objects := b.accounts(accounts)
	b.settle()
	writes := b.requests.writes()
	s3.away.Store(true)
	over := time.After(lasts) //nolint:forbidigo // the outage
	down := func() int { return b.countShowing(metav1.ConditionFalse, v1alpha1.ReasonObjectStoreUnavailable) }
	b.reaches(accounts, down)
	<-over
	if still := down(); still != accounts {
		t.Errorf("%d of %d accounts show the outage", still, accounts)
	}
	s3.away.Store(false)
	b.reaches(accounts, b.countReady)
	b.settle()
	t.Logf("%d accounts, S3 away for %s with a grace of %s: %d API writes", accounts, lasts, grace, b.requests.writes()-writes)
	for _, object := range objects {
		if turns := b.readyTurns(object.Name); !slices.Equal(turns, []metav1.ConditionStatus{"True", "False", "True"}) {
			t.Errorf("Ready of %s went %v", object.Name, turns)
		}
	}
	// Two status writes and two events for each account, and a few that were repeated after a conflict.
	if wrote := b.requests.writes() - writes; wrote > 4*accounts+accounts/5 {
		t.Errorf("the operator wrote %d times: %v", wrote, b.requests.snapshot())
	}
}

// readyTurns returns the values of Ready in the recorded versions since the first True, each once.
func (b *harness) readyTurns(name string) (turns []metav1.ConditionStatus) {
	b.t.Helper()
	b.recorder.Flush()
	for _, version := range b.recorder.Versions("MediaAccount", name) {
		seen := &v1alpha1.MediaAccount{}
		must(b.t, runtime.DefaultUnstructuredConverter.FromUnstructured(version.Object, seen))
		ready := meta.FindStatusCondition(seen.Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil || len(turns) == 0 && ready.Status != metav1.ConditionTrue || len(turns) > 0 && turns[len(turns)-1] == ready.Status {
			continue
		}
		turns = append(turns, ready.Status)
	}
	return turns
}

// Requests to a store that does not answer once held every worker.
func TestOutage_HungStoreDoesNotHoldUpOtherChanges(t *testing.T) {
	t.Parallel()
	s3, choose := behindProxy(t)
	b := newHarness(t, choose, func(o *options) {
		o.config.OutageGrace = time.Hour
		o.config.UsageInterval = time.Hour
	})
	objects := b.accounts(12)
	s3.hung.Store(true)
	wait.UntilNone(b.t, func() string {
		if s3.requests.Load() < hungWorkers {
			return "not all workers have called the store"
		}
		return ""
	})
	// The store hangs until the end of what follows, so each change is in effect meanwhile.
	change(b, objects[0], func(a *v1alpha1.MediaAccount) { a.Spec.Suspended = true })
	change(b, objects[1], func(a *v1alpha1.MediaAccount) { a.Spec.Storage.MaxStorage = quantity("1Gi") })
	change(b, objects[2], func(a *v1alpha1.MediaAccount) { a.Spec.Apps = []v1alpha1.AppSpec{{Name: "web"}} })
	fresh := b.account("fresh")
	wait.UntilNone(b.t, func() string {
		suspended, err := b.registry.Find(b.ctx, b.namespace, objects[0].Name)
		must(t, err)
		smaller, err := b.registry.Find(b.ctx, b.namespace, objects[1].Name)
		must(t, err)
		if !suspended.Suspended || smaller.MaxStorage != 1<<30 {
			return "the database does not have the changes"
		}
		return ""
	})
	wait.UntilNone(b.t, func() string {
		secret := &corev1.Secret{}
		if err := b.Get(b.ctx, client.ObjectKey{Namespace: b.namespace, Name: v1alpha1.SecretName(objects[2].Name, "web")}, secret); err != nil {
			return err.Error()
		}
		return ""
	})
	b.shows(fresh, v1alpha1.ConditionKeysReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
	b.shows(fresh, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonObjectStoreUnavailable)
	if !b.opens(b.secret(objects[2].Name, "web").Data["apiKey"]) {
		t.Error("the new app has no key")
	}
	wait.UntilNone(b.t, func() string {
		if ended, sent := s3.ended.Load(), s3.requests.Load(); ended < hungWorkers || sent <= hungWorkers {
			return fmt.Sprintf("%d requests were sent, and %d of them were given up", sent, ended)
		}
		return ""
	})
	if together := s3.together.Load(); together > 1 {
		t.Errorf("%d requests at a time were sent to a store that is known to hang, want one", together)
	}
	s3.hung.Store(false)
	b.ready(fresh)
	b.ready(objects[2])
	b.staysReady(objects[5])
}
