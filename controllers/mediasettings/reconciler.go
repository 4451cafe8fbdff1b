// Package mediasettings reconciles MediaSettings objects. The oldest MediaSettings of an
// account in its namespace is active: its spec is pinned in PostgreSQL, and its status shows
// the effective settings. The operator's manager runs the Reconciler.
//
// It has the shape of package mediaaccount: steps record what they saw in observed, and
// conditions.go computes the conditions from observed alone.
package mediasettings

import (
	"context"
	"time"

	"github.com/google/uuid"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/settings"
)

// Name is the controller's name in logs, metrics and events.
const Name = "mediasettings"

// accountIndex finds the MediaSettings of an account.
const accountIndex = ".spec.accountRef.name"

const databaseTimeout = 10 * time.Second

// Config configures this controller.
type Config struct {
	// PurgeInterval is the interval between two looks for pins whose object is gone.
	PurgeInterval time.Duration
	// CountInterval is the interval between two looks for statuses that show other counts of pictures than the
	// database has, and CountRate how many of them are written in a second at most.
	CountInterval time.Duration
	CountRate     int
	// Namespaces are those that the cache has; empty = all.
	Namespaces []string
	// Options of the controller: concurrency and rate limiter.
	Options controller.Options
}

// Deps are the parts that a Reconciler uses.
type Deps struct {
	reconcile.Deps
	APIReader client.Reader // reads from the API server
	Accounts  *account.Registry
	Settings  *settings.Service
	Counts    Counts
}

// Reconciler reconciles MediaSettings objects.
type Reconciler struct {
	deps   Deps
	config Config
	shown  *reconcile.Shown
}

// New returns a Reconciler that uses deps.
func New(config Config, deps Deps) *Reconciler {
	deps.Queue, deps.Written = &reconcile.Queue{}, reconcile.NewWritten()
	return &Reconciler{deps: deps, config: config, shown: reconcile.NewShown()}
}

// SetupWithManager registers the controller. It reconciles a MediaSettings when its spec
// changes, when another of the same account is created or deleted (the oldest is active),
// when the account becomes usable or is deleted, when another client changed its status, and when its
// Queue says so.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.MediaSettings{}, accountIndex, func(object client.Object) []string {
		return []string{object.(*v1alpha1.MediaSettings).Spec.AccountRef.Name}
	})
	if err != nil {
		return err
	}
	pins := &pinPurger{
		cache: r.deps.Client, live: r.deps.APIReader, settings: r.deps.Settings,
		namespaces: r.config.Namespaces, interval: min(r.config.PurgeInterval, purgeInterval),
	}
	if err := pins.setup(mgr, r.deps.Gate, r.config.Options); err != nil {
		return err
	}
	if err := mgr.Add(manager.RunnableFunc(r.compareCounts)); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named(Name).
		Watches(&v1alpha1.MediaSettings{}, reconcile.ByUrgency(observedGeneration), builder.WithPredicates(predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, r.deps.Written.ForeignStatus(wholeStatus)))).
		Watches(&v1alpha1.MediaSettings{}, reconcile.RelatedByUrgency(r.peers, observedGeneration), builder.WithPredicates(activeMayChange())).
		Watches(&v1alpha1.MediaAccount{}, reconcile.RelatedByUrgency(r.ofAccount, observedGeneration), builder.WithPredicates(accountChanges())).
		WatchesRawSource(r.deps.Queue.Source()).
		WithOptions(r.config.Options).
		Complete(reconcile.Gated(r.deps.Gate, r))
}

// +kubebuilder:rbac:groups=mediastack.dev,resources=mediasettings,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=mediastack.dev,resources=mediasettings/status,verbs=patch
// +kubebuilder:rbac:groups=mediastack.dev,resources=mediaaccounts,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// scope is one reconcile of one object.
type scope struct {
	*reconcile.Run[*v1alpha1.MediaSettings]

	accountID      uuid.UUID // Nil when the account cannot be used
	accountUID     string    // of its MediaAccount
	state          settings.State
	awaitsAccount  time.Time // until when the status waits for a new account; zero = it does not
	databaseCalled bool      // not only admitDatabase's answer is known
	observed       observed
}

// pinOwner returns the object as the owner of pins.
func (s *scope) pinOwner() settings.Object {
	return settings.Object{Name: s.Object.Namespace + "/" + s.Object.Name, UID: string(s.Object.UID)}
}

// Reconcile makes the pins of the account match its active MediaSettings, and the status
// match what was seen.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (result ctrl.Result, err error) {
	r.shown.Begin(request.NamespacedName)
	shows := int64(0)
	defer func() { r.shown.End(request.NamespacedName, shows) }()
	run, err := reconcile.Begin(ctx, r.deps.Deps, request, &v1alpha1.MediaSettings{})
	if run == nil {
		return ctrl.Result{}, err
	}
	s := &scope{Run: run}
	s.observed.deleting = s.Deleting()
	defer func() {
		if result, err = r.report(ctx, s); err == nil && !s.StatusSkipped() && s.state.ObjectUID == s.accountUID {
			shows = s.state.Version
		}
	}()

	if s.Deleting() {
		reconcile.RunSteps(ctx, s, r.admitDatabase, r.unpin, r.removeFinalizer)
	} else {
		reconcile.RunSteps(ctx, s, r.ensureFinalizer, r.admitDatabase, r.findAccount, r.resolveActive, r.pin, r.readLayers)
	}
	return ctrl.Result{}, nil
}

// ensureFinalizer adds the finalizer before anything is pinned.
func (r *Reconciler) ensureFinalizer(ctx context.Context, s *scope) bool {
	added, failure := s.AddFinalizer(ctx)
	s.observed.failure = failure
	return added
}

// admitDatabase ends the reconcile at once while PostgreSQL is out and others try it.
func (r *Reconciler) admitDatabase(_ context.Context, s *scope) bool {
	s.observed.failure = r.deps.Outages.Admit(reconcile.Database)
	s.databaseCalled = s.observed.failure == nil
	return s.databaseCalled
}

// removeFinalizer removes the finalizer, so that Kubernetes deletes the object: it has no pins any more.
func (r *Reconciler) removeFinalizer(ctx context.Context, s *scope) bool {
	removed, failure := s.RemoveFinalizer(ctx)
	r.deps.Written.Forget(s.Object.UID)
	s.observed.failure = failure
	s.observed.keptBy = reconcile.Finalizers(s.Object)
	return removed
}

// report writes the status from what the steps saw.
func (r *Reconciler) report(ctx context.Context, s *scope) (ctrl.Result, error) {
	setLayerStatus(&s.Object.Status, s.observed)
	failures := []*reconcile.StepError{s.observed.failure}
	if s.databaseCalled {
		r.deps.Outages.Called(ctx, reconcile.Database, failures...)
	}
	r.awaitAccount(s)
	return s.Report(ctx, statusOf, reconcile.Observation{
		Conditions:         conditions(s.observed),
		GenerationObserved: s.observed.generationObserved(),
		Failures:           failures,
		Interval:           r.config.PurgeInterval,
	})
}

var conditionTypes = reconcile.SummaryTypes()

func statusOf(object *v1alpha1.MediaSettings) reconcile.Status {
	return reconcile.Status{Conditions: &object.Status.Conditions, ObservedGeneration: &object.Status.ObservedGeneration, Types: conditionTypes, All: &object.Status}
}

func wholeStatus(object client.Object) any { return &object.(*v1alpha1.MediaSettings).Status }

func observedGeneration(object *v1alpha1.MediaSettings) int64 {
	return object.Status.ObservedGeneration
}
