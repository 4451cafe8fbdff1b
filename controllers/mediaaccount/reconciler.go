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
	"log/slog"
	"reflect"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/erasure"
	"mediastack.dev/controllers/mediawebhook"
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
	// removalTimeout bounds the reads of the parts of the operator.
	removalTimeout = 10 * time.Second
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
	// BucketCheckInterval is the shortest interval between two checks of a bucket that is as it should be.
	BucketCheckInterval time.Duration
	// BucketCheckRate is the number of checks a second, of all buckets together: with many accounts the
	// interval grows. New and changed buckets come first and do not wait.
	BucketCheckRate int
	// UsageInterval is the interval between two comparisons of the usage, and of the keys' last use, with
	// what the status shows.
	UsageInterval time.Duration
	// UsageWriteRate is the number of accounts a second whose status such a comparison changes.
	UsageWriteRate int
	// Namespaces are those that the cache has; empty = all.
	Namespaces []string
	// NamespaceOfAll is the namespace in which MediaWebhooks of all accounts may be; empty = none.
	NamespaceOfAll string
	// OutageGrace is how long no replica of the runtime may serve before an account is not Ready.
	OutageGrace time.Duration
	// Options of the controller: concurrency and rate limiter.
	Options controller.Options
	// BucketOptions are those of the controller of buckets.
	BucketOptions controller.Options
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
	// Removal returns what removes the operator from the cluster, such as "Namespace a is being deleted";
	// empty if nothing does. An error says that it is not known.
	Removal func(ctx context.Context) (string, error)
	Log     *slog.Logger
}

// Reconciler reconciles MediaAccount objects.
type Reconciler struct {
	deps        Deps
	config      Config
	objects     *objects
	buckets     *buckets
	shown       *reconcile.Shown
	namespaces  *namespaces
	runtimes    *runtimes
	undelivered *undeliveredKeys
	deletions   deletions
	// proofKey is that of the last keys that were read.
	proofKey atomic.Pointer[account.ProofKey]
}

// New returns a Reconciler that uses deps.
func New(config Config, deps Deps) *Reconciler {
	deps.Queue, deps.Written = &reconcile.Queue{}, reconcile.NewWritten()
	return &Reconciler{
		deps: deps, config: config, objects: newObjects(), buckets: newBuckets(), shown: reconcile.NewShown(), namespaces: newNamespaces(deps.Now), runtimes: &runtimes{store: deps.Runtimes, now: deps.Now},
		undelivered: newUndeliveredKeys(), deletions: make(deletions),
	}
}

// secretIndex finds the Secrets of an account.
const secretIndex = "account"

// SetupWithManager registers three controllers, and what requests the periodic checks. This one
// reconciles a MediaAccount when its spec or its annotations change, when another client changed its
// status, when one of its Secrets changes or is deleted, when a RetainedMediaAccount that may become its
// account changes, when it gets its first MediaWebhook or loses its last one, and when its Queue says so. It never waits for the object store: the controllers of
// buckets and of deletions do.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	indexed := mgr.GetFieldIndexer().IndexField(ctx, &corev1.Secret{}, secretIndex, func(object client.Object) []string {
		return []string{recordOf(object.(*corev1.Secret)).account}
	})
	err := errors.Join(indexed, retained.AddIndexes(ctx, mgr.GetFieldIndexer()), r.setupBuckets(mgr), r.setupDeletions(mgr), mgr.Add(manager.RunnableFunc(r.pace)))
	if err != nil {
		return err
	}
	informer, err := mgr.GetCache().GetInformer(ctx, &v1alpha1.MediaAccount{}, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: r.namespaces.Saw, UpdateFunc: func(_, object any) { r.namespaces.Saw(object) }}); err != nil {
		return err
	}
	changed := predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, r.deps.Written.ForeignStatus(wholeStatus))
	return ctrl.NewControllerManagedBy(mgr).
		Named(Name).
		Watches(&v1alpha1.MediaAccount{}, reconcile.ByUrgency(observedGeneration), builder.WithPredicates(changed)). // a deletion raises the generation, too
		Watches(&corev1.Secret{}, handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &v1alpha1.MediaAccount{}, handler.OnlyControllerOwner()), builder.WithPredicates(secretDrift())).
		Watches(&v1alpha1.RetainedMediaAccount{}, handler.EnqueueRequestsFromMapFunc(claimants), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.MediaWebhook{}, reconcile.RelatedByUrgency(r.ofWebhook, observedGeneration), builder.WithPredicates(mediawebhook.CountChanges())).
		WatchesRawSource(r.deps.Queue.Source()).
		WithOptions(r.config.Options).
		Complete(reconcile.Gated(r.deps.Gate, r))
}

