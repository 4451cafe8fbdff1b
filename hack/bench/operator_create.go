package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
)

// creators is how many objects are created at a time: as many as the operator has workers.
const creators = 8

// stalledAfter is how long no account may become Ready before the benchmark ends with an error.
const stalledAfter = 2 * time.Minute

func accountName(n int) string { return fmt.Sprintf("account-%06d", n) }

// newAccount is an account, and the MediaSettings of the same name.
func newAccount(namespace, name string, apps int) []kube.Object {
	account := &v1alpha1.MediaAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.MediaAccountSpec{
		DisplayName: "Team " + name, Owners: []v1alpha1.EmailAddress{v1alpha1.EmailAddress(name + "@example.org")}}}
	for n := range apps {
		account.Spec.Apps = append(account.Spec.Apps, v1alpha1.AppSpec{Name: fmt.Sprintf("app-%02d", n)})
	}
	settings := &v1alpha1.MediaSettings{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.MediaSettingsSpec{
		AccountRef: v1alpha1.AccountReference{Name: name}, UseWebP: new(true), WebPOutputQuality: new(int32(82))}}
	return []kube.Object{account, settings}
}

// create creates the accounts from..until with a MediaSettings each, and waits until all are Ready.
func (c *cluster) create(ctx context.Context, namespace string, from, until int) (took time.Duration, used counters, err error) {
	c.b.say("%s: creating accounts %d to %d in %s", c.b.name, from, until, namespace)
	var objects []kube.Object
	for n := from; n < until; n++ {
		objects = append(objects, newAccount(namespace, accountName(n), c.b.Apps)...)
	}
	group, providing := errgroup.WithContext(ctx)
	for _, list := range []kube.ObjectList{&v1alpha1.MediaAccountList{}, &v1alpha1.MediaSettingsList{}} {
		ready, err := c.watchReady(providing, namespace, list, until-from)
		if err != nil {
			return 0, counters{}, err
		}
		group.Go(ready)
	}
	used, _, err = c.count(ctx, func(context.Context) error {
		started := time.Now()
		group.Go(func() error {
			creating, ctx := errgroup.WithContext(providing)
			creating.SetLimit(creators)
			for _, object := range objects {
				creating.Go(func() error { return c.api.Create(ctx, object) })
			}
			return creating.Wait()
		})
		defer func() { took = time.Since(started) }()
		return group.Wait()
	})
	c.b.say("%s: %d accounts were Ready after %s", c.b.name, until-from, took.Round(time.Second/10))
	return took, used, err
}

// watchReady begins a watch of the objects of a kind, and returns what waits until so many are Ready.
func (c *cluster) watchReady(ctx context.Context, namespace string, list kube.ObjectList, want int) (func() error, error) {
	if err := c.api.List(ctx, list, kube.InNamespace(namespace), kube.Limit(1)); err != nil {
		return nil, err
	}
	events, err := c.api.Watch(ctx, list, &kube.ListOptions{Namespace: namespace, Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}})
	return func() error {
		defer events.Stop()
		stalled := time.AfterFunc(stalledAfter, events.Stop)
		defer stalled.Stop()
		ready := map[string]bool{}
		for event := range events.ResultChan() {
			var conditions []metav1.Condition
			switch object := event.Object.(type) {
			case *v1alpha1.MediaAccount:
				conditions = object.Status.Conditions
			case *v1alpha1.MediaSettings:
				conditions = object.Status.Conditions
			}
			object, isObject := event.Object.(kube.Object)
			if condition := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady); !isObject || condition == nil || condition.Status != metav1.ConditionTrue || condition.ObservedGeneration != object.GetGeneration() || ready[object.GetName()] {
				continue
			}
			stalled.Reset(stalledAfter)
			if ready[object.GetName()] = true; len(ready) == want {
				return nil
			}
		}
		return fmt.Errorf("%d of %d objects of %T are Ready: the watch ended, or none became so for %s", len(ready), want, list, stalledAfter)
	}, err
}
