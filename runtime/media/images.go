package media

import (
	"context"
	"io"

	"github.com/google/uuid"

	"mediastack.dev/runtime/settings"
)

// Images makes derivatives: thumbnails and WebP conversions. internal/imaging.Pool
// implements it. It is safe for concurrent use.
type Images interface {
	// Admit refuses with a Busy fault while the queue of jobs is full. Begin asks
	// before a byte of the body is read; an upload that was admitted always gets its
	// turn, so the queue is bounded by its own limit and the uploads that run.
	Admit() error
	// Handles tells whether Derive would try to make something of a file of this
	// type and size. It costs nothing.
	Handles(mimeType string, bytes int64) bool
	// Derive waits for a worker, taking turns between accounts, and gives the
	// derivatives that could be made: none, with the reason as an error, for a file
	// that is broken, over a limit, or that killed its worker twice. It fails only the
	// derivatives, never the upload; an error that ctx caused wraps ctx.Err().
	Derive(ctx context.Context, job ImageJob) ([]Derivative, error)
}

// ImageJob is one file of which derivatives are wanted.
type ImageJob struct {
	ItemID    uuid.UUID
	AccountID uuid.UUID // whose turn it is
	MimeType  string    // as sniffed
	Bytes     int64     // length of the file
	// Source opens the file from its first byte. It is called again for the retry.
	Source   func(ctx context.Context) (io.ReadCloser, error)
	Settings settings.Effective
}

// Derivative is a small file made from another one.
type Derivative struct {
	Variant  Variant // WebP or Thumbnail
	MimeType string
	Data     []byte
}
