// Package mail sends the letters with login codes. An Outbox claims them from a queue
// that all replicas share (oauth.Service, in PostgreSQL) and hands them to one mail
// server over SMTP, again and again until it takes them or the code has expired.
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
	// senders is how many letters are on their way at once, each over a connection of
	// its own. Mail servers count the connections of one client, and some allow ten.
	senders = 4
	// pollPause is how often the queue is asked for letters of other replicas and for
	// those whose time to be tried again has come.
	pollPause = 2 * time.Second
	// leaseSpare is what a lease is longer than a letter may take, for noting the result.
	leaseSpare = 30 * time.Second
	// claimTimeout bounds the question for letters.
	claimTimeout = 5 * time.Second
	// endPause is how long letters that are on their way may take after Run's end came.
	endPause = 5 * time.Second
	// noteTries and notePause bound how often a result is noted again when the queue fails.
	noteTries = 3
	notePause = time.Second
)

// Outbox sends letters. It is safe for concurrent use.
type Outbox struct {
	cfg      Config
	relay    relay
	composer composer
	queue    Queue
	sent     *prometheus.CounterVec
	now      func() time.Time
	log      *slog.Logger
}

// NewOutbox makes an Outbox. brand is the name of the service in the letters, baseURL
// where it is.
func NewOutbox(cfg Config, brand, baseURL string, queue Queue, registry prometheus.Registerer, now func() time.Time, log *slog.Logger) (*Outbox, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	composer, err := newComposer(cfg, brand, baseURL)
	if err != nil {
		return nil, err
	}
	sent, err := newSent(registry)
	if err != nil {
		return nil, err
	}
	return &Outbox{cfg: cfg, relay: relay{cfg: cfg, greeting: greeting(baseURL)}, composer: composer, queue: queue, sent: sent, now: now, log: log}, nil
}

// Run sends what waits until ctx ends. Letters that are on their way then get a
// moment more; those that don't make it stay in the queue, which must outlive Run.
func (o *Outbox) Run(ctx context.Context) error {
	if !o.cfg.Enabled() {
		<-ctx.Done()
		return nil
	}
	sending, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	work, free := make(chan oauth.Letter, senders), make(chan struct{}, senders)
	var running sync.WaitGroup
	for range senders {
		running.Go(func() { o.send(sending, work, free) })
	}
	o.dispatch(ctx, work, free)
	close(work)
	defer time.AfterFunc(endPause, cut).Stop()
	running.Wait()
	return nil
}

// dispatch claims as many letters as there are senders without one, so that no lease
// runs before its letter is on its way.
func (o *Outbox) dispatch(ctx context.Context, work chan<- oauth.Letter, free <-chan struct{}) {
	idle, more, failing := senders, true, false
	poll := time.NewTicker(pollPause)
	defer poll.Stop()
	for {
		if more && idle > 0 {
			letters, err := o.claim(ctx, idle)
			for _, letter := range letters {
				work <- letter
			}
			more = err == nil && len(letters) == idle
			idle -= len(letters)
			if ctx.Err() != nil {
				return
			}
			if err != nil && !failing {
				o.log.WarnContext(ctx, "letters can't be claimed", "error", err)
			}
			failing = err != nil
			// Replicas that were started together must not ask together for ever.
			poll.Reset(jitter(pollPause))
		}
		select {
		case <-ctx.Done():
			return
		case <-free:
			idle++
		case <-o.queue.Waiting():
			more = true
		case <-poll.C:
			more = true
		}
	}
}

// claim goes on when ctx ends: a letter that was claimed and then dropped would lie
// idle for its lease.
func (o *Outbox) claim(ctx context.Context, most int) ([]oauth.Letter, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTimeout)
	defer cancel()
	return o.queue.Claim(ctx, most, o.cfg.Timeout+leaseSpare)
}

