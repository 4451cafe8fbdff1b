package mediaaccount

import (
	"context"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/account"
)

// cached is a client whose cache has some MediaAccounts.
type cached struct {
	client.Client
	objects []*v1alpha1.MediaAccount
}

// Get implements client.Reader.
func (c cached) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	for _, object := range c.objects {
		if client.ObjectKeyFromObject(object) == key {
			object.DeepCopyInto(into.(*v1alpha1.MediaAccount))
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

// The end of the check of a new bucket, and the operator's own changes in PostgreSQL, once had the
// priority of a change: a suspension took 6.4 s while 1,000 accounts were created.
func TestUrgency_WhatANewAccountAsksForComesAfterChanges(t *testing.T) {
	t.Parallel()
	object := func(name string, observed int64) *v1alpha1.MediaAccount {
		return &v1alpha1.MediaAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID(name), Generation: 2}, Status: v1alpha1.MediaAccountStatus{ObservedGeneration: observed}}
	}
	created, provisioned, used := object("new", -1), object("provisioned", 0), object("used", 2)
	changed, repaired := object("changed", 1), object("repaired", 2)
	r := New(Config{BucketCheckInterval: time.Minute}, Deps{Deps: reconcile.Deps{
		Now: func() time.Time { return noon }, Client: cached{objects: []*v1alpha1.MediaAccount{created, provisioned, used, changed, repaired}},
	}})
	queue, checks := queued(t, r.deps.Queue), queued(t, r.buckets.queue)

	for _, of := range []*v1alpha1.MediaAccount{created, repaired} { // both await the check of their bucket
		s := &scope{Run: reconcile.NewRun(r.deps.Deps, of), account: account.Account{Bucket: of.Name}}
		r.ensureBucket(t.Context(), s)
		r.buckets.Await(client.ObjectKeyFromObject(of), r.bucketWant(s))
		bucketReconciler{r}.learn(s, r.bucketWant(s), nil)
	}
	for _, of := range []*v1alpha1.MediaAccount{provisioned, changed} { // as the watcher of PostgreSQL does
		r.Request(t.Context(), reconcile.PriorityChange, client.ObjectKeyFromObject(of), 1)
	}
	r.Request(t.Context(), reconcile.PriorityRepeat, client.ObjectKeyFromObject(used), 1)

	var order []string
	for range 5 {
		request, _ := queue.Get()
		order = append(order, request.Name)
	}
	if want := []string{"repaired", "changed", "new", "provisioned", "used"}; !slices.Equal(order, want) {
		t.Errorf("the order is %q, want %q", order, want)
	}
	if first, _ := checks.Get(); first.Name != "repaired" {
		t.Errorf("the bucket of %s is checked first", first.Name)
	}
}
