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
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/erasure"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/account"
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
	// Claim makes bucket exist and belong to owner, and reports whether it wrote anything.
	Claim(ctx context.Context, bucket string, owner objectstore.Owner, adopt bool) (changed bool, err error)
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
	Eraser    *erasure.Eraser
}

// Reconciler reconciles MediaAccount objects.
type Reconciler struct {
	deps      Deps
	config    Config
	schedule  *schedule
	deletions deletions
}

// New returns a Reconciler that uses deps.
func New(config Config, deps Deps) *Reconciler {
	return &Reconciler{deps: deps, config: config, schedule: newSchedule(), deletions: make(deletions)}
}

// SetupWithManager registers the controller, and that of deletions. It reconciles a MediaAccount
// when its spec or an annotation changes, when one of its Secrets changes or is deleted, and on
// its timers.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if err := r.setupDeletions(mgr); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named(Name).
		// The status is this controller's own; a deletion raises the generation too.
		For(&v1alpha1.MediaAccount{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Owns(&corev1.Secret{}, builder.WithPredicates(secretDrift())).
		WithOptions(r.config.Options).
		Complete(r)
}

// +kubebuilder:rbac:groups=mediastack.dev,resources=mediaaccounts,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=mediastack.dev,resources=mediaaccounts/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// scope is one reconcile of one account.
type scope struct {
	*reconcile.Run[*v1alpha1.MediaAccount]

	account  account.Account
	apps     []account.App
	observed observed

	namespaceActive bool // the namespace was read and is not being deleted
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
		reconcile.RunSteps(ctx, s, r.closeAccount, r.abandon, r.removeSecrets, r.release)
	} else {
		reconcile.RunSteps(ctx, s, r.ensureFinalizer, r.ensureAccount, r.ensureBucket, r.ensureApps, r.ensureKeys, r.measureUsage)
	}
	return ctrl.Result{}, nil
}

// report writes the status from what the steps saw.
func (r *Reconciler) report(ctx context.Context, s *scope) (ctrl.Result, error) {
	s.observed.suspended = s.Object.Spec.Suspended
	return s.Report(ctx, statusOf, reconcile.Observation{
		Conditions:         conditions(s.observed),
		GenerationObserved: s.observed.generationObserved(),
		Retry:              s.observed.retry(),
		Interval:           r.config.BucketCheckInterval,
	})
}

func statusOf(object *v1alpha1.MediaAccount) reconcile.Status {
	return reconcile.Status{Conditions: &object.Status.Conditions, ObservedGeneration: &object.Status.ObservedGeneration}
}
