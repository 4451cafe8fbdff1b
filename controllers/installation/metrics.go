package installation

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// verifiedGauge is 1 while the last comparison of this replica succeeded.
var verifiedGauge = prometheus.NewGauge(prometheus.GaugeOpts{
	Name: "mediastack_operator_installation_verified",
	Help: "1 while this replica found that the database belongs to this cluster and is not on hold, else 0. An outage does not change it.",
})

func init() { metrics.Registry.MustRegister(verifiedGauge) }
