package reconcile

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// outageGauge is 1 for every source that is out.
var outageGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "mediastack_operator_outage",
	Help: "Whether a system that the operator depends on is out: 1, or 0.",
}, []string{"source"})

func init() { metrics.Registry.MustRegister(outageGauge) }
