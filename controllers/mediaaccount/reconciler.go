// Package mediaaccount reconciles MediaAccount objects: the account in PostgreSQL, its
// bucket, its apps, and a Secret with an API key for each app. The operator's manager runs
// its Reconciler.
//
// Each step of a reconcile has a file of its own. A step compares the desired state with the
// actual one, changes what differs and records the result in observed; conditions.go computes
// the conditions from observed only.
package mediaaccount

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/erasure"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/controllers/retained"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/objectstore"
)

// Name is the controller's name in logs, metrics and events.
const Name = "mediaaccount"

const (
	// databaseTimeout and bucketTimeout bound one step, and with it how long a store that
	// does not respond blocks a worker.
	databaseTimeout = 10 * time.Second
	bucketTimeout   = 10 * time.Second
)

// Buckets are the operations on buckets that the operator needs.
type Buckets interface {
	// Claim makes a bucket exist and belong to an account.
	Claim(ctx context.Context, request objectstore.ClaimRequest) (objectstore.ClaimResult, error)
}

var _ Buckets = (*objectstore.Store)(nil)

// Config configures this controller.
type Config struct {
	// BaseURL is the URL at which tenants reach the runtime, without a trailing slash.
	BaseURL string
	// BucketCheckInterval is the interval between two checks of a bucket. Between them, an
	// account that is as it should be causes no request to the object store.
	BucketCheckInterval time.Duration
	// UsageInterval is the interval between two reads of the usage and of the keys' last use.
	UsageInterval time.Duration
	// OutageGrace is how long no replica of the runtime may serve before an account is not Ready.
	OutageGrace time.Duration
	// Options of the controller: concurrency and rate limiter.
	Options controller.Options
	// DeletionOptions are those of the controller that deletes media.
	DeletionOptions controller.Options
}

// Deps are the parts that a Reconciler uses.
type Deps struct {
	reconcile.Deps
	APIReader client.Reader // reads from the API server
	Accounts  *account.Registry
	Buckets   Buckets
	Runtimes  Runtimes
	// Identity returns the identity that the markers of buckets record.
	Identity func(ctx context.Context) (installation.Identity, error)
	Eraser   *erasure.Eraser
}

// Reconciler reconciles MediaAccount objects.
type Reconciler struct {
	deps        Deps
	config      Config
	schedule    *schedule
	runtimes    *runtimes
	undelivered *undeliveredKeys
	deletions   deletions
}

// New returns a Reconciler that uses deps.
func New(config Config, deps Deps) *Reconciler {
	return &Reconciler{deps: deps, config: config, schedule: newSchedule(), runtimes: &runtimes{store: deps.Runtimes, now: deps.Now}, undelivered: newUndeliveredKeys(), deletions: make(deletions)}
}

// SetupWithManager registers the controller, and that of deletions. It reconciles a MediaAccount
// when its spec or its annotations change, when one of its Secrets changes or is deleted, when a
// RetainedMediaAccount that may become its account changes, and on its timers.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	if err := errors.Join(retained.AddIndexes(ctx, mgr.GetFieldIndexer()), r.setupDeletions(mgr)); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named(Name).
		// A deletion raises the generation too. A status that others wrote is corrected on the next
		// timer: nothing depends on it.
		For(&v1alpha1.MediaAccount{}, builder.WithPredicates(predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Owns(&corev1.Secret{}, builder.WithPredicates(secretDrift())).
		Watches(&v1alpha1.RetainedMediaAccount{}, handler.EnqueueRequestsFromMapFunc(claimants), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(r.config.Options).
		Complete(reconcile.Gated(r.deps.Gate, r))
}

// +kubebuilder:rbac:groups=mediastack.dev,resources=mediaaccounts,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=mediastack.dev,resources=mediaaccounts/status,verbs=patch
// +kubebuilder:rbac:groups=mediastack.dev,resources=retainedmediaaccounts,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// scope is one reconcile of one account.
type scope struct {
	*reconcile.Run[*v1alpha1.MediaAccount]

	account  account.Account
	apps     []account.App
	observed observed

	announcesErasure bool // the status says that the media is deleted next

	live           bool   // the API server had this very object in this run
	namespaceUID   string // set once the namespace was read and is not being deleted
	databaseCalled bool   // not only admitDatabase's answer is known
}

// Reconcile makes the account in PostgreSQL, the bucket and the Secrets match the
// MediaAccount, and its status match what was seen.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (result ctrl.Result, err error) {
	run, err := reconcile.Begin(ctx, r.deps.Deps, request, &v1alpha1.MediaAccount{})
	if run == nil {
		return ctrl.Result{}, err
	}
	s := &scope{Run: run}
	defer func() { result, err = r.report(ctx, s) }()

	if s.Deleting() {
		reconcile.RunSteps(ctx, s, r.admitDatabase, r.closeAccount, r.abandon, r.removeSecrets, r.release)
		if abandonsWithoutDatabase(s) {
			reconcile.RunSteps(ctx, s, r.retainWithoutDatabase, r.removeSecrets, r.removeFinalizer)
		}
	} else {
		reconcile.RunSteps(ctx, s, r.ensureFinalizer, r.admitDatabase, r.ensureAccount, r.ensureBucket, r.ensureApps, r.ensureKeys, r.checkRuntime, r.measureUsage)
	}
	return ctrl.Result{}, nil
}

// admitDatabase ends the reconcile at once while PostgreSQL is out and others try it.
func (r *Reconciler) admitDatabase(_ context.Context, s *scope) bool {
	failure := r.deps.Outages.Admit(reconcile.Database)
	if failure != nil && s.Deleting() {
		s.observed.deletion = &deletionProgress{failure: failure}
	} else {
		s.observed.account.failure = failure
	}
	s.databaseCalled = failure == nil
	return failure == nil
}

// report writes the status from what the steps saw.
func (r *Reconciler) report(ctx context.Context, s *scope) (ctrl.Result, error) {
	s.observed.suspended = s.Object.Spec.Suspended
	if s.databaseCalled {
		r.deps.Outages.Called(ctx, reconcile.Database, s.observed.failures()...)
	}
	result, err := s.Report(ctx, statusOf, reconcile.Observation{
		Conditions:         conditions(s.observed),
		Measured:           s.observed.storage,
		GenerationObserved: s.observed.generationObserved(),
		Failures:           s.observed.failures(),
		Interval:           r.config.BucketCheckInterval,
	})
	if s.announcesErasure && (err != nil || s.StatusSkipped()) {
		r.deletions.add(ctx, s.Object) // a status that cannot be written does not hold up a deletion
	}
	return result, err
}

// conditionTypes are the types of the conditions of a MediaAccount. StorageAvailable stays as it was
// in a reconcile that does not measure the usage.
var conditionTypes = reconcile.SummaryTypes(v1alpha1.ConditionBucketReady, v1alpha1.ConditionAppsReady, v1alpha1.ConditionKeysReady, v1alpha1.ConditionStorageAvailable)

func statusOf(object *v1alpha1.MediaAccount) reconcile.Status {
	return reconcile.Status{Conditions: &object.Status.Conditions, ObservedGeneration: &object.Status.ObservedGeneration, Types: conditionTypes}
}
