// Package retained keeps the RetainedMediaAccount objects equal to the closed accounts in
// PostgreSQL, which is the truth: an object that is deleted is created again. It applies what a
// cluster admin sets in their spec, deletes the media of accounts that are due, and closes
// accounts whose MediaAccount is gone. The operator's manager runs it; package mediaaccount
// calls FindBinding.
package retained

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	ctrlreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/erasure"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/account"
)

// Names of the controllers in logs, metrics and events.
const (
	Name        = "retainedmediaaccount"
	passName    = "retainedmediaaccount-pass"
	erasureName = "retainedmediaaccount-erasure"
)

const (
	databaseTimeout = 10 * time.Second
	// passTimeout bounds a pass, so that a database that does not respond does not block it.
	passTimeout = 2 * time.Minute
)

// Config configures the controllers.
type Config struct {
	// Interval is the interval between two comparisons of the database with the cluster.
	Interval time.Duration
	// OrphanDelay is the time between the two looks that must find a MediaAccount missing before
	// its account is closed.
	OrphanDelay time.Duration
	// TakeOverGrace is the time after a take-over in which the MediaAccounts may be applied.
	TakeOverGrace time.Duration
	// Namespaces that the operator watches; all if empty.
	Namespaces []string
	// Options of the controller: concurrency and rate limiter.
	Options controller.Options
	// ErasureOptions are those of the controller that deletes media.
	ErasureOptions controller.Options
}

// Eraser deletes the media of closed accounts.
type Eraser interface {
	// Erase works for a time slice; see package erasure.
	Erase(ctx context.Context, target erasure.Target) (erasure.Progress, error)
}

var _ Eraser = (*erasure.Eraser)(nil)

// Deps are the parts that a Reconciler uses.
type Deps struct {
	reconcile.Deps
	APIReader client.Reader // reads from the API server
	Accounts  *account.Registry
	Eraser    Eraser
	Log       *slog.Logger
}

// Reconciler keeps RetainedMediaAccount objects equal to the closed accounts.
type Reconciler struct {
	deps   Deps
	config Config

	// differs has the objects that the pass found to differ from the database.
	differs chan event.GenericEvent
	// due has the objects of accounts whose media is to be deleted.
	due chan event.GenericEvent
	// suspects are the accounts that the last pass found without a MediaAccount. Only the pass
	// uses it, which never runs twice at a time.
	suspects map[uuid.UUID]suspect
	// orphans are accounts that this process closed as orphans, until their event was recorded.
	orphans sync.Map
}

// New returns a Reconciler that uses deps.
func New(config Config, deps Deps) *Reconciler {
	return &Reconciler{deps: deps, config: config, differs: make(chan event.GenericEvent), due: make(chan event.GenericEvent)}
}

// SetupWithManager registers three controllers. One reconciles the object of one account when
// its spec changes, when it is deleted, when a MediaAccount is deleted or bound, and when the
// pass, which is the second, finds a difference. The third deletes media.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	objects := ctrl.NewControllerManagedBy(mgr).
		Named(Name).
		For(&v1alpha1.RetainedMediaAccount{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.MediaAccount{}, handler.EnqueueRequestsFromMapFunc(r.concerned), builder.WithPredicates(accountReleased())).
		Watches(&v1alpha1.MediaAccount{}, handler.EnqueueRequestsFromMapFunc(r.bound), builder.WithPredicates(accountBound())).
		WatchesRawSource(source.Channel(r.differs, &handler.EnqueueRequestForObject{})).
		WithOptions(r.config.Options).
		Complete(reconcile.Gated(r.deps.Gate, r))
	options := r.config.Options
	options.MaxConcurrentReconciles = 1
	pass := ctrl.NewControllerManagedBy(mgr).
		Named(passName).
		WatchesRawSource(once(passName)).
		WithOptions(options).
		Complete(reconcile.Gated(r.deps.Gate, ctrlreconcile.Func(r.pass)))
	erasures := ctrl.NewControllerManagedBy(mgr).
		Named(erasureName).
		WatchesRawSource(source.Channel(r.due, &handler.EnqueueRequestForObject{})).
		WithOptions(r.config.ErasureOptions).
		Complete(reconcile.Gated(r.deps.Gate, ctrlreconcile.Func(r.erase)))
	return errors.Join(objects, pass, erasures)
}

// +kubebuilder:rbac:groups=mediastack.dev,resources=retainedmediaaccounts,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=mediastack.dev,resources=retainedmediaaccounts/status,verbs=patch
// +kubebuilder:rbac:groups=mediastack.dev,resources=mediaaccounts,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// once is a source of one request, which its reconciler repeats.
func once(name string) source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		queue.Add(ctrl.Request{NamespacedName: types.NamespacedName{Name: name}})
		return nil
	})
}

