package oauth

import (
	"fmt"
	"time"
)

// Config bounds logins and tokens. The tags are flag and environment names.
type Config struct {
	SessionTTL       time.Duration `name:"login-ttl" env:"SERVICE_LOGIN_TTL" default:"15m" help:"Lifetime of a login session: for the login, and then for the pages of the account, from their last use."`
	MaxTTL           time.Duration `name:"login-max-ttl" env:"SERVICE_LOGIN_MAX_TTL" default:"720h" help:"Longest time after a login for which the use of the account's pages extends the session, up to 720h. One that is not longer than SERVICE_LOGIN_TTL extends nothing."`
	CodeTTL          time.Duration `name:"login-code-ttl" env:"SERVICE_LOGIN_CODE_TTL" default:"10m" help:"Lifetime of a login code. Only the newest code is valid."`
	MaxAttempts      int           `name:"login-max-attempts" env:"SERVICE_LOGIN_MAX_ATTEMPTS" default:"5" help:"Maximum wrong codes in one login session."`
	ResendAfter      time.Duration `name:"login-resend-after" env:"SERVICE_LOGIN_RESEND_AFTER" default:"30s" help:"Minimum time between two codes in one login. In it an e-mail address gets two codes at most, across all login sessions and replicas; from 0s to 1h."`
	CodesPerEmail    int           `name:"login-codes-per-email" env:"SERVICE_LOGIN_CODES_PER_EMAIL" default:"5" help:"Maximum codes per hour for one e-mail address that one client IP asks for (IPv6: one /64). All client IPs together get twice as many."`
	AttemptsPerEmail int           `name:"login-attempts-per-email" env:"SERVICE_LOGIN_ATTEMPTS_PER_EMAIL" default:"15" help:"Maximum code attempts per hour for one e-mail address, across all login sessions. The first attempt of each session is not counted."`
	CodesPerIP       int           `name:"login-codes-per-ip" env:"SERVICE_LOGIN_CODES_PER_IP" default:"20" help:"Maximum codes per hour for one client IP (IPv6: one /64)."`
	ReviewLogins     []string      `name:"review-logins" env:"SERVICE_REVIEW_LOGINS" help:"Fixed login codes for the reviewers of directories: entries of mediastack-runtime secrets review-code, separated by commas. Each has a hash, and holds for one account. None by default."`

	AuthorizationCodeTTL time.Duration `name:"oauth-code-ttl" env:"SERVICE_OAUTH_CODE_TTL" default:"60s" help:"Lifetime of an authorization code, from consent to tokens."`
	AccessTTL            time.Duration `name:"oauth-access-ttl" env:"SERVICE_OAUTH_ACCESS_TTL" default:"1h" help:"Lifetime of an access token."`
	RefreshTTL           time.Duration `name:"oauth-refresh-ttl" env:"SERVICE_OAUTH_REFRESH_TTL" default:"720h" help:"Lifetime of a refresh token; each refresh issues a new one."`
	RefreshGrace         time.Duration `name:"oauth-refresh-grace" env:"SERVICE_OAUTH_REFRESH_GRACE" default:"90s" help:"How long a used refresh token still works, for clients that refresh in parallel. Later use revokes the grant."`
	RegistrationsPerIP   int           `name:"oauth-registrations-per-ip" env:"SERVICE_OAUTH_REGISTRATIONS_PER_IP" default:"100" help:"Maximum new client registrations per hour for one client IP (IPv6: one /64)."`
}

// Validate checks the bounds.
func (c Config) Validate() error {
	for _, d := range []struct {
		name            string
		value, min, max time.Duration
	}{
		{"SERVICE_LOGIN_TTL", c.SessionTTL, time.Minute, 24 * time.Hour},
		{"SERVICE_LOGIN_MAX_TTL", c.MaxTTL, 0, 30 * 24 * time.Hour},
		{"SERVICE_LOGIN_CODE_TTL", c.CodeTTL, time.Minute, time.Hour},
		{"SERVICE_LOGIN_RESEND_AFTER", c.ResendAfter, 0, rateLimitWindow},
		{"SERVICE_OAUTH_CODE_TTL", c.AuthorizationCodeTTL, time.Second, 10 * time.Minute},
		{"SERVICE_OAUTH_ACCESS_TTL", c.AccessTTL, time.Minute, 24 * time.Hour},
		{"SERVICE_OAUTH_REFRESH_TTL", c.RefreshTTL, time.Hour, 366 * 24 * time.Hour},
		{"SERVICE_OAUTH_REFRESH_GRACE", c.RefreshGrace, 0, 10 * time.Minute},
	} {
		if d.value < d.min || d.value > d.max {
			return fmt.Errorf("%s must be from %s to %s, not %s", d.name, d.min, d.max, d.value)
		}
	}
	if c.CodeTTL > c.SessionTTL {
		return fmt.Errorf("SERVICE_LOGIN_CODE_TTL must be at most SERVICE_LOGIN_TTL, %s, not %s", c.SessionTTL, c.CodeTTL)
	}
	for _, n := range []struct {
		name       string
		value, max int
	}{
		{"SERVICE_LOGIN_MAX_ATTEMPTS", c.MaxAttempts, 10},
		{"SERVICE_LOGIN_CODES_PER_EMAIL", c.CodesPerEmail, 100},
		{"SERVICE_LOGIN_ATTEMPTS_PER_EMAIL", c.AttemptsPerEmail, 100},
		{"SERVICE_LOGIN_CODES_PER_IP", c.CodesPerIP, 10_000},
		{"SERVICE_OAUTH_REGISTRATIONS_PER_IP", c.RegistrationsPerIP, 10_000},
	} {
		if n.value < 1 || n.value > n.max {
			return fmt.Errorf("%s must be from 1 to %d, not %d", n.name, n.max, n.value)
		}
	}
	_, err := parseReviewLogins(c.ReviewLogins)
	return err
}
