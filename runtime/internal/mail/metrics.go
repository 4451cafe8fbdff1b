package mail

import "github.com/prometheus/client_golang/prometheus"

// What came of an attempt to send a letter.
const (
	outcomeSent    = "sent"    // the mail server has it
	outcomeRetried = "retried" // it stays in the queue
	outcomeRefused = "refused" // no mail server will ever take it
	outcomeExpired = "expired" // its code has expired, or will have at the next attempt
)

func newSent(registry prometheus.Registerer) (*prometheus.CounterVec, error) {
	sent := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mediastack_mail_sent_total", Help: "Attempts to send a mail: sent, to be retried, given up because it was refused, given up because its code expires.",
	}, []string{"outcome"})
	for _, outcome := range []string{outcomeSent, outcomeRetried, outcomeRefused, outcomeExpired} {
		sent.WithLabelValues(outcome) // there from the start, for rates
	}
	return sent, registry.Register(sent)
}
