// Package gate has files checked before they are sealed, in accounts with spec.gate (docs/decisions/0051). What makes such a draft, or wants
// one sealed that was not checked, adds its task. The worker streams the file to the scanner, and records the result: the draft may be sealed,
// and is if that is wanted; or it may not; or it ends, and its file is in quarantine.
package gate

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/work"
)

// ScanWork is the kind of the tasks that check the file of an item. The key of a task is the item; a trigger of the database adds it.
const ScanWork work.Kind = "scan"

// Outcome is what a scanner says of a file.
type Outcome string

// The results.
const (
	Clean       Outcome = "clean"
	Infected    Outcome = "infected"
	Unscannable Outcome = "unscannable" // the scanner cannot read all of it
)

// Result is the answer of a scanner.
type Result struct {
	Outcome Outcome
	// Name is what was found, or why the file cannot be scanned.
	Name string
}

// The errors of scans of which the file may be the cause. Other errors mean that the scanner is not available.
var (
	// ErrFile is wrapped by the error of a scanner that answers, but fails with this file.
	ErrFile = errors.New("the scanner failed with the file")
	// ErrInterrupted is wrapped by the error of a scanner that took the file, and has not answered: it may have crashed or hung because of it.
	ErrInterrupted = errors.New("the scanner took the file and has not answered")
)

// Scanner scans files. Package scanner implements it. It is safe for concurrent use.
type Scanner interface {
	// Scan reads size bytes of file, and returns what the scanner says of them. An error of file is returned as it is.
	Scan(ctx context.Context, file io.Reader, size int64) (Result, error)
	// Ping returns an error while the scanner is not available.
	Ping(ctx context.Context) error
}

// Waiting is an item whose file is to be checked.
type Waiting struct {
	Item   media.Item
	Bucket string
	// Gate is that of the account now; it may be off meanwhile.
	Gate account.Gate
	// Resting is set while its account is suspended or closed: nothing is checked then.
	Resting bool
}

// Store keeps what waits for a result. PostgreSQL implements it. Errors are faults. A result on an item that does not wait anymore, or is
// gone, changes nothing and is no error: the bytes of a file never change, so two results of one file exclude each other by themselves.
type Store interface {
	// Waiting returns an item whose file is to be checked; ErrNotWaiting if there is a result, or no such item.
	Waiting(ctx context.Context, accountID, itemID uuid.UUID) (Waiting, error)
	// Pass lets an item be sealed, and seals it in the same transaction if that is wanted. sealed reports whether it did.
	Pass(ctx context.Context, accountID, itemID uuid.UUID, now time.Time) (sealed bool, err error)
	// Deny keeps an item from being sealed that cannot be checked. It stays a draft.
	Deny(ctx context.Context, accountID, itemID uuid.UUID, notice Notice) (changed bool, err error)
	// Quarantine ends the draft, takes its bytes off the cap, and keeps its objects in quarantine, as far as most allows: the latest ones.
	Quarantine(ctx context.Context, accountID, itemID uuid.UUID, finding string, most QuarantineBounds, notice Notice) (changed bool, err error)
}

// QuarantineBounds bound what an account has in quarantine. It is beside the cap, so a client could fill the object store with it.
type QuarantineBounds struct {
	Files int
	// Percent of the storage cap of the account, for the bytes of the files.
	Percent int
}

// Notice has whether the owners are told of a rejected file by e-mail, in the same transaction.
type Notice struct {
	// Send is set if the installation sends e-mails.
	Send bool
	// Pause is for how long the owners of an account get no other one.
	Pause time.Duration
}

// ErrNotWaiting is the error for an item that waits for no result.
var ErrNotWaiting = errors.New("the item waits for no result")

// NoticeWork is the kind of the tasks that send an e-mail about a rejected file to one owner. The payload is the JSON of a NoticeEmail.
const NoticeWork work.Kind = "notice"

// NoticeEmail is an e-mail about a rejected file. It has no name of a file: who uploads it chooses that, and could send texts by it.
type NoticeEmail struct {
	To        string `json:"to"`
	Namespace string `json:"namespace"`
	Account   string `json:"account"`
	// DisplayName is the name of the account as owners see it; empty = it has none.
	DisplayName string    `json:"displayName,omitempty"`
	ItemID      uuid.UUID `json:"item"`
	// Finding is what was found; empty = the file could not be checked.
	Finding string    `json:"finding,omitempty"`
	At      time.Time `json:"at"`
}

// NoticeLifetime is how long a mail server may be away before an e-mail about a rejected file is of no use.
const NoticeLifetime = 24 * time.Hour

// Quarantined is a file in quarantine.
type Quarantined struct {
	ItemID          uuid.UUID
	Namespace, Name string // of the account
	App             string
	FileName        string
	Bytes           int64
	Finding         string
	At              time.Time
}

// QuarantineStore is what admins and the purge do with files in quarantine. PostgreSQL implements it.
type QuarantineStore interface {
	// EachQuarantined calls visit with the files of a namespace (empty = of all), the latest first, until it returns an error.
	EachQuarantined(ctx context.Context, namespace string, visit func(Quarantined) error) error
	// Release makes the draft again that a file was, under the cap of its account, and seals it if that was wanted. NotFound without such a
	// file, QuotaExceeded without room.
	Release(ctx context.Context, itemID uuid.UUID, now time.Time) (sealed bool, err error)
	// Delete ends a file, and queues the removal of its objects. NotFound without it.
	Delete(ctx context.Context, itemID uuid.UUID) error
	// ExpireQuarantine ends up to batch files of before cutoff, and queues the removal of their objects.
	ExpireQuarantine(ctx context.Context, cutoff time.Time, batch int) (ended int, err error)
}
