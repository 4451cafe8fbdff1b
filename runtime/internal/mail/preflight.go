package mail

import (
	"context"

	"mediastack.dev/runtime/preflight"
)

const preflightPart = "mail"

// Preflight reports whether the mail server accepts the connection, the credentials and the sender.
// It sends no e-mail.
func Preflight(ctx context.Context, cfg Config, baseURL string, report *preflight.Report) {
	if !cfg.Enabled() {
		report.Note(preflightPart, "SERVICE_SMTP_HOST is not set: logins are disabled, API keys work")
		return
	}
	sender, err := cfg.sender("")
	if err != nil {
		report.Missing(preflightPart, "%v", err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	conn := &smtpConn{relay: relay{cfg: cfg, heloName: heloName(baseURL)}}
	defer conn.close()
	if err := conn.dial(ctx); err != nil {
		report.Missing(preflightPart, "%v: check SERVICE_SMTP_HOST, SERVICE_SMTP_PORT, SERVICE_SMTP_TLS, the user and the password, and networkPolicy.smtp of the chart", err)
		return
	}
	defer context.AfterFunc(ctx, func() { _ = conn.raw.Close() })()
	if err := conn.smtp.Mail(sender.Address); err != nil {
		report.Missing(preflightPart, "the mail server %s rejects the sender %s: %v", conn.relay.addr(), sender.Address, err)
		return
	}
	_ = conn.smtp.Reset() // the connection ends anyway
	report.Works(preflightPart, "the mail server %s accepts the sender %s", conn.relay.addr(), sender.Address)
}