// concerned maps a MediaAccount to the RetainedMediaAccount that its account has, or had, and to
// those whose claimRef names it. The status may be wrong: it only says at what to look.
func (r *Reconciler) concerned(ctx context.Context, object client.Object) []ctrl.Request {
	var requests []ctrl.Request
	if id := object.(*v1alpha1.MediaAccount).Status.AccountID; id != "" {
		requests = append(requests, ctrl.Request{NamespacedName: types.NamespacedName{Name: id}})
	}
	list := &v1alpha1.RetainedMediaAccountList{}
	if err := r.deps.Client.List(ctx, list, client.MatchingFields{claimIndex: client.ObjectKeyFromObject(object).String()}); err != nil {
		r.deps.Log.ErrorContext(ctx, "cannot read the RetainedMediaAccounts in the cache", "error", err)
	}
	for i := range list.Items {
		requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// bound is concerned without an object that the cache does not have: a new account never had one. The pass
// finds one that is missed.
func (r *Reconciler) bound(ctx context.Context, object client.Object) []ctrl.Request {
	return slices.DeleteFunc(r.concerned(ctx, object), func(request ctrl.Request) bool {
		return apierrors.IsNotFound(r.deps.Client.Get(ctx, request.NamespacedName, &v1alpha1.RetainedMediaAccount{}))
	})
}

// accountBound selects the events after which an account may not be retained any more.
func accountBound() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok1 := e.ObjectOld.(*v1alpha1.MediaAccount)
			after, ok2 := e.ObjectNew.(*v1alpha1.MediaAccount)
			return !ok1 || !ok2 || before.Status.AccountID != after.Status.AccountID
		},
	}
}

// accountReleased selects the events after which an account may be retained.
func accountReleased() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return true },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok1 := e.ObjectOld.(*v1alpha1.MediaAccount)
			after, ok2 := e.ObjectNew.(*v1alpha1.MediaAccount)
			return !ok1 || !ok2 || controllerutil.ContainsFinalizer(before, v1alpha1.Finalizer) && !controllerutil.ContainsFinalizer(after, v1alpha1.Finalizer)
		},
	}
}

// pass compares all retained accounts with their objects, and all open accounts with theirs. It
// repeats itself.
func (r *Reconciler) pass(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()
	if err := r.compare(ctx); err != nil {
		return ctrl.Result{}, fmt.Errorf("compare the retained accounts: %w", err)
	}
	if err := r.findOrphans(ctx); err != nil {
		return ctrl.Result{}, fmt.Errorf("look for accounts without a MediaAccount: %w", err)
	}
	if len(r.suspects) > 0 {
		return ctrl.Result{RequeueAfter: min(r.config.OrphanDelay, r.config.Interval)}, nil
	}
	return ctrl.Result{RequeueAfter: r.config.Interval}, nil
}

// compare requests a reconcile of every object that differs from the database.
func (r *Reconciler) compare(ctx context.Context) error {
	objects, err := r.cached(ctx)
	if err != nil {
		return err
	}
	installation, err := r.deps.Accounts.InstallationID(ctx)
	if err != nil {
		return err
	}
	var differing []string
	err = r.deps.Accounts.EachRetained(ctx, func(row account.Retained) {
		object := objects[row.ID.String()]
		delete(objects, row.ID.String())
		if object == nil || differs(row, object) {
			differing = append(differing, row.ID.String())
		}
	})
	if err != nil {
		return err
	}
	for name, object := range objects { // their accounts are open, or erased
		if isManaged(object) && object.Spec.InstallationID == installation.String() {
			differing = append(differing, name)
		}
	}
	for _, name := range differing {
		if err := r.request(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// request requests a reconcile of the object of an account.
func (r *Reconciler) request(ctx context.Context, name string) error {
	return send(ctx, r.differs, name)
}

// send puts the object of an account into the queue of a controller.
func send(ctx context.Context, to chan<- event.GenericEvent, name string) error {
	object := &v1alpha1.RetainedMediaAccount{}
	object.Name = name
	select {
	case to <- event.GenericEvent{Object: object}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// cached returns the objects in the cache, which must not be changed, by name.
func (r *Reconciler) cached(ctx context.Context) (map[string]*v1alpha1.RetainedMediaAccount, error) {
	list := &v1alpha1.RetainedMediaAccountList{}
	if err := r.deps.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	byName := make(map[string]*v1alpha1.RetainedMediaAccount, len(list.Items))
	for i := range list.Items {
		byName[list.Items[i].Name] = &list.Items[i]
	}
	return byName, nil
}
