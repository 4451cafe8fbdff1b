package mail

import "github.com/prometheus/client_golang/prometheus"

// What came of an attempt to send a letter.
const (
	outcomeSent    = "delivered" // the mail server has it
	outcomeRetried = "retry"     // it stays in the queue
	outcomeRefused = "rejected"  // no mail server will ever take it
	outcomeExpired = "expired"   // its code has expired, or will have at the next attempt
)

func newSent(registry prometheus.Registerer) (*prometheus.CounterVec, error) {
	sent := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mediastack_email_delivery_attempts_total", Help: "Attempts to deliver an e-mail by outcome: delivered, retry (it stays in the queue), rejected and expired (it is dropped).",
	}, []string{"outcome"})
	for _, outcome := range []string{outcomeSent, outcomeRetried, outcomeRefused, outcomeExpired} {
		sent.WithLabelValues(outcome) // there from the start, for rates
	}
	return sent, registry.Register(sent)
}
