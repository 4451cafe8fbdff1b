// Package mail sends the e-mails with login codes, and those about rejected files, to one SMTP server. A Sender is the worker of their tasks (package work), which
// repeats an e-mail until the server accepts it or its code has expired.
package mail

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	gomail "github.com/wneessen/go-mail"

	"mediastack.dev/runtime/gate"
	"mediastack.dev/runtime/oauth"
	"mediastack.dev/runtime/work"
)

// Policy returns how e-mails are sent. Each slot has its own connection; mail servers limit the connections of one client, some to
// ten. The backoff leaves time for several attempts within the lifetime of a code.
func (c Config) Policy() work.Policy {
	return work.Policy{Slots: 4, Timeout: c.Timeout, MinBackoff: 5 * time.Second, MaxBackoff: 2 * time.Minute}
}

// Emails opens the payload of a task. oauth.Service implements it.
type Emails interface {
	// OpenEmail returns an e-mail, and whether it is to be sent.
	OpenEmail(ctx context.Context, encrypted []byte) (oauth.LoginEmail, bool, error)
}

// Sender sends e-mails. It is safe for concurrent use.
type Sender struct {
	composer composer
	emails   Emails
	conns    *connPool
	now      func() time.Time
	log      *slog.Logger
}

// NewSender returns a Sender. brand is the name of the service and baseURL its URL, as the e-mails show them.
func NewSender(cfg Config, brand, baseURL string, emails Emails, now func() time.Time, log *slog.Logger) (*Sender, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	composer, err := newComposer(cfg, brand, baseURL)
	if err != nil {
		return nil, err
	}
	return &Sender{composer: composer, emails: emails, conns: &connPool{relay: relay{cfg: cfg, heloName: heloName(baseURL)}}, now: now, log: log}, nil
}

// Close closes the connections that are open. No e-mail may be on its way.
func (s *Sender) Close() { s.conns.close() }

// Work implements work.Worker: it sends the e-mail of a task.
func (s *Sender) Work(ctx context.Context, task work.Task) error {
	email, wanted, err := s.emails.OpenEmail(ctx, task.Payload)
	if err != nil || !wanted {
		return err
	}
	message, err := s.composer.compose(task.Key, email, s.now())
	if err != nil {
		return work.Discard(failed("compose an e-mail", err, email))
	}
	return s.deliver(ctx, task, message, email)
}

// deliver sends a message once.
func (s *Sender) deliver(ctx context.Context, task work.Task, message *gomail.Msg, email oauth.LoginEmail) error {
	conn := s.conns.take()
	err := conn.send(ctx, message)
	s.conns.put(conn)
	switch {
	// An error after the server accepted the e-mail must not cause a second delivery.
	case err == nil || message.IsDelivered():
		s.log.InfoContext(ctx, "email delivered", "task", task.Key, "message", messageKey(task.Key, email.To, email.ExpiresAt), "to", oauth.MaskEmail(email.To), "attempt", task.Attempt)
		return nil
	case isPermanent(err):
		return work.Discard(failed("rejected by the mail server", err, email))
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return failed("the mail server did not answer within SERVICE_SMTP_TIMEOUT; it may have accepted the e-mail", err, email)
	}
	return failed("send", err, email)
}

// Notices is a Sender of e-mails about rejected files: the worker of gate.NoticeWork.
type Notices struct{ *Sender }

// Work implements work.Worker: it sends the e-mail of a task.
func (s Notices) Work(ctx context.Context, task work.Task) error {
	var email gate.NoticeEmail
	if err := json.Unmarshal(task.Payload, &email); err != nil {
		return work.Discard(errors.New("the payload of an e-mail about a rejected file cannot be read"))
	}
	about := oauth.LoginEmail{To: email.To} // for the masks of addresses in the log
	message, err := s.composer.composeNotice(task.Key, email, s.now())
	if err != nil {
		return work.Discard(failed("compose an e-mail", err, about))
	}
	return s.deliver(ctx, task, message, about)
}

// failed returns an error that names the recipient, masked, and no secret.
func failed(what string, err error, email oauth.LoginEmail) error {
	return fmt.Errorf("e-mail to %s: %s: %w", oauth.MaskEmail(email.To), what, errors.New(redactError(err, email)))
}