// send delivers letters until there will be none, over one connection while they come
// in a row.
func (o *Outbox) send(ctx context.Context, work <-chan oauth.Letter, free chan<- struct{}) {
	line := line{relay: o.relay}
	defer line.hangUp()
	for {
		select {
		case letter, ok := <-work:
			if !ok {
				return
			}
			o.deliver(ctx, &line, letter)
			free <- struct{}{}
		case <-line.unused():
			line.hangUp()
		}
	}
}

// deliver hands one letter to the mail server, and notes in the queue what came of it.
func (o *Outbox) deliver(ctx context.Context, line *line, letter oauth.Letter) {
	log := o.log.With("letter", letter.ID, "to", oauth.MaskAddress(letter.To), "attempt", letter.Attempts)
	if !o.now().Before(letter.ExpiresAt) {
		o.forget(ctx, log, letter, outcomeExpired)
		log.WarnContext(ctx, "mail given up: its code has expired")
		return
	}
	message, err := o.composer.compose(letter, o.now())
	if err != nil {
		o.forget(ctx, log, letter, outcomeRefused)
		log.WarnContext(ctx, "mail given up: it can't be written", "error", scrub(err, letter))
		return
	}
	handing, cancel := context.WithTimeout(ctx, o.cfg.Timeout)
	err = line.send(handing, message)
	cancel()
	next := o.now().Add(backoff(letter.Attempts))
	switch {
	// What fails after the mail server took the letter is no reason to send it again.
	case err == nil || message.IsDelivered():
		o.forget(ctx, log, letter, outcomeSent)
		log.InfoContext(ctx, "mail sent")
	case ctx.Err() != nil:
		o.retry(ctx, log, letter, o.now())
		log.InfoContext(ctx, "mail left for later: ending")
	case refused(err):
		o.forget(ctx, log, letter, outcomeRefused)
		log.WarnContext(ctx, "mail given up: the mail server refuses it for good", "error", scrub(err, letter))
	case !next.Before(letter.ExpiresAt):
		o.forget(ctx, log, letter, outcomeExpired)
		log.WarnContext(ctx, "mail given up: its code expires before another attempt", "error", scrub(err, letter))
	default:
		o.retry(ctx, log, letter, next)
		log.WarnContext(ctx, "mail not sent, to be tried again", "error", scrub(err, letter), "at", next)
	}
}

func (o *Outbox) forget(ctx context.Context, log *slog.Logger, letter oauth.Letter, outcome string) {
	o.sent.WithLabelValues(outcome).Inc()
	o.note(ctx, log, func(ctx context.Context) error { return o.queue.Sent(ctx, letter.ID) })
}

func (o *Outbox) retry(ctx context.Context, log *slog.Logger, letter oauth.Letter, at time.Time) {
	o.sent.WithLabelValues(outcomeRetried).Inc()
	o.note(ctx, log, func(ctx context.Context) error { return o.queue.Retry(ctx, letter.ID, at) })
}

// note writes a result into the queue. Should the queue fail for longer, the letter
// is sent once more after its lease.
func (o *Outbox) note(ctx context.Context, log *slog.Logger, write func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseSpare/2)
	defer cancel()
	for try := 1; ; try++ {
		err := write(ctx)
		if err == nil {
			return
		}
		if try == noteTries || ctx.Err() != nil {
			log.ErrorContext(ctx, "what came of a mail can't be noted", "error", err)
			return
		}
		pause := time.NewTimer(notePause)
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
		pause.Stop()
	}
}

const (
	firstPause = 5 * time.Second
	// longestPause keeps several attempts within the life of a code.
	longestPause = 2 * time.Minute
)

// backoff is the pause after so many attempts: 5 s, 15 s, 45 s, and 2 min from then on.
func backoff(attempts int) time.Duration {
	pause := firstPause
	for range attempts - 1 {
		if pause *= 3; pause >= longestPause {
			return longestPause
		}
	}
	return pause
}

// jitter is a pause give or take a quarter.
func jitter(pause time.Duration) time.Duration {
	return pause*3/4 + rand.N(pause/2)
}
