package reconcile

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// outageGauge is 1 for every source that is out.
var outageGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "mediastack_operator_outage",
	Help: "1 while a system that the operator depends on is out, else 0: the `database`, the `object store`, the `runtime`.",
}, []string{"source"})

func init() { metrics.Registry.MustRegister(outageGauge) }
