package retained

import (
	"context"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/runtime/account"
)

// suspect is an open account whose MediaAccount was found missing.
type suspect struct {
	objectUID string
	since     time.Time
}

// findOrphans closes the open accounts whose MediaAccount does not exist: its finalizer was
// removed by force, or its custom resource definition or namespace was. The API server must say
// so twice, OrphanDelay apart; the first look at the cache saves requests only.
func (r *Reconciler) findOrphans(ctx context.Context) error {
	missing, err := r.missing(ctx)
	if err != nil {
		return err
	}
	suspects := map[uuid.UUID]suspect{}
	for _, bound := range missing {
		gone, err := r.isGone(ctx, bound)
		if err != nil {
			return err
		}
		if !gone {
			continue
		}
		seen, again := r.suspects[bound.ID]
		if !again || seen.objectUID != bound.ObjectUID {
			seen = suspect{objectUID: bound.ObjectUID, since: r.deps.Now()}
		}
		if r.deps.Now().Sub(seen.since) < r.config.OrphanDelay {
			suspects[bound.ID] = seen
			continue
		}
		if err := r.closeOrphan(ctx, bound); err != nil {
			return err
		}
	}
	r.suspects = suspects
	return nil
}

// missing returns the open accounts whose MediaAccount is not in the cache.
func (r *Reconciler) missing(ctx context.Context) ([]account.Bound, error) {
	list := &v1alpha1.MediaAccountList{}
	if err := r.deps.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	cached := make(map[types.NamespacedName]bool, len(list.Items))
	for i := range list.Items {
		cached[client.ObjectKeyFromObject(&list.Items[i])] = true
	}
	var missing []account.Bound
	err := r.deps.Accounts.EachBound(ctx, r.config.Namespaces, r.config.TakeOverGrace, func(bound account.Bound) {
		if !cached[types.NamespacedName{Namespace: bound.Namespace, Name: bound.Name}] {
			missing = append(missing, bound)
		}
	})
	return missing, err
}

// isGone reports whether the API server has no MediaAccount of the account's namespace and name.
// An API server without the kind has none either: the definition was deleted. One that starts
// answers 503 until it serves all kinds.
func (r *Reconciler) isGone(ctx context.Context, bound account.Bound) (bool, error) {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("MediaAccount"))
	err := r.deps.APIReader.Get(ctx, types.NamespacedName{Namespace: bound.Namespace, Name: bound.Name}, object)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return true, nil
	}
	return false, err
}

// closeOrphan closes the account, unless it was bound to another MediaAccount meanwhile.
func (r *Reconciler) closeOrphan(ctx context.Context, orphan account.Bound) error {
	closed, err := r.deps.Accounts.CloseOrphan(ctx, orphan)
	if err != nil || !closed {
		return err
	}
	r.deps.Log.WarnContext(ctx, "closed an account whose MediaAccount is gone; its media is retained",
		"namespace", orphan.Namespace, "name", orphan.Name, "account", orphan.ID)
	r.orphans.Store(orphan.ID.String(), orphan)
	return r.request(ctx, orphan.ID.String())
}
