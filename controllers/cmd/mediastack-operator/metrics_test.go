package main

import (
	"context"
	"regexp"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/testenv/kubetest"
	"mediastack.dev/hack/testenv/metricsdoc"
	"mediastack.dev/hack/testenv/wait"
)

// storeMetric matches the metrics of both programs.
var storeMetric = regexp.MustCompile(`^mediastack_(build_info|database_.*|object_store_[^u].*)$`)

// testMetrics creates an account for an operator that leads, waits until its metrics show it, and
// compares them with the reference.
func testMetrics(t *testing.T, plane *kubetest.ControlPlane, port int) {
	t.Helper()
	scheme := runtime.NewScheme()
	must(t, clientgoscheme.AddToScheme(scheme))
	must(t, v1alpha1.AddToScheme(scheme))
	kube, err := client.New(plane.Access(), client.Options{Scheme: scheme})
	must(t, err)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "metrics-"}}
	must(t, kube.Create(t.Context(), namespace))
	must(t, kube.Create(t.Context(), &v1alpha1.MediaAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "demo"}}))
	url := "http://127.0.0.1:" + strconv.Itoa(port) + "/metrics"
	wait.Until(t, "the metrics show the account and its key", func() bool {
		families, err := metricsdoc.Exported(context.Background(), url)
		must(t, err)
		objects, keys := 0.0, 0.0
		for _, one := range families["mediastack_operator_objects"].GetMetric() {
			objects += one.GetGauge().GetValue()
		}
		for _, one := range families["mediastack_operator_api_keys"].GetMetric() {
			keys += one.GetGauge().GetValue()
		}
		return objects == 1 && keys == 1 && families["mediastack_operator_object_conditions"] != nil
	})
	families, err := metricsdoc.Exported(t.Context(), url)
	must(t, err)
	documented := metricsdoc.Documented(t, "Operator")
	for name, is := range metricsdoc.Documented(t, "Runtime") {
		if storeMetric.MatchString(name) {
			documented[name] = is
		}
	}
	delete(documented, "mediastack_operator_tls_certificate_not_after_timestamp_seconds") // TestMetrics_ByTLSAreForThoseThatMayReadThem (charts) has a certificate
	metricsdoc.Compare(t, documented, families)
	if len(families) < 50 {
		t.Errorf("there are %d metrics only", len(families))
	}
}
