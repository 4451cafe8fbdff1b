package media

import (
	"context"
	"errors"
	"io"

	"github.com/google/uuid"

	"mediastack.dev/runtime/settings"
)

// Deriver reads what an image is, and makes its derivatives: thumbnails and WebP conversions. internal/imaging.Pool
// implements it. It is safe for concurrent use.
type Deriver interface {
	// Handles reports whether Derive would try to make derivatives of a file of this type and
	// size. It is cheap.
	Handles(mimeType string, bytes int64) bool
	// Derive waits for a worker, in turns between accounts, and returns what the image is, and the
	// derivatives that could be made. The facts are zero if there is no derivative. The error says why others are missing: the file is broken
	// (ErrUnreadable), it exceeds a limit, or it killed its worker twice. Such an error does not fail the upload. Two do: an
	// Unavailable fault of Source, and an error that wraps ctx.Err().
	Derive(ctx context.Context, job ImageJob) (Facts, []Derivative, error)
}

// ErrUnreadable is in the chain of the error of Deriver.Derive for a file whose bytes are not those of a whole image.
var ErrUnreadable = errors.New("the file is not readable as an image")

// ErrRejected is in the chain of the error of Deriver.Derive for a file, or a derivative, that no attempt can make: the file is broken, or it
// exceeds a limit. ErrWorkerFailed is in that of a file on which image workers died, or which took them too long.
var ErrRejected = errors.New("no picture can be made of the file")

// ImageSlot is a slot of the queue of images.
type ImageSlot interface {
	// Release releases the slot, once. It has no effect after a worker has taken the job.
	Release()
	// Contended reports whether all slots are held: the holder should not keep its slot for
	// long before there is a job.
	Contended() bool
}

// ImageJob is one file of which derivatives are needed.
type ImageJob struct {
	ItemID    uuid.UUID
	AccountID uuid.UUID // accounts take turns
	MimeType  string    // as detected
	Bytes     int64     // length of the file
	// Slot is released when a worker takes the job, or by its owner. A job without a slot is
	// not limited.
	Slot ImageSlot
	// Source opens the file from its first byte. It is called again for a retry.
	Source   func(ctx context.Context) (io.ReadCloser, error)
	Settings settings.Effective
	// KeepLocation is set if the account keeps the place at which a file was made.
	KeepLocation bool
	// Requested is set if a client waits for a derivative, and not for the end of its upload: the job takes the turns of requests.
	Requested bool
}

// Derivative is a small file made from another one.
type Derivative struct {
	Variant  Variant // WebP or Thumbnail
	MimeType string
	Data     []byte
}
