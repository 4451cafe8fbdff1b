package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/keys"
	"mediastack.dev/runtime/work"
)

// Deps are the dependencies of a Service.
type Deps struct {
	Store  Store
	Sender Sender
	// Opener opens what the operator has encrypted.
	Opener *keys.Opener
	// BaseURL is that of the service, the source of the events.
	BaseURL string
	// Timeout is how long Sender takes at most.
	Timeout time.Duration
	// Ready returns an error while nothing may be sent, as by a copied database; nil = it always may.
	Ready func() error
	Now   func() time.Time
	Log   *slog.Logger
	// Registry takes the metrics; nil = none are registered.
	Registry prometheus.Registerer
}

// Service finds the events that webhooks send, and is the worker that sends them. It is safe for concurrent use.
type Service struct {
	cfg       Config
	deps      Deps
	metrics   metrics
	sending   sending
	apart     apart
	published atomic.Int64 // when the key was published, or found to be, in nanoseconds since 1970; 0 = never
}

// New returns a Service that uses deps.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	metrics, err := newMetrics(deps.Registry)
	if err != nil {
		return nil, err
	}
	return &Service{cfg: cfg, deps: deps, metrics: metrics, sending: sending{running: map[uuid.UUID]int{}}, apart: newApart()}, nil
}

// statusGone is the status code with which a receiver ends its webhook (RFC 9110, section 15.5.11).
const statusGone = 410

const (
	// suspendedPause is how long the deliveries of a suspended webhook rest: the end of the suspension wakes them.
	suspendedPause = time.Minute
	// keyPause is how long a delivery waits for a process that has the server secret for which it is encrypted.
	keyPause = 10 * time.Second
	// publishInterval is how often a process looks whether the key of a dead process was the last one.
	publishInterval = 15 * time.Second
	// probePause is how long the deliveries of a failing receiver wait for the one that is sent.
	probePause = 5 * time.Second
	// recordTime is the part of an attempt's time that is left to read and record.
	recordTime = 15 * time.Second
)

// Policy returns how the tasks of DeliveryWork run. Half of the slots are for webhooks whose receivers answer slowly.
func (s *Service) Policy() work.Policy {
	slow := s.cfg.Concurrency / 2
	quick := s.cfg.Concurrency - slow
	return work.Policy{
		Slots: quick, Spare: max(1, quick/spareShare), Slow: &work.Slow{Slots: slow, Spare: max(1, slow/spareShare), After: leaveAfter}, Select: s.selectWebhooks,
		PerAccount: s.cfg.PerWebhook, Timeout: s.deps.Timeout + recordTime, Leased: true, CheckInterval: s.cfg.CheckInterval,
		MaxAttempts: maxAttempts, MinBackoff: schedule[0], MaxBackoff: schedule[len(schedule)-1], Ready: s.deps.Ready, Enqueue: s.Enqueue,
	}
}

// Enqueue makes the deliveries of the events that were committed since the last call, of any process, and returns how many. What fails for one
// webhook does not keep others waiting.
//
// It also publishes the key of the server secret, for which the operator encrypts: at the first call, since a rotation of the secret starts all
// processes again, and later if the process that has published another one is dead.
func (s *Service) Enqueue(ctx context.Context) (added int, err error) {
	if now, last := s.deps.Now().UnixNano(), s.published.Load(); last == 0 || now-last >= int64(publishInterval) {
		done, err := s.deps.Store.PublishWebhookKey(ctx, s.deps.Opener.PublicKey(), last == 0)
		if err != nil {
			return 0, err
		}
		if done {
			s.published.Store(now)
		}
	}
	webhooks, err := s.deps.Store.WebhooksWithNews(ctx, s.cfg.MaxPending)
	if err != nil {
		return 0, err
	}
	for _, id := range webhooks {
		n, failed := s.deps.Store.Dispatch(ctx, id, s.cfg.MaxPending, func(b Batch) ([]work.NewTask, error) {
			b.About.Source = s.deps.BaseURL
			for i := range b.Events {
				b.Events[i].Source = s.deps.BaseURL
			}
			return b.deliveries(s.deps.Now())
		})
		if added += n; failed != nil {
			err = errors.Join(err, fmt.Errorf("webhook %s: %w", id, failed))
		}
	}
	return added, err
}

// sending counts the deliveries of each webhook that the process sends.
type sending struct {
	mu      sync.Mutex
	running map[uuid.UUID]int
}

// begin reports whether a delivery may be sent, of which alone says that no other one of its webhook may be.
func (s *sending) begin(webhook uuid.UUID, alone bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if alone && s.running[webhook] > 0 {
		return false
	}
	s.running[webhook]++
	return true
}

func (s *sending) end(webhook uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[webhook]--; s.running[webhook] == 0 {
		delete(s.running, webhook)
	}
}

