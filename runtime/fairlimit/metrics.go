package fairlimit

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
)

// Register adds the gauges of l to registry: <name>_in_flight, <name>_limit and, if callers
// may wait, <name>_waiting. The help texts begin with what, the operations that hold the
// slots ("Uploads"). A limit that is Unlimited is exported as +Inf.
func (l *Limiter[K]) Register(registry prometheus.Registerer, name, what string) error {
	for _, gauge := range []struct {
		suffix, help string
		value        func() float64
	}{
		{"_in_flight", what + " that hold a slot.", func() float64 { return float64(l.InFlight()) }},
		{"_waiting", what + " that wait for a slot.", func() float64 { return float64(l.Waiting()) }},
		{"_limit", what + " that may hold a slot at once.", l.limit},
	} {
		if gauge.suffix == "_waiting" && l.cfg.MaxWaiting == 0 {
			continue
		}
		if err := registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name + gauge.suffix, Help: gauge.help}, gauge.value)); err != nil {
			return err
		}
	}
	return nil
}

func (l *Limiter[K]) limit() float64 {
	if l.cfg.Limit == Unlimited {
		return math.Inf(1)
	}
	return float64(l.cfg.Limit)
}
