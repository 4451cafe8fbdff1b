// Package webhook sends the events of the journal to receivers that MediaWebhooks name, by the conventions of Standard Webhooks
// (https://www.standardwebhooks.com). The operator stores the webhooks; the runtimes make a delivery of each event that one selects, and
// send it until the receiver accepts it or its attempts are used up. A delivery is a task of package work.
package webhook

import (
	"context"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/journal"
)

// Format is the form of the payload.
type Format string

// The formats.
const (
	Standard    Format = "standard"    // the payload that Standard Webhooks recommends: type, timestamp, data
	CloudEvents Format = "cloudevents" // CloudEvents 1.0 in structured mode
)

// Webhook is what a MediaWebhook wants.
type Webhook struct {
	// Namespace, Name and UID are those of the object.
	Namespace, Name, UID string
	// Generation is that of the object. A receiver that has ended the webhook (410) is asked again for a later one.
	Generation int64
	// AccountID is the account whose events are sent; zero = all accounts.
	AccountID uuid.UUID
	// Types, Apps and Groups select events; without one, all are selected. With Apps, or with Groups, events of no app or group are not.
	Types        []journal.Type
	Apps, Groups []string
	Format       Format
	// Suspended keeps events until it is over, as long as the journal has them.
	Suspended bool
	Target
	Requests
}

// Target is where deliveries are sent, and how they are signed. It is encrypted at rest.
type Target struct {
	URL string `json:"url"`
	// Secrets sign each delivery, the current one first.
	Secrets []Secret `json:"secrets"`
}

// Secret is a key that signs deliveries.
type Secret struct {
	// Key has 24 to 64 bytes.
	Key []byte `json:"key"`
	// Until is when it ends; zero = it does not.
	Until time.Time `json:"until,omitzero"`
}

// Requests are what an admin asks for once. A token that differs from the one that was handled is a new request.
type Requests struct {
	// Test is the token of a request for a test event.
	Test string
	// Replay is the token of a request to send events again: those since Since, or those with the ids Events if there are any.
	Replay string
	Since  time.Time
	Events []string
}

// State is what became of a webhook.
type State struct {
	// Namespace, Name and UID are those of the object.
	Namespace, Name, UID string
	// Pending is how many deliveries wait or run, and Full reports whether more events wait in the journal until there is room.
	Pending int
	Full    bool
	// Oldest is the time of the oldest event that is pending; zero = none is.
	Oldest time.Time
	// LastAttempt and LastSuccess are times; zero = there was none. LastStatus is the status code of the last attempt; 0 = there was no
	// answer, and LastError says why.
	LastAttempt, LastSuccess time.Time
	LastStatus               int
	LastError                string
	// FailingSince is when the first attempt failed since the last success; zero = the last one succeeded.
	FailingSince time.Time
	// Ended reports that the receiver answered 410 to a delivery of this generation.
	Ended bool
	// Missed is until when events were not sent, since the journal did not have them anymore; zero = none was missed.
	Missed time.Time
	// Journal reports whether the account has a journal. It is true for a webhook of all accounts.
	Journal bool
	// FormerKey reports that Target is encrypted for a key that is not the one that was published last: PutWebhook encrypts it again.
	FormerKey bool
	// Tested and Replayed are the tokens of the last requests that were handled, and ReplayError says what was not sent again by the last
	// replay, and why.
	Tested, Replayed, ReplayError string
}

// Attempt is one attempt at a delivery, for the log of a webhook.
type Attempt struct {
	At       time.Time
	EventID  string
	Type     journal.Type
	Number   int // from 1
	Status   int // 0 = there was no answer
	Error    string
	Duration time.Duration
}

// MaxAttemptsLogged is how many attempts of a webhook are kept.
const MaxAttemptsLogged = 100

// Registry is what the operator needs. PostgreSQL implements it.
type Registry interface {
	// PutWebhook stores a webhook, and returns its state. It writes nothing if it is stored already. Its first event is the first one of a
	// transaction that had not ended when it was stored first. NotFound if the account is not in the database, or is closed; Conflict if no
	// runtime has published a key for the encryption of Target yet.
	PutWebhook(ctx context.Context, w Webhook) (State, error)
	// RemoveWebhook removes the webhook of an object, with its pending deliveries. Without one it does nothing.
	RemoveWebhook(ctx context.Context, uid string) error
	// EachWebhook calls visit with the state of all webhooks of the namespaces (none = all).
	EachWebhook(ctx context.Context, namespaces []string, visit func(State)) error
	// Attempts returns the last MaxAttemptsLogged attempts of a webhook, newest first.
	Attempts(ctx context.Context, uid string) ([]Attempt, error)
}

// Message is a request to a receiver. It is the same at every attempt, but for the time and the signatures.
type Message struct {
	URL string
	// ID identifies the event (Webhook-Id).
	ID string
	// Time is that of the attempt (Webhook-Timestamp).
	Time time.Time
	// Keys sign the message, the current one first (Webhook-Signature).
	Keys        [][]byte
	ContentType string
	Body        []byte
}

// Answer is the answer of a receiver.
type Answer struct {
	Status int
	// RetryAfter is for how long the receiver asks for no other request; zero = it does not.
	RetryAfter time.Duration
}

// Sender sends messages. Package webhookclient implements it.
type Sender interface {
	// Send sends a message once. An error means that there was no answer; its text has no URL and no internal address, since tenants read it.
	Send(ctx context.Context, m Message) (Answer, error)
}
