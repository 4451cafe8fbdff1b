package mediaaccount

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// usageFailures counts the failures to measure the usage, which no condition shows.
var usageFailures = prometheus.NewCounter(prometheus.CounterOpts{
	Name: "mediastack_operator_usage_failures_total",
	Help: "Failures to read the usage of an account, or of all.",
})

func init() { metrics.Registry.MustRegister(usageFailures) }
