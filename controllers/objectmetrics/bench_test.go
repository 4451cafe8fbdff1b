package objectmetrics_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/objectmetrics"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/kubetest"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// BenchmarkCollector_Scrape scrapes a real cache of 10,000 accounts.
func BenchmarkCollector_Scrape(b *testing.B) {
	const accounts = 10_000
	ctrl.SetLogger(logr.Discard())
	access := rest.CopyConfig(kubetest.Access(b))
	access.QPS = -1
	scheme := runtime.NewScheme()
	must(b, clientgoscheme.AddToScheme(scheme))
	must(b, v1alpha1.AddToScheme(scheme))
	kube, err := client.New(access, client.Options{Scheme: scheme})
	must(b, err)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "scrape-"}}
	must(b, kube.Create(b.Context(), namespace))
	var group errgroup.Group
	group.SetLimit(16)
	for n := range accounts {
		group.Go(func() error { return createAccount(b, kube, namespace.Name, fmt.Sprintf("account-%d", n)) })
	}
	must(b, group.Wait())

	objects, err := cache.New(access, cache.Options{Scheme: scheme})
	must(b, err)
	go func() { _ = objects.Start(b.Context()) }()
	for _, kind := range []client.Object{&v1alpha1.MediaAccount{}, &v1alpha1.MediaSettings{}, &v1alpha1.MediaWebhook{}, &v1alpha1.RetainedMediaAccount{}} {
		_, err := objects.GetInformer(b.Context(), kind)
		must(b, err)
	}
	if !objects.WaitForCacheSync(b.Context()) {
		b.Fatal("the cache is not filled")
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(objectmetrics.New(objects, elected(), time.Now, slog.New(slog.DiscardHandler)))
	b.ReportAllocs()
	for b.Loop() {
		families, err := registry.Gather()
		must(b, err)
		if len(families) != 10 {
			b.Fatalf("there are %d metrics", len(families))
		}
	}
}

// createAccount creates an account with the conditions and a key, as the operator would write them.
func createAccount(b *testing.B, kube client.Client, namespace, name string) error {
	object := &v1alpha1.MediaAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := kube.Create(b.Context(), object); err != nil {
		return err
	}
	for _, kind := range []string{"Ready", "Reconciling", "Stalled", "BucketReady", "AppsReady", "KeysReady", "StorageAvailable"} {
		one := condition(kind, "True", v1alpha1.ReasonSucceeded)
		one.LastTransitionTime = metav1.Now()
		object.Status.Conditions = append(object.Status.Conditions, one)
	}
	object.Status.Keys = []v1alpha1.KeyStatus{{App: "default", SecretName: name, CreatedAt: ago(time.Hour)}}
	return kube.Status().Update(b.Context(), object)
}
