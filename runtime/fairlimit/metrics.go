package fairlimit

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
)

// Register adds the gauges of l to registry: <name>_in_flight and <name>_limit. The help texts begin with
// what, the slots ("Slots of uploads"). A limit that is Unlimited is exported as +Inf.
func (l *Limiter[K]) Register(registry prometheus.Registerer, name, what string) error {
	if err := registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name + "_in_flight", Help: what + ": those in use."},
		func() float64 { return float64(l.InFlight()) })); err != nil {
		return err
	}
	return registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name + "_limit", Help: what + ": all; +Inf without a limit."}, l.limit))
}

// RegisterWithQueue is Register for a limiter on which callers may wait: it adds <name>_waiting, too.
func (l *Limiter[K]) RegisterWithQueue(registry prometheus.Registerer, name, what string) error {
	if err := l.Register(registry, name, what); err != nil {
		return err
	}
	return registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name + "_waiting", Help: what + ": how many wait for one."},
		func() float64 { return float64(l.Waiting()) }))
}

func (l *Limiter[K]) limit() float64 {
	if l.cfg.Limit == Unlimited {
		return math.Inf(1)
	}
	return float64(l.cfg.Limit)
}
