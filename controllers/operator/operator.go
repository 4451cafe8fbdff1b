// Package operator joins the reconcilers to a controller-runtime manager: scheme,
// cache, rate limits, health, metrics and leader election. The operator's main and
// the integration tests build the same manager with it.
package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
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
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/mediaaccount"
	"mediastack.dev/controllers/mediasettings"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/settings"
)

const (
	// leaseName is the Lease that the leader holds; config/rbac allows this one.
	leaseName = "mediastack-operator"
	// recorderName is the reporting controller of events.
	recorderName = "mediastack-operator"

	// Backoff after a failure: long enough to leave a store that comes back in peace,
	// short enough to be back within a minute of it.
	firstRetry = 200 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// Parts is what the reconcilers reach outside Kubernetes.
type Parts struct {
	Accounts account.Store
	Settings settings.Store
	Buckets  mediaaccount.Buckets
	// Now is the clock.
	Now func() time.Time
	// Log takes what the manager and the reconcilers say.
	Log *slog.Logger
}

// New builds the manager; its Start runs the operator until the context ends, and
// then waits for running reconciles.
func New(ctx context.Context, kube *rest.Config, cfg Config, parts Parts) (manager.Manager, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	kube = rest.CopyConfig(kube)
	// No limit on this side: the number of workers bounds what is in flight, and the
	// API server's priority and fairness shares its time. client-go's default of 20
	// requests a second would hold 200 new accounts up for a minute.
	kube.QPS, kube.Burst = -1, -1
	caching, err := cacheOptions(cfg.Namespaces)
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(kube, manager.Options{
		Scheme:                  scheme,
		Logger:                  logr.FromSlogHandler(parts.Log.Handler()),
		Cache:                   caching,
		Metrics:                 metricsserver.Options{BindAddress: cfg.MetricsListen},
		HealthProbeBindAddress:  cfg.HealthListen,
		LeaderElection:          cfg.LeaderElect,
		LeaderElectionID:        leaseName,
		LeaderElectionNamespace: cfg.LeaderElectionNamespace,
		// main ends as soon as the manager has stopped, so the next leader need not wait.
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return nil, fmt.Errorf("make the manager: %w", err)
	}
	if err := addChecks(mgr); err != nil {
		return nil, err
	}
	return mgr, addControllers(ctx, mgr, cfg, parts)
}

// cacheOptions keeps in memory what is watched: the custom resources, and of the
// cluster's Secrets those that carry this project's label.
func cacheOptions(namespaces []string) (cache.Options, error) {
	ours, err := labels.NewRequirement(v1alpha1.LabelAccount, selection.Exists, nil)
	if err != nil {
		return cache.Options{}, err
	}
	options := cache.Options{
		ByObject:                    map[client.Object]cache.ByObject{&corev1.Secret{}: {Label: labels.NewSelector().Add(*ours)}},
		DefaultTransform:            cache.TransformStripManagedFields(),
		ReaderFailOnMissingInformer: true, // a read must not start to watch a whole kind by accident
	}
	for _, namespace := range namespaces {
		if options.DefaultNamespaces == nil {
			options.DefaultNamespaces = map[string]cache.Config{}
		}
		options.DefaultNamespaces[namespace] = cache.Config{}
	}
	return options, nil
}

func addControllers(ctx context.Context, mgr manager.Manager, cfg Config, parts Parts) error {
	accounts := mediaaccount.New(mgr.GetClient(), mgr.GetAPIReader(), mgr.GetEventRecorder(recorderName),
		account.NewRegistry(parts.Accounts, cfg.BucketPrefix, parts.Now), parts.Buckets,
		mediaaccount.Config{
			BaseURL:             cfg.BaseURL,
			BucketCheckInterval: cfg.BucketCheckInterval,
			UsageInterval:       cfg.UsageInterval,
			Options:             controllerOptions(cfg),
		}, parts.Now)
	if err := accounts.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up %s: %w", mediaaccount.Name, err)
	}
	pins := mediasettings.New(mgr.GetClient(), mgr.GetEventRecorder(recorderName), settings.NewService(parts.Settings),
		mediasettings.Config{RefreshInterval: cfg.UsageInterval, Options: controllerOptions(cfg)}, parts.Now)
	if err := pins.SetupWithManager(ctx, mgr); err != nil {
		return fmt.Errorf("set up %s: %w", mediasettings.Name, err)
	}
	return nil
}

func controllerOptions(cfg Config) controller.Options {
	yes := true
	return controller.Options{
		MaxConcurrentReconciles: cfg.Concurrency,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		EnableWarmup:            &yes, // a replica that takes the lease over has its cache already
		SkipNameValidation:      &yes, // a test process runs many operators
	}
}

// addChecks answers /healthz at once and /readyz when the caches are filled. Neither
// depends on the lease, nor on a store: restarting or withholding the operator mends
// no database.
func addChecks(mgr manager.Manager) error {
	filled := func(request *http.Request) error {
		ctx, cancel := context.WithTimeout(request.Context(), time.Second)
		defer cancel()
		if !mgr.GetCache().WaitForCacheSync(ctx) {
			return errors.New("the caches are not filled yet")
		}
		return nil
	}
	return errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("caches", filled))
}
