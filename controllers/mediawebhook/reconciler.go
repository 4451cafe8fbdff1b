// Package mediawebhook reconciles MediaWebhook objects: the webhook in PostgreSQL, which the runtimes deliver, and the Secret that signs
// its deliveries. The operator's manager runs the Reconciler. It never sends anything itself.
//
// It has the shape of package mediaaccount: steps record what they saw in observed, and conditions.go computes the conditions from
// observed alone.
package mediawebhook

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/webhook"
)

// Name is the controller's name in logs, metrics and events.
const Name = "mediawebhook"

const databaseTimeout = 10 * time.Second

// Config configures this controller.
type Config struct {
	// CompareInterval is the interval between two comparisons of the statuses with the database, and CompareRate how many of them are
	// written in a second at most. Secrets that the spec names are read again at that interval, too.
	CompareInterval time.Duration
	CompareRate     int
	// PerAccount is how many MediaWebhooks an account may have.
	PerAccount int
	// OwnNamespace is that of the operator, where MediaWebhooks of all accounts may be.
	OwnNamespace string
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
	Webhooks  webhook.Registry
}

// Reconciler reconciles MediaWebhook objects.
type Reconciler struct {
	deps   Deps
	config Config
}

// New returns a Reconciler that uses deps.
func New(config Config, deps Deps) *Reconciler {
	deps.Queue, deps.Written = &reconcile.Queue{}, reconcile.NewWritten()
	return &Reconciler{deps: deps, config: config}
}

// SetupWithManager registers the controller. It reconciles a MediaWebhook when its spec or its annotations change, when another one of the
// same account is created or deleted (the oldest are active), when the account becomes usable or is deleted, when the Secret of the
// operator's making changes, when another client changed its status, and when its Queue says so.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	err := errors.Join(addIndex(ctx, mgr.GetFieldIndexer()), mgr.Add(manager.RunnableFunc(r.compare)))
	if err != nil {
		return err
	}
	changed := predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, r.deps.Written.ForeignStatus(wholeStatus))
	return ctrl.NewControllerManagedBy(mgr).
		Named(Name).
		Watches(&v1alpha1.MediaWebhook{}, reconcile.ByUrgency(observedGeneration), builder.WithPredicates(changed)). // a deletion raises the generation, too
		Watches(&v1alpha1.MediaWebhook{}, reconcile.RelatedByUrgency(r.peers, observedGeneration), builder.WithPredicates(CountChanges())).
		Watches(&v1alpha1.MediaAccount{}, reconcile.RelatedByUrgency(r.ofAccount, observedGeneration), builder.WithPredicates(accountChanges())).
		Watches(&corev1.Secret{}, handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &v1alpha1.MediaWebhook{}, handler.OnlyControllerOwner()), builder.WithPredicates(secretChanges())).
		WatchesRawSource(r.deps.Queue.Source()).
		WithOptions(r.config.Options).
		Complete(reconcile.Gated(r.deps.Gate, r))
}

// +kubebuilder:rbac:groups=mediastack.dev,resources=mediawebhooks,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=mediastack.dev,resources=mediawebhooks/status,verbs=patch
// +kubebuilder:rbac:groups=mediastack.dev,resources=mediaaccounts,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// scope is one reconcile of one object.
type scope struct {
	*reconcile.Run[*v1alpha1.MediaWebhook]

	accountID      uuid.UUID // Nil for all accounts, and when the account cannot be used
	target         webhook.Target
	requests       requests
	databaseCalled bool // not only admitDatabase's answer is known
	observed       observed
}

// Reconcile makes the webhook in PostgreSQL and its Secret match the MediaWebhook, and its status match what was seen.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (result ctrl.Result, err error) {
	run, err := reconcile.Begin(ctx, r.deps.Deps, request, &v1alpha1.MediaWebhook{})
	if run == nil {
		return ctrl.Result{}, err
	}
	s := &scope{Run: run}
	s.observed.deleting, s.observed.suspended = s.Deleting(), s.Object.Spec.Suspended
	defer func() { result, err = r.report(ctx, s) }()

	if s.Deleting() {
		reconcile.RunSteps(ctx, s, r.admitDatabase, r.remove, r.removeSecret, r.removeFinalizer)
	} else {
		reconcile.RunSteps(ctx, s, r.readRequests, r.ensureFinalizer, r.admitDatabase, r.checkScope, r.checkLimit, r.findAccount, r.checkTypes, r.resolveURL, r.resolveSecrets, r.put, r.readLog)
	}
	return ctrl.Result{}, nil
}

// ensureFinalizer adds the finalizer before anything is stored.
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

// removeFinalizer removes the finalizer, so that Kubernetes deletes the object: nothing is sent for it any more.
func (r *Reconciler) removeFinalizer(ctx context.Context, s *scope) bool {
	removed, failure := s.RemoveFinalizer(ctx)
	r.deps.Written.Forget(s.Object.UID)
	s.observed.failure = failure
	s.observed.keptBy = reconcile.Finalizers(s.Object)
	return removed
}

// report writes the status from what the steps saw, and records what an admin has to know.
func (r *Reconciler) report(ctx context.Context, s *scope) (ctrl.Result, error) {
	setStatus(s.Object, s.observed)
	failures := []*reconcile.StepError{s.observed.failure}
	if s.databaseCalled {
		r.deps.Outages.Called(ctx, reconcile.Database, failures...)
	}
	result, err := s.Report(ctx, statusOf, reconcile.Observation{
		Conditions:         conditions(s.observed),
		GenerationObserved: s.observed.generationObserved(),
		Failures:           failures,
		Interval:           r.config.CompareInterval,
	})
	if err == nil && !s.StatusSkipped() {
		r.recordEvents(s)
	}
	return result, err
}

var conditionTypes = reconcile.SummaryTypes(v1alpha1.ConditionDelivering)

func statusOf(object *v1alpha1.MediaWebhook) reconcile.Status {
	return reconcile.Status{Conditions: &object.Status.Conditions, ObservedGeneration: &object.Status.ObservedGeneration, Types: conditionTypes, All: &object.Status}
}

func wholeStatus(object client.Object) any { return &object.(*v1alpha1.MediaWebhook).Status }

func observedGeneration(object *v1alpha1.MediaWebhook) int64 { return object.Status.ObservedGeneration }
