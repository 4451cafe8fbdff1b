// Package inventory exports the state of an installation as metrics: what its accounts store, what
// waits in its queues and what its purge did. All of it is in the database, so one replica of the
// runtime is enough: the one that has served for the longest time.
package inventory

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Inventory is the state of an installation.
type Inventory struct {
	// Stored has a row for each of the accounts with the most bytes, and one without an id for the sum of
	// all others.
	Stored   []Stored
	Accounts Accounts
	Queues   Queues
	Work     []Work
	Webhooks Webhooks
	// OldestDraft is when the oldest draft was created, or when a restore was confirmed since; nil
	// without drafts.
	OldestDraft *time.Time
	Purge       Purge
}

// Stored is what an account stores, or what several store together.
type Stored struct {
	AccountID       uuid.UUID
	Namespace, Name string
	MaxStorage      int64
	UsedBytes       int64 // of drafts, sealed items and renditions, and reserved by uploads
	RenditionBytes  int64
	Bytes, Items    int64 // sealed
	Drafts          int64
}

// Accounts are the numbers of accounts by their state.
type Accounts struct{ Open, Suspended, Closed int64 }

// Queues are the numbers of rows that wait for something.
type Queues struct {
	Uploads          int64 // running, with the resumable ones
	ResumableUploads int64
	Removals         int64
	RemovalsFailed   int64 // those that failed, and are repeated
	Fetches          int64 // uploads from a URL that are due
	// FetchWaitSeconds is how long an account of which no upload from a URL runs has been waiting for its
	// first one, at most.
	FetchWaitSeconds float64
}

// Work is what there is to do of a kind of package work.
type Work struct {
	Kind    string
	Tasks   int64 // that wait or run
	Failing int64 // those whose last attempt failed
	// WaitSeconds is for how long the oldest task has been due that does not run.
	WaitSeconds float64
}

// Webhooks are the numbers of webhooks by their state. Failing are those that are active and whose receiver has accepted nothing for an hour,
// although attempts were made.
type Webhooks struct{ Active, Suspended, Ended, Failing int64 }

// PurgeOutcome is how a run of the purge ended.
type PurgeOutcome string

// The outcomes.
const (
	Completed PurgeOutcome = "completed"
	Failed    PurgeOutcome = "failed"
	Held      PurgeOutcome = "held" // nothing may be removed
)

// PurgeCounts are what the purge removed.
type PurgeCounts struct {
	Drafts, DeletedItems, Uploads, Removals, RemovalsFailed, OAuthRows, APIKeys, Renditions int64
}

// PurgeRun is a run of the purge.
type PurgeRun struct {
	Started, Ended time.Time
	Outcome        PurgeOutcome
	NeedsAttention bool
	BucketsSkipped int64
	PurgeCounts
}

// Purge is what all runs of the purge did.
type Purge struct {
	// Started and Ended are of the last run, Succeeded is the end of the last one that completed; nil
	// before there is one.
	Started, Ended, Succeeded *time.Time
	// NeedsAttention and BucketsSkipped are of the last run.
	NeedsAttention bool
	BucketsSkipped int64
	Runs           map[PurgeOutcome]int64
	PurgeCounts
}

// Store reads the state; Package postgres implements it.
type Store interface {
	// Inventory returns the state, with rows of up to maxAccounts accounts.
	Inventory(ctx context.Context, maxAccounts int) (Inventory, error)
	// FirstRuntime returns the id of the replica that has served for the longest time, the zero UUID
	// if none serves.
	FirstRuntime(ctx context.Context) (uuid.UUID, error)
}
