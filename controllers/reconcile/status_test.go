package reconcile

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/kubetest"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// A reconcile that took long once wrote the status of a deleted object, with its account and its
// generation, into the object that was created under the same name meanwhile.
func TestReport_WritesNoStatusIntoANamesake(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	scheme := runtime.NewScheme()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(v1alpha1.AddToScheme(scheme))
	must(corev1.AddToScheme(scheme))
	kube, err := client.New(kubetest.Access(t), client.Options{Scheme: scheme})
	must(err)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	must(kube.Create(ctx, namespace))
	account := func() *v1alpha1.MediaAccount {
		return &v1alpha1.MediaAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "demo"}}
	}
	first, second := account(), account()
	must(kube.Create(ctx, first))
	run := NewRun(Deps{Client: kube, Events: events.NewFakeRecorder(10), Now: time.Now}, first)
	must(kube.Delete(ctx, account()))
	must(kube.Create(ctx, second))

	run.Object.Status.AccountID = "of the first object"
	_, err = run.Report(ctx, func(a *v1alpha1.MediaAccount) Status {
		return Status{Conditions: &a.Status.Conditions, ObservedGeneration: &a.Status.ObservedGeneration, All: &a.Status}
	}, Observation{Conditions: Ready("Succeeded", "text").Conditions(), GenerationObserved: true, Interval: time.Hour})
	must(err)
	must(kube.Get(ctx, client.ObjectKeyFromObject(second), second))
	if second.Status.AccountID != "" || len(second.Status.Conditions) != 0 {
		t.Errorf("the namesake has the status %+v", second.Status)
	}
}
