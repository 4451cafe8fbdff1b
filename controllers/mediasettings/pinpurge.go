package mediasettings

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/settings"
)

const (
	// purgeName is the name of the controller in logs and metrics.
	purgeName = "mediasettings-pins"
	// purgeInterval is the interval between two looks at most; pins are removed after two.
	purgeInterval = 20 * time.Second
)

// pinPurger removes the pins of MediaSettings that are gone: the finalizer removes them otherwise,
// but it can be removed by hand, and so can the definition of the resource.
type pinPurger struct {
	cache      client.Reader
	live       client.Reader
	settings   *settings.Service
	namespaces []string // that are watched; empty = all
	interval   time.Duration

	missing map[string]bool // UIDs that the last look did not find
}

// purge removes the pins whose object the cache lacked in two looks and the API server does not
// have either.
func (s *pinPurger) purge(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	pinned, err := s.settings.PinnedBy(ctx)
	if err != nil {
		return err
	}
	present, err := s.cached(ctx)
	if err != nil {
		return err
	}
	missing := map[string]bool{}
	for _, object := range pinned {
		if present[object.UID] || !s.watches(object) {
			continue
		}
		missing[object.UID] = true
		if !s.missing[object.UID] {
			continue
		}
		gone, err := s.gone(ctx, object)
		if err != nil {
			return err
		}
		if !gone {
			continue
		}
		log.FromContext(ctx).Info("removing the pins of a MediaSettings that does not exist any more", "object", object.Name, "uid", object.UID)
		if err := s.settings.Unpin(ctx, object.UID); err != nil {
			return err
		}
	}
	s.missing = missing
	return nil
}

// cached returns the UIDs of the MediaSettings in the cache.
func (s *pinPurger) cached(ctx context.Context) (map[string]bool, error) {
	list := &v1alpha1.MediaSettingsList{}
	if err := s.cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the MediaSettings: %w", err)
	}
	uids := make(map[string]bool, len(list.Items))
	for i := range list.Items {
		uids[string(list.Items[i].UID)] = true
	}
	return uids, nil
}

// watches reports whether the cache has the object's namespace.
func (s *pinPurger) watches(object settings.Object) bool {
	namespace, _, _ := strings.Cut(object.Name, "/")
	return len(s.namespaces) == 0 || slices.Contains(s.namespaces, namespace)
}

// gone reports whether the API server does not have the object, or has another one of its name.
func (s *pinPurger) gone(ctx context.Context, object settings.Object) (bool, error) {
	namespace, name, _ := strings.Cut(object.Name, "/")
	found := &v1alpha1.MediaSettings{}
	err := s.live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, found)
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("read MediaSettings %s: %w", object.Name, err)
	}
	return string(found.UID) != object.UID, nil
}

// Reconcile implements reconcile.Reconciler: it is one request that repeats itself, so that only
// the leader purges.
func (s *pinPurger) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	if err := s.purge(ctx); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: s.interval}, nil
}

// setup registers the controller.
func (s *pinPurger) setup(mgr ctrl.Manager, gate *reconcile.Gate, options controller.Options) error {
	options.MaxConcurrentReconciles = 1
	options.Reconciler = reconcile.Gated(gate, s)
	purging, err := controller.New(purgeName, mgr, options)
	if err != nil {
		return err
	}
	return purging.Watch(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		queue.Add(ctrl.Request{})
		return nil
	}))
}