// Work makes one attempt at a delivery. It is the worker of DeliveryWork.
func (s *Service) Work(ctx context.Context, task work.Task) error {
	message, err := decodeDelivery(task.Payload)
	if err != nil {
		return work.Discard(err)
	}
	receiver, err := s.deps.Store.Receiver(ctx, task.AccountID)
	switch {
	case fault.Is(err, fault.NotFound):
		return nil
	case err != nil:
		return work.Snooze(s.cfg.CheckInterval)
	case receiver.Ended:
		return nil
	case receiver.Suspended:
		return work.SnoozeAccount(suspendedPause)
	}
	target, err := s.open(receiver)
	if err != nil {
		if slices.Contains(s.deps.Opener.IDs(), receiver.Key) { // else selectWebhooks tells it, once
			s.deps.Log.WarnContext(ctx, "what is stored of a webhook cannot be decrypted; a change of its spec stores it again", "webhook", receiver.ID)
		}
		return work.Snooze(keyPause)
	}
	if !s.sending.begin(receiver.ID, receiver.Failures >= probing) {
		return work.Snooze(probePause)
	}
	defer s.sending.end(receiver.ID)
	return s.attempt(ctx, task, receiver, target, message)
}

// open returns the decrypted target.
func (s *Service) open(receiver Receiver) (target Target, err error) {
	plain, err := s.deps.Opener.Open(receiver.Sealed)
	if err != nil {
		return Target{}, err
	}
	return target, json.Unmarshal(plain, &target)
}

// keysAt returns the keys that sign at a time.
func (t Target) keysAt(now time.Time) (keys [][]byte) {
	for _, secret := range t.Secrets {
		if secret.Until.IsZero() || now.Before(secret.Until) {
			keys = append(keys, secret.Key)
		}
	}
	return keys
}

// attempt sends a delivery, and records the attempt.
func (s *Service) attempt(ctx context.Context, task work.Task, receiver Receiver, target Target, message delivery) error {
	began := s.deps.Now()
	sending, cancel := context.WithTimeout(ctx, s.deps.Timeout)
	late := time.AfterFunc(slowAfter, func() { s.apart.mark(receiver, s.deps.Now()) })
	answer, err := s.deps.Sender.Send(sending, Message{URL: target.URL, ID: message.ID, Time: began, Keys: target.keysAt(began), ContentType: message.ContentType, Body: message.body})
	cancel()
	slow := !late.Stop()
	if slow { // also as of now, since it may have taken longer than a webhook is remembered
		s.apart.mark(receiver, s.deps.Now())
	}
	if ctx.Err() != nil {
		return ctx.Err() // the process shuts down: the attempt does not count
	}
	made := Attempt{At: began, EventID: message.ID, Type: message.Type, Number: task.Attempt, Status: answer.Status, Duration: s.deps.Now().Sub(began)}
	if err != nil {
		made.Error = err.Error()
		s.logCause(ctx, receiver.ID, err)
	}
	outcome := Outcome{Accepted: err == nil && answer.Status/100 == 2, Gone: err == nil && answer.Status == statusGone, Generation: receiver.Generation, Slow: slow}
	failures, recordErr := s.deps.Store.RecordAttempt(ctx, receiver.ID, made, outcome, failingFor)
	if fault.Is(recordErr, fault.NotFound) {
		return nil
	}
	if recordErr != nil { // the receiver may have the event: what decides about the delivery is its answer
		s.deps.Log.WarnContext(ctx, "an attempt at a delivery is not in the log of its webhook", "webhook", receiver.ID, "error", recordErr)
	}
	switch {
	case outcome.Accepted:
		s.metrics.accepted(message.at, s.deps.Now())
		return nil
	case outcome.Gone && s.ended(ctx, receiver.ID):
		s.metrics.attempts.WithLabelValues(outcomeGone).Inc()
		s.deps.Log.InfoContext(ctx, "a receiver has ended its webhook", "webhook", receiver.ID)
		return nil
	}
	if err == nil {
		err = fmt.Errorf("the receiver answered %d", answer.Status)
	}
	if task.Attempt >= maxAttempts {
		s.metrics.attempts.WithLabelValues(outcomeGivenUp).Inc()
		return err
	}
	s.metrics.attempts.WithLabelValues(outcomeFailed).Inc()
	return work.Retry(max(retryDelay(task.Attempt), answer.RetryAfter), max(pause(failures), answer.RetryAfter), err)
}

// ended reports whether a webhook has ended or was removed. The spec may have changed while its former receiver answered: then the delivery
// is for another one.
func (s *Service) ended(ctx context.Context, webhook uuid.UUID) bool {
	receiver, err := s.deps.Store.Receiver(ctx, webhook)
	return fault.Is(err, fault.NotFound) || err == nil && receiver.Ended
}

// logCause logs what tenants do not see of an error.
func (s *Service) logCause(ctx context.Context, webhook uuid.UUID, err error) {
	if cause := errors.Unwrap(err); cause != nil {
		s.deps.Log.DebugContext(ctx, "a receiver gave no answer", "webhook", webhook, "error", cause)
	}
}
