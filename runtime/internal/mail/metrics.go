package mail

import "github.com/prometheus/client_golang/prometheus"

// Outcomes of a delivery attempt.
const (
	outcomeDelivered = "delivered" // the mail server accepted the e-mail
	outcomeRetry     = "retry"     // the e-mail stays in the queue
	outcomeRejected  = "rejected"  // the mail server rejected the e-mail permanently
	outcomeExpired   = "expired"   // the code has expired, or expires before the next attempt
)

func newDeliveryAttempts(registry prometheus.Registerer) (*prometheus.CounterVec, error) {
	attempts := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mediastack_email_delivery_attempts_total", Help: "Attempts to deliver an e-mail by outcome: delivered, retry (it stays in the queue), rejected and expired (it is dropped).",
	}, []string{"outcome"})
	for _, outcome := range []string{outcomeDelivered, outcomeRetry, outcomeRejected, outcomeExpired} {
		attempts.WithLabelValues(outcome) // exported as 0 before the first attempt, for rates
	}
	return attempts, registry.Register(attempts)
}
