// Package mediasettings pins the settings of an account as the oldest MediaSettings
// of its namespace says, and shows in every such object's status what holds. The
// operator's manager runs its Reconciler.
//
// It has the shape of package mediaaccount: steps look and mend, observed keeps what
// they saw, conditions.go turns that into conditions.
package mediasettings

import (
	"context"
	"time"

	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/google/uuid"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/status"
	"mediastack.dev/runtime/settings"
)

// Name is the controller's name in logs, metrics and events.
const Name = "mediasettings"

// accountIndex finds the MediaSettings of an account.
const accountIndex = ".spec.accountRef.name"

const (
	databaseTimeout = 10 * time.Second
	// again is how long a reconcile waits that lost a race for its own object.
	again = 500 * time.Millisecond
)

// Config is what an admin can set about this controller.
type Config struct {
	// RefreshInterval is how often the tenant's choices are read for the status: they
	// change in PostgreSQL, without an event.
	RefreshInterval time.Duration
	// Options of the controller: concurrency and rate limiter.
	Options controller.Options
}

// Reconciler pins settings.
type Reconciler struct {
	client   client.Client
	events   events.EventRecorder
	settings *settings.Service
	config   Config
	now      func() time.Time
}

// New joins a Reconciler to what it needs.
func New(c client.Client, recorder events.EventRecorder, service *settings.Service, config Config, now func() time.Time) *Reconciler {
	return &Reconciler{client: c, events: recorder, settings: service, config: config, now: now}
}

// SetupWithManager registers the controller: it reconciles a MediaSettings when its
// spec changes, when another of the same account comes or goes (the oldest rules),
// when the account becomes usable or ends, and on its timer.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.MediaSettings{}, accountIndex, func(object client.Object) []string {
		return []string{object.(*v1alpha1.MediaSettings).Spec.AccountRef.Name}
	})
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named(Name).
		For(&v1alpha1.MediaSettings{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.MediaSettings{}, handler.EnqueueRequestsFromMapFunc(r.siblings), builder.WithPredicates(succession())).
		Watches(&v1alpha1.MediaAccount{}, handler.EnqueueRequestsFromMapFunc(r.ofAccount), builder.WithPredicates(accountChanges())).
		WithOptions(r.config.Options).
		Complete(r)
}

// +kubebuilder:rbac:groups=mediastack.dev,resources=mediasettings,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=mediastack.dev,resources=mediasettings/status,verbs=patch
// +kubebuilder:rbac:groups=mediastack.dev,resources=mediaaccounts,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// step does one thing and records what it saw. It says whether the steps after it
// have something to stand on.
type step func(ctx context.Context, run *run) bool

// run is one reconcile of one object.
type run struct {
	before    *v1alpha1.MediaSettings // as read
	object    *v1alpha1.MediaSettings // as it will be
	accountID uuid.UUID               // Nil when the account can't be used
	seen      observed
	lost      bool // a race for the object was lost: look again soon
	over      bool // the object is gone
}

// by names the object as the one who pins.
func (run *run) by() string { return run.object.Namespace + "/" + run.object.Name }

// Reconcile brings the account's pins to what the ruling MediaSettings says.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (result ctrl.Result, err error) {
	object := &v1alpha1.MediaSettings{}
	if err := r.client.Get(ctx, request.NamespacedName, object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	run := &run{before: object.DeepCopy(), object: object}
	defer func() { result, err = r.report(ctx, run) }()

	steps := []step{r.ensureFinalizer, r.findAccount, r.findRuler, r.pin, r.readLayers}
	if !object.DeletionTimestamp.IsZero() {
		steps = []step{r.findAccount, r.unpin, r.release}
	}
	for _, step := range steps {
		if !step(ctx, run) {
			break
		}
	}
	return ctrl.Result{}, nil
}

// report turns what was seen into the status, writes it if it differs, and says when
// to look again.
func (r *Reconciler) report(ctx context.Context, run *run) (ctrl.Result, error) {
	switch {
	case run.over:
		return ctrl.Result{}, nil
	case run.lost:
		return ctrl.Result{RequeueAfter: status.Jitter(again)}, nil
	}
	next := &run.object.Status
	status.Set(&next.Conditions, run.object.Generation, conditions(run.seen))
	if run.seen.handled() {
		next.ObservedGeneration = run.object.Generation
	}
	showLayers(next, run.seen)
	wrote, err := status.Write(ctx, r.client, run.before, run.object)
	if err != nil {
		return ctrl.Result{}, err
	}
	if wrote {
		status.Announce(r.events, run.object, run.before.Status.Conditions, next.Conditions)
	}
	if run.seen.failure.Retries() {
		return ctrl.Result{}, run.seen.failure.Err
	}
	return ctrl.Result{RequeueAfter: status.Jitter(r.config.RefreshInterval)}, nil
}
