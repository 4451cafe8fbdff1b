// Package operator builds the controller-runtime manager that runs the reconcilers: scheme,
// cache, rate limits, health, metrics and leader election. The operator's main and the
// integration tests build the same manager with it.
package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/changes"
	"mediastack.dev/controllers/erasure"
	"mediastack.dev/controllers/installation"
	"mediastack.dev/controllers/mediaaccount"
	"mediastack.dev/controllers/mediasettings"
	"mediastack.dev/controllers/mediawebhook"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/controllers/retained"
	"mediastack.dev/runtime/account"
	identity "mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/settings"
	"mediastack.dev/runtime/webhook"
)

const (
	// leaseName is the Lease that the leader holds; config/rbac allows this one.
	leaseName = "mediastack-operator"
	// recorderName is the reporting controller of events.
	recorderName = "mediastack-operator"

	// Backoff after a failure: long enough not to overload a store that recovers, short
	// enough to reconcile within a minute after it has.
	baseRetryDelay = 200 * time.Millisecond
	maxRetryDelay  = 30 * time.Second
)

// Deps are the parts that the reconcilers use outside Kubernetes.
type Deps struct {
	Accounts account.Store
	Settings settings.Store
	// Pictures counts what is stored of presets.
	Pictures mediasettings.Counts
	Webhooks webhook.Registry
	Buckets  Buckets
	Runtimes mediaaccount.Runtimes
	// Changes notifies of changed accounts.
	Changes changes.Source
	// Installation has the identity of the database, and rejects the writes of an operator that
	// it does not belong to. Markers have the identity of the buckets.
	Installation installation.Store
	Markers      identity.Markers
	Now          func() time.Time
	Log          *slog.Logger
}

// Buckets are the operations on buckets that the reconcilers need.
type Buckets interface {
	mediaaccount.Buckets
	erasure.Buckets
	// Ping sends a request that needs valid credentials.
	Ping(ctx context.Context) error
}

// New returns a manager, as Run starts one after another. Its Start runs the operator until the context
// ends, and then waits for running reconciles.
func New(ctx context.Context, kube *rest.Config, cfg Config, deps Deps) (manager.Manager, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	var own *lease
	if cfg.LeaderElect {
		var err error
		if own, err = newLease(ctx, kube, cfg.leaseNamespace()); err != nil {
			return nil, err
		}
	}
	one, err := build(ctx, kube, cfg, deps, own)
	if err != nil {
		return nil, err
	}
	return one, nil
}

// instance is a manager with its parts.
type instance struct {
	manager.Manager
	verifier *installation.Verifier
	gate     *reconcile.Gate
	checks   map[string]healthz.Checker // of the readiness, by name
}

// end returns when nothing of a manager that has ended writes any more.
func (i *instance) end() error {
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	i.gate.Close()
	i.verifier.End()
	if err := i.gate.Idle(ctx); err != nil {
		return fmt.Errorf("reconciles of a manager that has ended still run: %w", err)
	}
	return nil
}

// build returns the manager of a valid configuration. own is the lease of the process; nil without leader
// election.
func build(ctx context.Context, kube *rest.Config, cfg Config, deps Deps, own *lease) (*instance, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	kube = rest.CopyConfig(kube)
	// No client-side rate limit: the number of workers bounds the requests in flight, and
	// the API server applies its priority and fairness. client-go's default of 20 requests
	// per second would delay 200 new accounts by a minute.
	kube.QPS, kube.Burst = -1, -1
	gate := reconcile.NewGate()
	// The verifier's ConfigMap is not written by reconciles.
	ungated := rest.CopyConfig(kube)
	kube.Wrap(gate.Transport)
	cacheOpts, err := cacheOptions(cfg.Namespaces)
	if err != nil {
		return nil, err
	}
	options := manager.Options{
		Scheme:                 scheme,
		Logger:                 logr.FromSlogHandler(deps.Log.Handler()),
		Cache:                  cacheOpts,
		Metrics:                metricsserver.Options{BindAddress: cfg.MetricsListen, ExtraHandlers: profiles(cfg)},
		HealthProbeBindAddress: cfg.HealthListen,
	}
	if own != nil {
		lock, err := own.lock()
		if err != nil {
			return nil, fmt.Errorf("create the lock of the lease: %w", err)
		}
		options.LeaderElection, options.LeaderElectionID, options.LeaderElectionResourceLockInterface = true, leaseName, lock
		// A manager that has stopped writes nothing, so the next leader can start at once.
		options.LeaderElectionReleaseOnCancel = true
	}
	mgr, err := ctrl.NewManager(kube, options)
	if err != nil {
		return nil, fmt.Errorf("create the manager: %w", err)
	}
	verifier, err := installation.NewVerifier(installation.Config{Config: cfg.Installation, Namespace: cfg.Namespace},
		installation.Deps{Kube: ungated, Store: deps.Installation, Markers: deps.Markers, Gate: gate, Elected: mgr.Elected(), Log: deps.Log})
	if err != nil {
		return nil, err
	}
	one := &instance{Manager: mgr, verifier: verifier, gate: gate, checks: readiness(mgr, verifier, deps.Buckets)}
	for name, check := range one.checks {
		err = errors.Join(err, mgr.AddReadyzCheck(name, check))
	}
	// Neither probe depends on the lease or on an outage: restarting the operator does not repair a database.
	err = errors.Join(err, mgr.AddHealthzCheck("ping", healthz.Ping), mgr.Add(verifier),
		registerInformers(ctx, mgr.GetCache()), addControllers(ctx, mgr, verifier, gate, cfg, deps))
	if err != nil {
		return nil, err
	}
	return one, nil
}

