package webhook

import (
	"context"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/journal"
	"mediastack.dev/runtime/keys"
	"mediastack.dev/runtime/work"
)

// Selection is what a webhook sends, and in which form.
type Selection struct {
	ID           uuid.UUID
	Types        []journal.Type
	Apps, Groups []string
	Format       Format
}

// Found is an event of the journal, with what a payload says about it.
type Found struct {
	journal.Event
	About
}

// Batch is what a webhook has to look at.
type Batch struct {
	Selection
	// Events are in their order.
	Events []Found
	// Test is the token of a test event that is asked for, About is what it says; empty = none is.
	Test  string
	About About
}

// Receiver is what a delivery needs to know of its webhook.
type Receiver struct {
	ID uuid.UUID
	// AccountID is the account whose events are sent; zero = all accounts.
	AccountID  uuid.UUID
	Generation int64
	// Sealed is the Target, which Digest identifies, for the key with the id Key.
	Key            string
	Sealed, Digest []byte
	// Suspended: nothing is sent. Ended: nothing is sent to this generation anymore.
	Suspended, Ended bool
	// Failures is how many attempts have failed since the last success.
	Failures int
}

// Outcome is what an attempt does to its webhook, beside its record.
type Outcome struct {
	// Accepted: the receiver has the event. Gone: it wants no more events of this generation, which ends unless there is a later one.
	Accepted, Gone bool
	Generation     int64
	// Slow: the attempt took long.
	Slow bool
}

// Apart is a webhook of which deliveries do not run with those of others.
type Apart struct {
	// ID is that of the webhook. AccountID is the account whose events are sent; zero = all accounts.
	ID, AccountID uuid.UUID
	// Slow: the last attempt took long. ForeignKey: Target is encrypted for a key that the process does not have.
	Slow, ForeignKey bool
}

// ErrNotFound is returned for a webhook that was removed.
var ErrNotFound = fault.New(fault.NotFound, "the webhook does not exist")

// Store is what the runtimes need. PostgreSQL implements it. All methods can be repeated.
type Store interface {
	// PublishWebhookKey makes the operator encrypt for the key of this process, if the process begins, or if the one that has published the
	// last key is dead. done is false while the process has no lease: it would count as dead.
	PublishWebhookKey(ctx context.Context, key keys.PublicKey, begins bool) (done bool, err error)
	// WebhooksWithNews returns the webhooks that have a batch, and room for it among most deliveries.
	WebhooksWithNews(ctx context.Context, most int) ([]uuid.UUID, error)
	// Dispatch calls decide with the batch of a webhook, and adds the deliveries that it returns, in one transaction with the new place of the
	// webhook. It returns how many were added: none if another process looks at the webhook now. A batch has the events that may become most
	// deliveries, with those that are pending.
	Dispatch(ctx context.Context, id uuid.UUID, most int, decide func(Batch) ([]work.NewTask, error)) (added int, err error)
	// Apart returns the webhooks with deliveries that are slow, and those that are encrypted for a key whose id is none of keys.
	Apart(ctx context.Context, keys []string) ([]Apart, error)
	// Receiver returns what a delivery of a webhook needs, or ErrNotFound.
	Receiver(ctx context.Context, id uuid.UUID) (Receiver, error)
	// RecordAttempt records an attempt in the log and the state of a webhook, and returns how many attempts have failed since the last success.
	// If the receiver accepts after it had failed for longer than failingFor, its pending deliveries are due. ErrNotFound if it was removed.
	RecordAttempt(ctx context.Context, id uuid.UUID, attempt Attempt, outcome Outcome, failingFor time.Duration) (failures int, err error)
}
