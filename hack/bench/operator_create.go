package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
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

// created is what the creation of accounts took until all were Ready.
type created struct {
	from, until int
	took        time.Duration
	cpu         usage
}

func (n created) accounts() int { return n.until - n.from }

// cpuMilliseconds is the processor time of processes for each account.
func (n created) cpuMilliseconds(names ...string) float64 {
	sum := 0.0
	for _, name := range names {
		sum += n.cpu[name]
	}
	return sum * 1000 / float64(n.accounts())
}

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
func (c *cluster) create(ctx context.Context, namespace string, from, until, apps int) (created, error) {
	c.b.say("%s: creating accounts %d to %d in %s", c.b.name, from, until, namespace)
	ready, err := c.watchReady(ctx, namespace)
	if err != nil {
		return created{}, err
	}
	defer ready.stop()
	before, err := c.b.env.cpu()
	if err != nil {
		return created{}, err
	}
	started := time.Now()
	group, creating := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for n := from; n < until && creating.Err() == nil; n++ {
		group.Go(func() error {
			for _, object := range newAccount(namespace, accountName(n), apps) {
				if err := c.api.Create(creating, object); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := errors.Join(group.Wait(), ready.wait(ctx, 2*(until-from))); err != nil {
		return created{}, err
	}
	took := time.Since(started)
	after, err := c.b.env.cpu()
	c.b.say("%s: %d accounts were Ready after %s", c.b.name, until-from, took.Round(time.Second/10))
	return created{from: from, until: until, took: took, cpu: after.since(before)}, err
}

// readyWatch counts the objects of a namespace that became Ready.
type readyWatch struct {
	stop context.CancelFunc

	mu      sync.Mutex
	ready   map[string]bool
	changed chan struct{} // has room for one
	failed  error
}

// watchReady begins to count with the next change of a MediaAccount or a MediaSettings.
func (c *cluster) watchReady(ctx context.Context, namespace string) (*readyWatch, error) {
	ctx, stop := context.WithCancel(ctx)
	w := &readyWatch{stop: stop, ready: map[string]bool{}, changed: make(chan struct{}, 1)}
	for _, list := range []kube.ObjectList{&v1alpha1.MediaAccountList{}, &v1alpha1.MediaSettingsList{}} {
		if err := c.api.List(ctx, list, kube.InNamespace(namespace), kube.Limit(1)); err != nil {
			stop()
			return nil, err
		}
		from := &kube.ListOptions{Namespace: namespace, Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}}
		events, err := c.api.Watch(ctx, list, from)
		if err != nil {
			stop()
			return nil, err
		}
		go func() {
			defer events.Stop()
			for event := range events.ResultChan() {
				w.see(event.Object.(any))
			}
			w.fail(errors.New("the watch of the API server ended"))
		}()
	}
	return w, nil
}

func (w *readyWatch) see(object any) {
	var key string
	var ready bool
	switch object := object.(type) {
	case *v1alpha1.MediaAccount:
		key, ready = "account/"+object.Name, isReady(object.Status.Conditions, object.Generation)
	case *v1alpha1.MediaSettings:
		key, ready = "settings/"+object.Name, isReady(object.Status.Conditions, object.Generation)
	default:
		w.fail(fmt.Errorf("the watch reported %T", object))
		return
	}
	if !ready {
		return
	}
	w.mu.Lock()
	w.ready[key] = true
	w.mu.Unlock()
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

func isReady(conditions []metav1.Condition, generation int64) bool {
	ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	return ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == generation
}

func (w *readyWatch) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = errors.Join(w.failed, err)
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// wait returns when so many objects were Ready.
func (w *readyWatch) wait(ctx context.Context, want int) error {
	for {
		w.mu.Lock()
		count, failed := len(w.ready), w.failed
		w.mu.Unlock()
		if count >= want {
			return nil
		}
		if failed != nil {
			return failed
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.changed:
		case <-time.After(stalledAfter):
			return fmt.Errorf("%d of %d objects are Ready, and none became so for %s", count, want, stalledAfter)
		}
	}
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
