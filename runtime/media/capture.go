package media

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/capture"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/work"
)

// The kinds of the tasks about captures (docs/decisions/0053).
const (
	// CaptureWork reads what the file of one item says, whose key is the item: of those that no image worker has read with the upload. What
	// makes such an item adds its task, by a trigger of the database.
	CaptureWork work.Kind = "capture"
	// CapturesWork is the one task that reads the files of items of before.
	CapturesWork work.Kind = "captures"
	// LocationsWork removes the locations of an account that keeps them no longer. A trigger of the database adds its tasks.
	LocationsWork work.Kind = "locations"
)

// CaptureJob is a file, or a part of one, of which is read how it was made.
type CaptureJob struct {
	ItemID    uuid.UUID
	AccountID uuid.UUID
	Bytes     int64
	// Source opens these bytes. It is called again for a retry.
	Source       func(ctx context.Context) (io.ReadCloser, error)
	KeepLocation bool
}

// CaptureReader reads what files say of how they were made. internal/imaging.Pool implements it.
type CaptureReader interface {
	// ReadsCaptures reports whether there is anything that reads them.
	ReadsCaptures() bool
	// ReadCapture waits until nobody else needs an image worker. The error is an Unavailable fault of Source, wraps ctx.Err(), or says that the
	// workers failed on the file (ErrWorkerFailed).
	ReadCapture(ctx context.Context, job CaptureJob) (capture.Capture, error)
}

// CaptureItem is an item whose file is yet to be read.
type CaptureItem struct {
	ID, AccountID uuid.UUID
	Bucket        string
	Objects       Objects
	KeepLocation  bool
	// Resting is set while its account is suspended or closed: nothing is read then.
	Resting bool
}

// ErrCaptureRead is the error for an item whose file was read, or that is gone.
var ErrCaptureRead = errors.New("the file of the item was read")

// CaptureStore keeps what files say. Package postgres implements it.
type CaptureStore interface {
	// EnqueueCaptures adds the task of CapturesWork, due after the delay, unless it is there, and returns how many were added.
	EnqueueCaptures(ctx context.Context, delay time.Duration) (int, error)
	// ItemWithoutCapture returns an item whose file is yet to be read, or ErrCaptureRead.
	ItemWithoutCapture(ctx context.Context, accountID, itemID uuid.UUID) (CaptureItem, error)
	// ItemsWithoutCapture returns up to limit items, in the order of their account and id, after this one.
	ItemsWithoutCapture(ctx context.Context, after CaptureItem, limit int) ([]CaptureItem, error)
	// SetCapture records what the file of an item says, unless something is recorded.
	SetCapture(ctx context.Context, accountID, itemID uuid.UUID, c capture.Capture) error
	// RemoveLocations removes the locations of up to limit items of an account, unless it keeps locations. It returns how many they were, and whether
	// others may have one: rows that another statement changes are passed over.
	RemoveLocations(ctx context.Context, accountID uuid.UUID, limit int) (removed int, more bool, err error)
}

// saysCapture are the types of files that may say how they were made: those of item_may_say_capture of the database.
var saysCapture = regexp.MustCompile(`^(image/(jpeg|png|apng|vnd\.mozilla\.apng|webp|tiff|hei[cf]|avif)|video/(mp4|quicktime|3gpp|x-m4v)|audio/(mp4|x-m4a|mpeg))`)

// MaySayCapture reports whether files of a type may say how they were made.
func MaySayCapture(mimeType string) bool { return saysCapture.MatchString(mimeType) }

// CaptureDeps are the dependencies of a Captures.
type CaptureDeps struct {
	Store   CaptureStore
	Objects CaptureObjects
	Reader  CaptureReader
	// Writable returns an error while nothing may be changed.
	Writable func() error
	// Wait waits, or returns the error of ctx.
	Wait func(ctx context.Context, duration time.Duration) error
	Log  *slog.Logger
}

// CaptureObjects opens a range of an object.
type CaptureObjects interface {
	Open(ctx context.Context, bucket, key string, offset, length int64) (io.ReadCloser, error)
}

// Captures reads what the files of items say of how they were made, in image workers. It is the worker of CaptureWork.
type Captures struct{ deps CaptureDeps }

// NewCaptures returns a Captures that uses deps.
func NewCaptures(deps CaptureDeps) *Captures { return &Captures{deps} }

const (
	captureTimeout = 5 * time.Minute
	captureSlots   = 2
)

// Policy returns how the tasks run.
func (c *Captures) Policy() work.Policy {
	return work.Policy{Slots: captureSlots, Timeout: captureTimeout, MinBackoff: time.Second, MaxBackoff: 10 * time.Minute, Ready: c.deps.Writable}
}

// Work reads the file of an item. Without image workers it is done: once there are some, the pass of CapturesWork finds the item.
func (c *Captures) Work(ctx context.Context, task work.Task) error {
	if !c.deps.Reader.ReadsCaptures() {
		return nil
	}
	item, err := c.deps.Store.ItemWithoutCapture(ctx, task.AccountID, task.Key)
	switch {
	case errors.Is(err, ErrCaptureRead):
		return nil
	case err != nil:
		return err
	case item.Resting:
		return work.SnoozeAccount(time.Hour)
	}
	return c.read(ctx, item)
}

// read reads the file of an item, and records what it says. One on which image workers die says nothing.
func (c *Captures) read(ctx context.Context, item CaptureItem) error {
	original, _ := item.Objects.Find(Original)
	var said capture.Capture
	if MaySayCapture(original.MimeType) && original.Bytes > 0 {
		file := captureFile{objects: c.deps.Objects, bucket: item.Bucket, key: original.Key, size: original.Bytes}
		ranges, err := file.ranges(ctx, original.MimeType)
		if isGone(err) {
			return c.deps.Store.SetCapture(ctx, item.AccountID, item.ID, capture.Capture{})
		} else if err != nil {
			return err
		}
		said, err = c.deps.Reader.ReadCapture(ctx, CaptureJob{ItemID: item.ID, AccountID: item.AccountID, Bytes: ranges.bytes(), KeepLocation: item.KeepLocation,
			Source: func(ctx context.Context) (io.ReadCloser, error) { return file.open(ctx, ranges) }})
		switch {
		case isGone(err):
		case errors.Is(err, ErrWorkerFailed):
			c.deps.Log.WarnContext(ctx, "a file cannot be read for how it was made", "item", item.ID, "account", item.AccountID, "error", err)
		case err != nil:
			return fmt.Errorf("read how the file of item %s was made: %w", item.ID, err)
		}
	}
	return c.deps.Store.SetCapture(ctx, item.AccountID, item.ID, said)
}

// isGone reports whether an error is that of an object that is not there: the item was deleted, or lost its file.
func isGone(err error) bool { return fault.Is(err, fault.NotFound) }