// registerInformers has the cache watch every kind of the controllers from its start on. The leader
// election begins when the cache has synced, so that a replica that still lists 10,000 accounts does not
// take the lease, while no other one may serve a change.
func registerInformers(ctx context.Context, informers cache.Informers) error {
	for _, kind := range []client.Object{&v1alpha1.MediaAccount{}, &v1alpha1.MediaSettings{}, &v1alpha1.MediaWebhook{}, &v1alpha1.RetainedMediaAccount{}, &corev1.Secret{}} {
		if _, err := informers.GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	return nil
}

// profiles returns the handlers of the profiles, if they are on. The command line has none, because flags
// may hold credentials.
func profiles(cfg Config) map[string]http.Handler {
	if !cfg.Pprof {
		return nil
	}
	return map[string]http.Handler{"/debug/pprof/": http.HandlerFunc(pprof.Index), "/debug/pprof/profile": http.HandlerFunc(pprof.Profile),
		"/debug/pprof/symbol": http.HandlerFunc(pprof.Symbol), "/debug/pprof/trace": http.HandlerFunc(pprof.Trace)}
}

// cacheOptions restricts the cache to what is watched: the custom resources, and the Secrets
// with this project's label.
func cacheOptions(namespaces []string) (cache.Options, error) {
	ours, err := labels.NewRequirement(v1alpha1.LabelAccount, selection.Exists, nil)
	if err != nil {
		return cache.Options{}, err
	}
	options := cache.Options{
		ByObject:                    map[client.Object]cache.ByObject{&corev1.Secret{}: {Label: labels.NewSelector().Add(*ours)}},
		DefaultTransform:            new(trimmer).trim,
		ReaderFailOnMissingInformer: true, // a read must not start a watch of a whole kind
	}
	for _, namespace := range namespaces {
		if options.DefaultNamespaces == nil {
			options.DefaultNamespaces = map[string]cache.Config{}
		}
		options.DefaultNamespaces[namespace] = cache.Config{}
	}
	return options, nil
}

func addControllers(ctx context.Context, mgr manager.Manager, verifier *installation.Verifier, gate *reconcile.Gate, cfg Config, deps Deps) error {
	shared := reconcile.Deps{
		Client: mgr.GetClient(), Events: eventRecorder{mgr.GetEventRecorder(recorderName)}, Now: deps.Now, Gate: gate,
		Outages: reconcile.NewOutages(cfg.OutageGrace, deps.Now, deps.Log),
	}
	registry := account.NewRegistry(deps.Accounts, cfg.BucketPrefix, deps.Now)
	eraser := erasure.New(erasure.Deps{Accounts: registry, Buckets: deps.Buckets, Installation: verifier.Guard(), Now: deps.Now})
	accounts := mediaaccount.New(mediaaccount.Config{
		BaseURL:             cfg.BaseURL,
		BucketCheckInterval: cfg.BucketCheckInterval,
		BucketCheckRate:     cfg.BucketCheckRate,
		UsageInterval:       cfg.UsageInterval,
		UsageWriteRate:      cfg.UsageWriteRate,
		Namespaces:          cfg.Namespaces,
		NamespaceOfAll:      mediawebhook.NamespaceOfAll(cfg.Namespace, cfg.Namespaces),
		OutageGrace:         cfg.OutageGrace,
		Options:             controllerOptions(cfg.Concurrency),
		BucketOptions:       controllerOptions(cfg.Concurrency),
		DeletionOptions:     controllerOptions(cfg.MaxConcurrentDeletions),
	}, mediaaccount.Deps{
		Deps:      shared,
		APIReader: mgr.GetAPIReader(),
		Accounts:  registry,
		Buckets:   deps.Buckets,
		Runtimes:  deps.Runtimes,
		Identity:  verifier.Identity,
		Eraser:    eraser,
		Removal:   installation.NewRemoval(mgr.GetAPIReader(), cfg.Namespace, cfg.Deployment).Find,
		Log:       deps.Log,
	})
	if err := accounts.SetupWithManager(ctx, mgr); err != nil {
		return fmt.Errorf("set up %s: %w", mediaaccount.Name, err)
	}
	kept := retained.New(retained.Config{
		Interval: cfg.RetainedInterval, OrphanDelay: cfg.OrphanDelay, TakeOverGrace: cfg.TakeOverGrace,
		Namespaces: cfg.Namespaces, Options: controllerOptions(cfg.Concurrency), ErasureOptions: controllerOptions(cfg.MaxConcurrentDeletions),
	}, retained.Deps{
		Deps: shared, APIReader: mgr.GetAPIReader(), Accounts: registry, Eraser: eraser, Log: deps.Log,
	})
	if err := kept.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up %s: %w", retained.Name, err)
	}
	pins := mediasettings.New(
		mediasettings.Config{PurgeInterval: cfg.RetainedInterval, CountInterval: cfg.UsageInterval, CountRate: cfg.UsageWriteRate, Namespaces: cfg.Namespaces, Options: controllerOptions(cfg.Concurrency)},
		mediasettings.Deps{Deps: shared, APIReader: mgr.GetAPIReader(), Accounts: registry, Settings: settings.NewService(deps.Settings), Counts: deps.Pictures},
	)
	if err := pins.SetupWithManager(ctx, mgr); err != nil {
		return fmt.Errorf("set up %s: %w", mediasettings.Name, err)
	}
	webhooks := mediawebhook.New(
		mediawebhook.Config{
			CompareInterval: cfg.UsageInterval, CompareRate: cfg.UsageWriteRate, PerAccount: cfg.WebhooksPerAccount,
			OwnNamespace: cfg.Namespace, Namespaces: cfg.Namespaces, Options: controllerOptions(cfg.Concurrency),
		},
		mediawebhook.Deps{Deps: shared, APIReader: mgr.GetAPIReader(), Accounts: registry, Webhooks: deps.Webhooks},
	)
	if err := webhooks.SetupWithManager(ctx, mgr); err != nil {
		return fmt.Errorf("set up %s: %w", mediawebhook.Name, err)
	}
	return mgr.Add(changes.New(changes.Config{Interval: cfg.RetainedInterval, Namespaces: cfg.Namespaces}, changes.Deps{
		Source: deps.Changes, Accounts: registry, Objects: objects{accounts, pins, webhooks}, Gate: gate, Outages: shared.Outages, Log: deps.Log,
	}))
}

func controllerOptions(concurrency int) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: concurrency,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](baseRetryDelay, maxRetryDelay),
		EnableWarmup:            new(true), // a replica that acquires the lease has its cache synced already
		SkipNameValidation:      new(true), // a test process runs many managers
	}
}

// checkNames are the names of the checks of the readiness.
var checkNames = []string{"caches", "installation", "objects"}

// readiness returns the checks of /readyz: the caches are synced, the operator may write, and the object
// store has not rejected its credentials from the start on.
func readiness(mgr manager.Manager, verifier *installation.Verifier, buckets Buckets) map[string]healthz.Checker {
	cachesSynced := func(request *http.Request) error {
		ctx, cancel := context.WithTimeout(request.Context(), time.Second)
		defer cancel()
		if !mgr.GetCache().WaitForCacheSync(ctx) {
			return errors.New("the caches are not synced yet")
		}
		return nil
	}
	return map[string]healthz.Checker{
		"caches": cachesSynced, "installation": verifier.Ready,
		"objects": (&objectCheck{verified: verifier.Ready, ping: buckets.Ping}).Ready,
	}
}
