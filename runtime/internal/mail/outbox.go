// Package mail delivers the e-mails with login codes. An Outbox leases them from a queue
// that all replicas share (oauth.Service, in PostgreSQL) and sends them to one SMTP server.
// It retries until the server accepts an e-mail or its code has expired.
package mail

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/oauth"
)

const (
	// senders is the number of e-mails sent in parallel, each over its own connection. Mail
	// servers limit the connections of one client, some to ten.
	senders = 4
	// pollInterval is how often the queue is polled for e-mails of other replicas and for
	// retries that are due.
	pollInterval = 2 * time.Second
	// leaseMargin is the part of a lease that remains to record the result after
	// Config.Timeout has passed.
	leaseMargin = 30 * time.Second
	// leaseTimeout bounds one call of LeaseEmails.
	leaseTimeout = 5 * time.Second
	// shutdownGrace is how long deliveries in progress may continue after Run's context ends.
	shutdownGrace = 5 * time.Second
	// ackAttempts and ackBackoff bound the retries of recording a result.
	ackAttempts = 3
	ackBackoff  = time.Second
)

// Outbox delivers queued e-mails. It is safe for concurrent use.
type Outbox struct {
	cfg      Config
	relay    relay
	composer composer
	queue    Queue
	attempts *prometheus.CounterVec
	now      func() time.Time
	log      *slog.Logger
}

// NewOutbox returns an Outbox that delivers the e-mails of queue. brand is the name of the
// service and baseURL its URL, as the e-mails show them.
func NewOutbox(cfg Config, brand, baseURL string, queue Queue, registry prometheus.Registerer, now func() time.Time, log *slog.Logger) (*Outbox, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	composer, err := newComposer(cfg, brand, baseURL)
	if err != nil {
		return nil, err
	}
	attempts, err := newDeliveryAttempts(registry)
	if err != nil {
		return nil, err
	}
	return &Outbox{cfg: cfg, relay: relay{cfg: cfg, heloName: heloName(baseURL)}, composer: composer, queue: queue, attempts: attempts, now: now, log: log}, nil
}

// Run delivers e-mails until ctx ends. Deliveries in progress then have shutdownGrace to
// finish; other e-mails stay in the queue, which must outlive Run.
func (o *Outbox) Run(ctx context.Context) error {
	if !o.cfg.Enabled() {
		<-ctx.Done()
		return nil
	}
	sending, stopSending := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSending()
	work, free := make(chan oauth.LoginEmail, senders), make(chan struct{}, senders)
	var group sync.WaitGroup
	for range senders {
		group.Go(func() { o.send(sending, work, free) })
	}
	o.dispatch(ctx, work, free)
	close(work)
	defer time.AfterFunc(shutdownGrace, stopSending).Stop()
	group.Wait()
	return nil
}

// dispatch leases as many e-mails as there are idle senders, so that no lease runs while
// its e-mail waits for a sender.
func (o *Outbox) dispatch(ctx context.Context, work chan<- oauth.LoginEmail, free <-chan struct{}) {
	idle, more, failing := senders, true, false
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for {
		if more && idle > 0 {
			emails, err := o.lease(ctx, idle)
			for _, email := range emails {
				work <- email
			}
			more = err == nil && len(emails) == idle
			idle -= len(emails)
			if ctx.Err() != nil {
				return
			}
			if err != nil && !failing {
				o.log.WarnContext(ctx, "leasing e-mails failed", "error", err)
			}
			failing = err != nil
			// Jitter spreads the polls of replicas that started at the same time.
			poll.Reset(jitter(pollInterval))
		}
		select {
		case <-ctx.Done():
			return
		case <-free:
			idle++
		case <-o.queue.EmailQueued():
			more = true
		case <-poll.C:
			more = true
		}
	}
}

// lease is not interrupted when ctx ends: an e-mail that was leased but not received here
// would be delayed until its lease ends.
func (o *Outbox) lease(ctx context.Context, limit int) ([]oauth.LoginEmail, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseTimeout)
	defer cancel()
	return o.queue.LeaseEmails(ctx, limit, o.cfg.Timeout+leaseMargin)
}

