package oauth

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/fault"
)

// metrics count the steps of logins and the token requests.
type metrics struct {
	codes, logins, tokens *prometheus.CounterVec
	grants                prometheus.Counter
}

// Values of the labels. A step that a user can correct has its Reason as the outcome.
const (
	outcomeOK       = "ok"
	outcomeRejected = "rejected"
	outcomeError    = "error" // of the service, or one of its stores

	grantOfCode    = "authorization_code"
	grantOfRefresh = "refresh_token"
)

func newMetrics() metrics {
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := metrics{
		codes:  counters("mediastack_login_codes_total", "Login codes that users asked for, by outcome: `ok` (queued), `error` (of the service), or why none was sent. With logins only.", "outcome"),
		logins: counters("mediastack_logins_total", "Attempts to log in with a code, by outcome: `ok`, `error` (of the service), or why it failed (`incorrect_code`). With logins only.", "outcome"),
		tokens: counters("mediastack_oauth_token_requests_total", "Token requests by grant type (`authorization_code`, `refresh_token`) and outcome: `ok`, `rejected`, `error` (of the service). With logins only.", "grant_type", "outcome"),
		grants: prometheus.NewCounter(prometheus.CounterOpts{Name: "mediastack_oauth_grants_total", Help: "Applications that users allowed to access an account. With logins only."}),
	}
	// Exported from the start, for rates.
	for _, outcome := range []string{outcomeOK, outcomeError, string(ReasonTooManyCodesForEmail), string(ReasonTooManyCodesForNetwork)} {
		m.codes.WithLabelValues(outcome)
	}
	for _, outcome := range []string{outcomeOK, outcomeError, string(ReasonIncorrectCode), string(ReasonCodeExpired), string(ReasonTooManyAttempts), string(ReasonTooManyAttemptsForEmail)} {
		m.logins.WithLabelValues(outcome)
	}
	for _, grantType := range []string{grantOfCode, grantOfRefresh} {
		for _, outcome := range []string{outcomeOK, outcomeRejected, outcomeError} {
			m.tokens.WithLabelValues(grantType, outcome)
		}
	}
	return m
}

// Register registers the metrics of logins and tokens.
func (s *Service) Register(registry prometheus.Registerer) error {
	for _, collector := range []prometheus.Collector{s.metrics.codes, s.metrics.logins, s.metrics.tokens, s.metrics.grants} {
		if err := registry.Register(collector); err != nil {
			return err
		}
	}
	return nil
}

// countStep counts a step of a login that ended with err.
func countStep(steps *prometheus.CounterVec, err error) {
	outcome, reason := outcomeOK, Reason("")
	switch {
	case errors.As(err, &reason):
		outcome = string(reason)
	case err != nil:
		outcome = outcomeError
	}
	steps.WithLabelValues(outcome).Inc()
}

// countTokens counts a token request that ended with err.
func (m metrics) countTokens(grantType string, err error) {
	outcome := outcomeOK
	switch {
	case errors.Is(err, ErrInvalidGrant), fault.Is(err, fault.Invalid):
		outcome = outcomeRejected
	case err != nil:
		outcome = outcomeError
	}
	m.tokens.WithLabelValues(grantType, outcome).Inc()
}
