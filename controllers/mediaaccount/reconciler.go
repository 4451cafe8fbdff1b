// Package mediaaccount brings the world to what a MediaAccount says: the account in
// PostgreSQL, its bucket, its apps, and a Secret with an API key for each app. The
// operator's manager runs its Reconciler.
//
// A reconcile is a list of steps, a file each. A step looks at the world, mends what
// differs and records what it saw in observed; conditions.go turns observed into
// conditions without looking at anything else.
package mediaaccount

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/status"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/objectstore"
)

// Name is the controller's name in logs, metrics and events.
const Name = "mediaaccount"

const (
	// databaseTimeout and bucketTimeout bound one step, so that a store that hangs
	// holds up a worker for no longer.
	databaseTimeout = 10 * time.Second
	bucketTimeout   = 10 * time.Second
	// again is how long a reconcile waits that lost a race for its own object.
	again = 500 * time.Millisecond
)

// Buckets is what the operator does with buckets.
type Buckets interface {
	// Claim makes bucket exist and belong to owner, and says whether it wrote anything.
	Claim(ctx context.Context, bucket string, owner objectstore.Owner, adopt bool) (changed bool, err error)
	// Owner reads whose bucket it is.
	Owner(ctx context.Context, bucket string) (objectstore.Owner, error)
	// Drain removes up to batch objects and says whether the bucket is empty now.
	Drain(ctx context.Context, bucket string, batch int) (empty bool, err error)
	// RemoveBucket removes an empty bucket; a missing one is success.
	RemoveBucket(ctx context.Context, bucket string) error
}

var _ Buckets = (*objectstore.Store)(nil)

// Config is what an admin can set about this controller.
type Config struct {
	// BaseURL is the URL that tenants reach the runtime at, without a slash at its end.
	BaseURL string
	// BucketCheckInterval is how often a bucket is looked at; there are no bucket
	// calls in between for an account that is as it should be.
	BucketCheckInterval time.Duration
	// UsageInterval is how often usage and the keys' last use are read.
	UsageInterval time.Duration
	// Options of the controller: concurrency and rate limiter.
	Options controller.Options
}

// Reconciler brings the world to what a MediaAccount says.
type Reconciler struct {
	client   client.Client // reads from the cache
	live     client.Reader // reads from the API server
	events   events.EventRecorder
	accounts *account.Registry
	buckets  Buckets
	config   Config
	now      func() time.Time
	memory   *memory
}

// New joins a Reconciler to what it needs. live reads past the cache.
func New(c client.Client, live client.Reader, recorder events.EventRecorder, accounts *account.Registry, buckets Buckets,
	config Config, now func() time.Time,
) *Reconciler {
	return &Reconciler{
		client: c, live: live, events: recorder, accounts: accounts, buckets: buckets,
		config: config, now: now, memory: newMemory(),
	}
}

// SetupWithManager registers the controller: it reconciles a MediaAccount when its
// spec changes, when a Secret of it changes or goes, and on its timers.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named(Name).
		// The status is this controller's own; a deletion raises the generation too.
		For(&v1alpha1.MediaAccount{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&corev1.Secret{}, builder.WithPredicates(secretDrift())).
		WithOptions(r.config.Options).
		Complete(r)
}

// +kubebuilder:rbac:groups=mediastack.dev,resources=mediaaccounts,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=mediastack.dev,resources=mediaaccounts/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// step does one thing for an account and records what it saw. It says whether the
// steps after it have something to stand on.
type step func(ctx context.Context, run *run) bool

// run is one reconcile of one account.
type run struct {
	before  *v1alpha1.MediaAccount // as read
	object  *v1alpha1.MediaAccount // as it will be
	account account.Account
	apps    []account.App
	seen    observed
	next    time.Time // when to look again at the latest
	over    bool      // the object needs no report: it is gone, or about to be

	namespaceStays bool // the namespace was read and is not being deleted
}

// lookAgain brings the next look forward to at.
func (run *run) lookAgain(at time.Time) {
	if run.next.IsZero() || at.Before(run.next) {
		run.next = at
	}
}

// Reconcile brings the world to what the MediaAccount says and its status to what it saw.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (result ctrl.Result, err error) {
	object := &v1alpha1.MediaAccount{}
	if err := r.client.Get(ctx, request.NamespacedName, object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	run := &run{before: object.DeepCopy(), object: object}
	defer func() { result, err = r.report(ctx, run) }()

	steps := []step{r.ensureFinalizer, r.ensureAccount, r.ensureBucket, r.ensureApps, r.ensureKeys, r.measureUsage}
	if !object.DeletionTimestamp.IsZero() {
		steps = []step{r.closeAccount, r.removeSecrets, r.eraseItems, r.removeBucket, r.release}
	}
	for _, step := range steps {
		if !step(ctx, run) {
			break
		}
	}
	return ctrl.Result{}, nil
}

// report turns what was seen into the status, writes it if it differs, and says when
// to look again: with backoff after a failure that may pass, else on the timers.
func (r *Reconciler) report(ctx context.Context, run *run) (ctrl.Result, error) {
	if run.over {
		return r.wait(run), nil
	}
	next := &run.object.Status
	run.seen.suspended = run.object.Spec.Suspended
	status.Set(&next.Conditions, run.object.Generation, conditions(run.seen))
	if run.seen.handled() {
		next.ObservedGeneration = run.object.Generation
	}
	wrote, err := status.Write(ctx, r.client, run.before, run.object)
	if err != nil {
		return ctrl.Result{}, err
	}
	if wrote {
		status.Announce(r.events, run.object, run.before.Status.Conditions, run.object.Status.Conditions)
	}
	if err := run.seen.retry(); err != nil {
		return ctrl.Result{}, err
	}
	if run.next.IsZero() {
		run.lookAgain(r.now().Add(status.Jitter(r.config.BucketCheckInterval)))
	}
	return r.wait(run), nil
}

// wait is the result that looks again at run.next, or on the next event only.
func (r *Reconciler) wait(run *run) ctrl.Result {
	if run.next.IsZero() {
		return ctrl.Result{}
	}
	return ctrl.Result{RequeueAfter: max(run.next.Sub(r.now()), time.Millisecond)}
}
