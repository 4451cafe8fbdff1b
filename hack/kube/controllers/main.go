// Command controllers runs those controllers of kube-controller-manager whose effects an operator meets: garbage
// collection, the deletion of namespaces, resource quotas, and the default service accounts. Development stacks and
// tests start it; its packages are a small part of those of kube-controller-manager, whose other controllers schedule,
// scale or replicate pods, which no kubelet would run there.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/resourcequota"
	"k8s.io/kubernetes/pkg/controller/serviceaccount"
	quota "k8s.io/kubernetes/pkg/quota/v1/install"
)

// The defaults of kube-controller-manager.
const (
	discoveryPeriod = 30 * time.Second
	resyncPeriod    = 12 * time.Hour
	syncPeriod      = 5 * time.Minute

	garbageCollectorWorkers = 20
	namespaceWorkers        = 10
	quotaWorkers            = 5
	serviceAccountWorkers   = 1
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "the `file` with the access to the API server")
	qps := flag.Float64("kube-api-qps", 20, "requests per second to the API server")
	burst := flag.Int("kube-api-burst", 30, "requests to the API server that are sent at once")
	klog.InitFlags(nil)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *kubeconfig, float32(*qps), *burst); err != nil {
		fmt.Fprintln(os.Stderr, "controllers:", err)
		os.Exit(1)
	}
}

// run starts the controllers, and returns after ctx has ended.
func run(ctx context.Context, kubeconfig string, qps float32, burst int) error {
	if kubeconfig == "" {
		return errors.New("--kubeconfig is missing")
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = qps, burst
	shared, err := newShared(ctx, config)
	if err != nil {
		return err
	}
	for _, start := range []func(context.Context, *shared) error{startGarbageCollector, startNamespaces, startQuotas, startServiceAccounts} {
		if err := start(ctx, shared); err != nil {
			return err
		}
	}
	shared.all.Start(ctx.Done())
	close(shared.started)
	<-ctx.Done()
	return nil
}

// shared is what the controllers have in common.
type shared struct {
	config    *rest.Config
	client    kubernetes.Interface
	metadata  metadata.Interface
	discovery discovery.DiscoveryInterface
	mapper    *restmapper.DeferredDiscoveryRESTMapper
	// typed has the informers of Kubernetes' own types; all has those of the others, too.
	typed informers.SharedInformerFactory
	all   informerfactory.InformerFactory
	// started is closed when the informers have started.
	started chan struct{}
}

func newShared(ctx context.Context, config *rest.Config) (*shared, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	// The discovery of every resource of a large API server needs more than the rate of one controller.
	ofMetadata := rest.CopyConfig(config)
	ofMetadata.QPS *= 2
	metadataClient, err := metadata.NewForConfig(ofMetadata)
	if err != nil {
		return nil, err
	}
	typed := informers.NewSharedInformerFactory(client, resyncPeriod)
	s := &shared{
		config: config, client: client, metadata: metadataClient, discovery: client.Discovery(), typed: typed,
		mapper:  restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery())),
		all:     informerfactory.NewInformerFactory(typed, metadatainformer.NewSharedInformerFactory(metadataClient, resyncPeriod)),
		started: make(chan struct{}),
	}
	go func() {
		ticker := time.NewTicker(discoveryPeriod)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				s.mapper.Reset()
			}
		}
	}()
	return s, nil
}

func startGarbageCollector(ctx context.Context, s *shared) error {
	ignored := garbagecollector.DefaultIgnoredResources()
	builder := garbagecollector.NewDependencyGraphBuilder(ctx, s.metadata, s.mapper, ignored, s.all, s.started)
	collector, err := garbagecollector.NewComposedGarbageCollector(ctx, s.client, s.metadata, s.mapper, builder)
	if err != nil {
		return fmt.Errorf("garbage collector: %w", err)
	}
	go collector.Run(ctx, garbageCollectorWorkers, discoveryPeriod)
	go collector.Sync(ctx, s.discovery, discoveryPeriod)
	return nil
}

func startNamespaces(ctx context.Context, s *shared) error {
	// As in kube-controller-manager: a deletion lists and deletes every resource of the namespace.
	config := rest.CopyConfig(s.config)
	config.QPS *= 20
	config.Burst *= 100
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	metadataClient, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	controller := namespace.NewNamespaceController(ctx, client, metadataClient, client.Discovery().ServerPreferredNamespacedResources,
		s.typed.Core().V1().Namespaces(), syncPeriod, v1.FinalizerKubernetes)
	go controller.Run(ctx, namespaceWorkers)
	return nil
}

func startQuotas(ctx context.Context, s *shared) error {
	configuration, err := quota.NewQuotaConfigurationForControllers(generic.ListerFuncForResourceFunc(s.typed.ForResource), s.typed)
	if err != nil {
		return fmt.Errorf("resource quotas: %w", err)
	}
	resources := s.discovery.ServerPreferredNamespacedResources
	quotas, err := resourcequota.NewController(ctx, &resourcequota.ControllerOptions{
		QuotaClient:               s.client.CoreV1(),
		ResourceQuotaInformer:     s.typed.Core().V1().ResourceQuotas(),
		ResyncPeriod:              controller.StaticResyncPeriodFunc(syncPeriod),
		InformerFactory:           s.all,
		ReplenishmentResyncPeriod: controller.StaticResyncPeriodFunc(resyncPeriod),
		DiscoveryFunc:             resources,
		IgnoredResourcesFunc:      configuration.IgnoredResources,
		InformersStarted:          s.started,
		Registry:                  generic.NewRegistry(configuration.Evaluators()),
		UpdateFilter:              quota.DefaultUpdateFilter(),
	})
	if err != nil {
		return fmt.Errorf("resource quotas: %w", err)
	}
	go quotas.Run(ctx, quotaWorkers)
	go quotas.Sync(ctx, resources, discoveryPeriod)
	return nil
}

func startServiceAccounts(ctx context.Context, s *shared) error {
	accounts, err := serviceaccount.NewServiceAccountsController(klog.FromContext(ctx), s.typed.Core().V1().ServiceAccounts(),
		s.typed.Core().V1().Namespaces(), s.client, serviceaccount.DefaultServiceAccountsControllerOptions())
	if err != nil {
		return fmt.Errorf("service accounts: %w", err)
	}
	go accounts.Run(ctx, serviceAccountWorkers)
	return nil
}