// sendCode delivers e-mails until work is closed. Consecutive e-mails share a connection.
func (o *Outbox) send(ctx context.Context, work <-chan oauth.LoginEmail, free chan<- struct{}) {
	conn := smtpConn{relay: o.relay}
	defer conn.close()
	for {
		select {
		case email, ok := <-work:
			if !ok {
				return
			}
			o.deliver(ctx, &conn, email)
			free <- struct{}{}
		case <-conn.idle():
			conn.close()
		}
	}
}

// deliver sends one e-mail to the SMTP server and records the result in the queue.
func (o *Outbox) deliver(ctx context.Context, conn *smtpConn, email oauth.LoginEmail) {
	log := o.log.With("email_id", email.ID, "to", oauth.MaskEmail(email.To), "attempt", email.Attempts)
	if !o.now().Before(email.ExpiresAt) {
		o.ack(ctx, log, email, outcomeExpired)
		log.WarnContext(ctx, "email dropped", "reason", "the code has expired")
		return
	}
	message, err := o.composer.compose(email, o.now())
	if err != nil {
		o.ack(ctx, log, email, outcomeRejected)
		log.WarnContext(ctx, "email dropped", "reason", "the message cannot be composed", "error", redactError(err, email))
		return
	}
	sending, cancel := context.WithTimeout(ctx, o.cfg.Timeout)
	err = conn.send(sending, message)
	cancel()
	next := o.now().Add(backoff(email.Attempts))
	switch {
	// An error after the server accepted the e-mail must not cause a second delivery.
	case err == nil || message.IsDelivered():
		o.ack(ctx, log, email, outcomeDelivered)
		log.InfoContext(ctx, "email delivered")
	case ctx.Err() != nil:
		o.nack(ctx, log, email, o.now())
		log.InfoContext(ctx, "email requeued on shutdown")
	case isPermanent(err):
		o.ack(ctx, log, email, outcomeRejected)
		log.WarnContext(ctx, "email dropped", "reason", "rejected by the mail server", "error", redactError(err, email))
	case !next.Before(email.ExpiresAt):
		o.ack(ctx, log, email, outcomeExpired)
		log.WarnContext(ctx, "email dropped", "reason", "the code expires before the next attempt", "error", redactError(err, email))
	default:
		o.nack(ctx, log, email, next)
		log.WarnContext(ctx, "email delivery failed, will retry", "error", redactError(err, email), "retry_at", next)
	}
}

// ack counts the outcome and deletes the e-mail from the queue.
func (o *Outbox) ack(ctx context.Context, log *slog.Logger, email oauth.LoginEmail, outcome string) {
	o.attempts.WithLabelValues(outcome).Inc()
	o.persist(ctx, log, func(ctx context.Context) error { return o.queue.AckEmail(ctx, email.ID) })
}

// nack counts a retry and makes the e-mail due at the given time.
func (o *Outbox) nack(ctx context.Context, log *slog.Logger, email oauth.LoginEmail, at time.Time) {
	o.attempts.WithLabelValues(outcomeRetry).Inc()
	o.persist(ctx, log, func(ctx context.Context) error { return o.queue.NackEmail(ctx, email.ID, at) })
}

// persist writes a result into the queue. If the queue fails for longer, the e-mail is sent
// once more after its lease.
func (o *Outbox) persist(ctx context.Context, log *slog.Logger, write func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseMargin/2)
	defer cancel()
	for attempt := 1; ; attempt++ {
		err := write(ctx)
		if err == nil {
			return
		}
		if attempt == ackAttempts || ctx.Err() != nil {
			log.ErrorContext(ctx, "recording email result failed", "error", err)
			return
		}
		backoff := time.NewTimer(ackBackoff)
		select {
		case <-ctx.Done():
		case <-backoff.C:
		}
		backoff.Stop()
	}
}

const (
	minBackoff = 5 * time.Second
	// maxBackoff leaves time for several attempts within the lifetime of a code.
	maxBackoff = 2 * time.Minute
)

// backoff returns the wait after the given number of attempts: 5 s, 15 s, 45 s, then 2 min.
func backoff(attempts int) time.Duration {
	wait := minBackoff
	for range attempts - 1 {
		if wait *= 3; wait >= maxBackoff {
			return maxBackoff
		}
	}
	return wait
}

// jitter returns interval, changed randomly by at most a quarter.
func jitter(interval time.Duration) time.Duration {
	return interval*3/4 + rand.N(interval/2)
}
