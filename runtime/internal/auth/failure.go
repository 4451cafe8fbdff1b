package auth

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/fault"
)

// failure is why a credential was not accepted. It is the cause of the fault.
type failure struct {
	// reason is the value of the label reason.
	reason string
	// guess is set if the failure counts towards the brute-force limit of the client. Expired and
	// revoked credentials do not, nor access tokens, which carry a MAC and cannot be guessed:
	// thousands of hosted applications share one IP address, and each sends its token once more
	// after it has expired.
	guess bool
}

// The failures.
var (
	failedMissing          = failure{reason: "missing"}
	failedSeveral          = failure{reason: "several"} // more than one credential
	failedLimited          = failure{reason: "limited"} // not checked: too many failures of the client
	failedInvalidKey       = failure{reason: "invalid_key", guess: true}
	failedInvalidToken     = failure{reason: "invalid_token"}
	failedExpiredToken     = failure{reason: "expired_token"}
	failedTokenDisabled    = failure{reason: "token_not_accepted", guess: true} // there are no logins
	failedKeyAsToken       = failure{reason: "key_as_token"}
	failedInvalidSignature = failure{reason: "invalid_signature", guess: true}
	failedExpiredSignature = failure{reason: "expired_signature", guess: true}
	failedRevoked          = failure{reason: "revoked"} // the key has ended, or the account is closed
	failedSuspended        = failure{reason: "suspended"}
)

// Error returns the reason, for the log.
func (f failure) Error() string { return f.reason }

// fault returns the fault of the failure.
func (f failure) fault(kind fault.Kind, format string, args ...any) error {
	return fault.Wrap(f, kind, format, args...)
}

// failureOf returns the failure in the chain of an error; false for an error of a store.
func failureOf(err error) (failure, bool) {
	var failed failure
	return failed, errors.As(err, &failed)
}

func newFailures() *prometheus.CounterVec {
	failures := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mediastack_auth_failures_total", Help: "Requests whose credential was not accepted, by reason: `missing` is none, `limited` was not checked after too many failures of the client.",
	}, []string{"reason"})
	for _, f := range []failure{failedMissing, failedSeveral, failedLimited, failedInvalidKey, failedInvalidToken, failedExpiredToken, failedTokenDisabled, failedKeyAsToken,
		failedInvalidSignature, failedExpiredSignature, failedRevoked, failedSuspended} {
		failures.WithLabelValues(f.reason) // exported from the start, for rates
	}
	return failures
}

// Register registers the metric of failed authentications.
func (a *Authenticator) Register(registry prometheus.Registerer) error {
	return registry.Register(a.failures)
}
