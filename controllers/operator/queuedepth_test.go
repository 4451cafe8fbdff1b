package operator

import (
	"testing"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"mediastack.dev/hack/testenv/check"
)

var must = check.NoError

// The test does not run beside others: the gauge is that of the process.
func TestResetQueueDepths_ForgetsWhatWasQueued(t *testing.T) {
	const name = "reset-queue-depths"
	depth := func() (depth float64) {
		t.Helper()
		families, err := metrics.Registry.Gather()
		must(t, err)
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				for _, label := range metric.GetLabel() {
					if family.GetName() == "workqueue_depth" && label.GetName() == "name" && label.GetValue() == name {
						depth += metric.GetGauge().GetValue()
					}
				}
			}
		}
		return depth
	}
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: name})
	queue.Add("an account")
	if depth() != 1 {
		t.Fatalf("the depth is %g", depth())
	}
	queue.ShutDown()
	must(t, resetQueueDepths())
	if depth() != 0 {
		t.Errorf("the depth of a queue that has ended is %g", depth())
	}
}
