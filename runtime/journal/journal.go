// Package journal tells the changes of an account: to programs that follow them, and to owners who ask who made them. The store writes an
// event in the statement of the change (docs/decisions/0048), so an event is there if, and only if, the change is.
package journal

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
)

// Type is the type of an event.
type Type string

// The types of events.
const (
	MediaUploaded   Type = "media.uploaded"   // a draft was made
	MediaSealed     Type = "media.sealed"     // it is listed and counted
	MediaUpdated    Type = "media.updated"    // Fields have changed
	MediaDeleted    Type = "media.deleted"    // it is not served anymore
	MediaRestored   Type = "media.restored"   // the delete was undone
	MediaPurged     Type = "media.purged"     // a draft, or a deleted item, has ended for good
	MediaRejected   Type = "media.rejected"   // the check of the file keeps the draft from being sealed, or has ended it
	SettingsChanged Type = "settings.changed" // Fields are the settings
	KeyIssued       Type = "key.issued"
	KeyEnded        Type = "key.ended" // it ends now, or after its overlap
	Suspended       Type = "account.suspended"
	Resumed         Type = "account.resumed"
	UsageThreshold  Type = "usage.threshold" // the use has reached Percent of the storage cap
	LoggedIn        Type = "login"           // an owner has entered a code
	AppAuthorized   Type = "application.authorized"
	AppRevoked      Type = "application.revoked" // the authorization has ended

	// Of ApprovalID. Fields are the operations.
	ApprovalRequested Type = "approval.requested" // a connection wants to make changes that wait for an owner
	ApprovalAllowed   Type = "approval.allowed"   // an owner has allowed them
	ApprovalDenied    Type = "approval.denied"
	ApprovalExpired   Type = "approval.expired" // no owner has decided in time
)

// Types returns all types, in the order of the reference.
func Types() []Type {
	return []Type{MediaUploaded, MediaSealed, MediaUpdated, MediaDeleted, MediaRestored, MediaPurged, MediaRejected, SettingsChanged, KeyIssued, KeyEnded, Suspended, Resumed,
		UsageThreshold, LoggedIn, AppAuthorized, AppRevoked, ApprovalRequested, ApprovalAllowed, ApprovalDenied, ApprovalExpired}
}

// OfApproval reports whether events of the type are about an approval.
func (t Type) OfApproval() bool {
	return t == ApprovalRequested || t == ApprovalAllowed || t == ApprovalDenied || t == ApprovalExpired
}

// Known reports whether there is such a type.
func (t Type) Known() bool { return slices.Contains(Types(), t) }

// Event is the record of one change.
type Event struct {
	Position
	Type      Type
	AccountID uuid.UUID
	// AppID is zero for an event of the account.
	AppID uuid.UUID
	// ItemID is zero for an event of no item. Sequence orders the events of one item: it is the version of the item after the change.
	ItemID   uuid.UUID
	Sequence int64
	Group    string
	Actor    account.Actor
	// Fields are the names of what has changed.
	Fields []string
	// Percent is the bound of UsageThreshold; zero for other types.
	Percent int
	// ApprovalID is the approval that the event is about; zero for other types.
	ApprovalID uuid.UUID
}

// EventID returns the text that identifies the event in the installation.
func (e Event) EventID() string {
	return strconv.FormatInt(e.Epoch, 10) + "-" + strconv.FormatInt(e.ID, 10)
}

// Position is the place of an event in the journal. Events are read in the order of Epoch, Transaction and ID.
type Position struct {
	Epoch       int64
	Transaction int64
	ID          int64
	At          time.Time
}

// State is what a reader needs to know before it reads.
type State struct {
	Epoch int64
	// Oldest is the oldest transaction that may still run. Events of it and of later ones are not read.
	Oldest int64
	Now    time.Time
	// Retention is how long events can be read; zero = the account has no journal.
	Retention time.Duration
}

// Query says which events are read.
type Query struct {
	AccountID uuid.UUID
	// AppID is the app of the events; zero = all.
	AppID uuid.UUID
	// OfAccount includes those of the account.
	OfAccount bool
	// Types are those of the events; none = all.
	Types []Type
	// After is the place after which they are, and Since their time at the earliest.
	After Position
	Since time.Time
	// Epoch and Oldest are those of State.
	Epoch, Oldest int64
	// Limit is how many are returned at most, and Examined how many are looked at.
	Limit, Examined int
}

// Read is what a query has found.
type Read struct {
	Events []Event
	// Stopped is the place at which Query.Examined events were looked at; nil = there are no more, or Query.Limit are returned.
	Stopped *Position
}

// Store keeps the journal. PostgreSQL implements it. Errors are faults.
type Store interface {
	// JournalState returns the state of an account's journal.
	JournalState(ctx context.Context, accountID uuid.UUID) (State, error)
	// Events reads events of transactions before Query.Oldest, in their order.
	Events(ctx context.Context, q Query) (Read, error)
	// Recent reads all committed events before a position, newest first.
	Recent(ctx context.Context, q RecentQuery) (Read, error)
	// NamedItems returns those of the items that are there, or can be restored.
	NamedItems(ctx context.Context, accountID uuid.UUID, ids []uuid.UUID) (map[uuid.UUID]NamedItem, error)
}

// PurgeStore is the part of the database that only the purge uses. PostgreSQL implements it.
type PurgeStore interface {
	// PrepareJournal makes the partitions of today and of so many days after it. A day whose events are in no partition has none.
	PrepareJournal(ctx context.Context, days int) (made int, err error)
	// DropJournal drops the partitions whose events no account can read anymore, and returns how many. One that is in use is left to the
	// next call.
	DropJournal(ctx context.Context) (dropped int, err error)
	// ExpireJournal deletes up to batch such events that are in no partition.
	ExpireJournal(ctx context.Context, batch int) (deleted int, err error)
}
