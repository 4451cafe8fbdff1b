package operator

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// resetQueueDepths forgets the depths of the queues of a manager that has ended. controller-runtime adds
// to a gauge of the process what enters a queue and subtracts what leaves it: objects that are in a queue
// at its end would count for good, and raise the alert of a queue that does not get shorter.
func resetQueueDepths() error {
	err := metrics.Registry.Register(prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Subsystem: metrics.WorkQueueSubsystem, Name: metrics.DepthKey, Help: "Current depth of workqueue by workqueue and priority",
	}, []string{"name", "controller", "priority"}))
	var registered prometheus.AlreadyRegisteredError
	if errors.As(err, &registered) {
		if depths, ok := registered.ExistingCollector.(*prometheus.GaugeVec); ok {
			depths.Reset()
			return nil
		}
	}
	return fmt.Errorf("controller-runtime has another gauge of the depths of queues: %w", err)
}