// +kubebuilder:rbac:groups=mediastack.dev,resources=mediaaccounts,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=mediastack.dev,resources=mediaaccounts/status,verbs=patch
// +kubebuilder:rbac:groups=mediastack.dev,resources=retainedmediaaccounts,verbs=list;watch
// +kubebuilder:rbac:groups=mediastack.dev,resources=mediawebhooks,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// scope is one reconcile of one account.
type scope struct {
	*reconcile.Run[*v1alpha1.MediaAccount]

	began    time.Time
	account  account.Account
	keys     account.AccountKeys // with the apps; read after account
	apps     []account.App
	observed observed

	announcesErasure bool      // the status says that the media is deleted next
	awaitsBucket     time.Time // until when the status waits for the first check of the bucket; zero = it does not

	created        bool   // the account was made in this run
	assumed        bool   // keys are those with which the account was made in this run, and not read
	live           bool   // the API server had this very object in this run
	namespaceUID   string // set once the namespace was read and is not being deleted
	databaseCalled bool   // not only admitDatabase's answer is known
}

// Reconcile makes the account in PostgreSQL, the bucket and the Secrets match the
// MediaAccount, and its status match what was seen.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (result ctrl.Result, err error) {
	r.shown.Begin(request.NamespacedName)
	shows := int64(0)
	defer func() { r.shown.End(request.NamespacedName, shows) }()
	run, err := reconcile.Begin(ctx, r.deps.Deps, request, &v1alpha1.MediaAccount{})
	if run == nil {
		if err == nil {
			r.buckets.Forget(request.NamespacedName)
		}
		return ctrl.Result{}, err
	}
	s := &scope{Run: run, began: r.deps.Now()}
	defer func() {
		if result, err = r.report(ctx, s); err == nil {
			shows = s.shownVersion()
		}
	}()

	if s.Deleting() {
		reconcile.RunSteps(ctx, s, r.admitDatabase, r.closeAccount, r.awaitCheck, r.abandon, r.removeSecrets, r.release)
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

// shownVersion returns the version of the account that the status was computed from; 0 if no snapshot has
// all of it. An account whose bucket is not known to be its own gets another version with the check.
func (s *scope) shownVersion() int64 {
	now := s.keys.Account
	if s.StatusSkipped() || s.Deleting() || !now.BucketOwned {
		return 0
	}
	before := s.account
	before.BucketOwned, before.BucketClaimed = now.BucketOwned, now.BucketClaimed // as the check found it
	if !reflect.DeepEqual(before, now) {
		return 0
	}
	return s.keys.Version
}

// report writes the status from what the steps saw.
func (r *Reconciler) report(ctx context.Context, s *scope) (ctrl.Result, error) {
	s.observed.suspended = s.Object.Spec.Suspended
	if s.databaseCalled {
		r.deps.Outages.Called(ctx, reconcile.Database, s.observed.failures()...)
	}
	r.awaitBucket(s)
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
	return reconcile.Status{Conditions: &object.Status.Conditions, ObservedGeneration: &object.Status.ObservedGeneration, Types: conditionTypes, All: &object.Status}
}

func wholeStatus(object client.Object) any { return &object.(*v1alpha1.MediaAccount).Status }

func observedGeneration(object *v1alpha1.MediaAccount) int64 { return object.Status.ObservedGeneration }
