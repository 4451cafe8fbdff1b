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
	// Admit refuses with a Busy fault while the account has all the places in the queue
	// of jobs that it may have, which is not all there are. Begin asks before a byte of
	// the body is read and while nobody knows whether an image comes: so who floods the
	// queue is refused at once, whatever he sends, and nobody else is. It holds nothing.
	Admit(account uuid.UUID) error
	// Reserve takes a place in the queue for a file that turned out to be an image. Busy
	// when the account has its share, or when all places are taken and it has one of them.
	Reserve(account uuid.UUID) (ImagePlace, error)
	// Await is Reserve for a file that is stored already: it waits for the account's turn.
	// Busy when ctx ends before.
	Await(ctx context.Context, account uuid.UUID) (ImagePlace, error)
	// Handles reports whether Derive would try to make something of a file of this
	// type and size. It costs nothing.
	Handles(mimeType string, bytes int64) bool
	// Derive waits for a worker, taking turns between accounts, and gives the
	// derivatives that could be made, with an error that says why others are lacking: of a
	// file that is broken, over a limit, or that killed its worker twice. It fails only the
	// derivatives, never the upload, unless the error is an Unavailable fault of Source; an
	// error that ctx caused wraps ctx.Err().
	Derive(ctx context.Context, job ImageJob) ([]Derivative, error)
}

// ImagePlace is a place in the queue of jobs.
type ImagePlace interface {
	// Release releases the place, once; also when a worker has taken the job.
	Release()
	// Wanted reports whether all places are taken: who has one should not keep it for long
	// before there is a job.
	Wanted() bool
}

// ImageJob is one file of which derivatives are wanted.
type ImageJob struct {
	ItemID    uuid.UUID
	AccountID uuid.UUID // whose turn it is
	MimeType  string    // as sniffed
	Bytes     int64     // length of the file
	// Place is released when a worker takes the job, or by whoever reserved it; nil is for
	// jobs that no limit holds back.
	Place ImagePlace
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
