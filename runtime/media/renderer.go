package media

import (
	"context"
	"errors"
	"io"

	"github.com/google/uuid"

	"mediastack.dev/runtime/settings"
)

// Renderer makes pictures of recipes (docs/decisions/0031). internal/imaging.Pool implements it. It is safe for
// concurrent use.
type Renderer interface {
	// Handles reports whether Render would try to decode a file of this type and size. It is cheap.
	Handles(mimeType string, bytes int64) bool
	// Encodes reports whether pictures can be made in a format: an installation may lack the encoder of AVIF. It is cheap.
	Encodes(format settings.Format) bool
	// ReserveRender acquires a slot of the queue of renditions, for RenderJob.Slot: a caller that has other work
	// to do first learns there that the queue is full. Busy, with RetryAfter, while the account holds its maximum,
	// and while all slots are held and the account holds one of them.
	ReserveRender(account uuid.UUID) (ImageSlot, error)
	// Render waits for a worker and returns one Picture for each recipe, in their order. Each may have failed
	// without the others; its Err is then one of these:
	//   - an UnsupportedType fault: the file is broken, or it or the picture exceeds a limit, which the memory of a
	//     worker is, too. The same recipe never succeeds. ErrNotOffered is in its chain if the picture is too
	//     large for its format alone, and ErrOtherFormat if the encoder failed, or the memory did not suffice: another format
	//     may succeed.
	//   - an Unavailable fault: the workers died or took too long, then with ErrWorkerFailed in its chain, and ErrOtherFormat if it may be
	//     the encoder of AVIF that made them die, or they cannot
	//     be started or have been stopped. A job that is OnDemand and took too long has no second attempt.
	// The error is that of the whole job, which has no results then: an Invalid fault for a job that breaks a rule
	// of RenderJob, UnsupportedType for a file, Busy if the queue is full, Unavailable, the fault of Source, or
	// one that wraps ctx.Err().
	Render(ctx context.Context, job RenderJob) ([]Picture, error)
}

// MaxRecipes is how many recipes a RenderJob may have.
const MaxRecipes = 8

// ErrNotOffered is in the chain of Picture.Err if the picture would be too large for its format, as Recipe.Offered says of a
// known size. Such an address is "not found", and is not listed.
var ErrNotOffered = errors.New("the picture is too large for its format")

// ErrOtherFormat is in the chain of Picture.Err if it may be the format, and not the file, for which there is no picture:
// another format may succeed.
var ErrOtherFormat = errors.New("the picture could not be made in this format")

// ErrWorkerFailed is in the chain of the error of a RenderJob whose file made workers die, or took them too long: another attempt
// would, too, with any recipe unless ErrOtherFormat is there as well.
var ErrWorkerFailed = errors.New("the image workers failed on the file")

// EncoderVersion is part of the key of a result. It changes when the same recipe of the same file makes another
// picture.
const EncoderVersion = 1

// Purpose is what an image worker works for. Purposes take turns, and so do the accounts of each.
type Purpose uint8

// The purposes of renditions. The third one is the derivatives of uploads.
const (
	OnDemand Purpose = iota // a client waits
	Eager                   // nobody waits
)

// RenderJob is one file of which pictures are needed.
type RenderJob struct {
	ItemID    uuid.UUID // for the log
	AccountID uuid.UUID // accounts take turns
	MimeType  string    // as detected
	Bytes     int64     // length of the file
	Purpose   Purpose
	// Slot is released when a worker takes the job, or by its owner. Without one, Render reserves one, except for
	// Eager: those jobs are not limited, since their caller does a few at a time.
	Slot ImageSlot
	// Taken is called when a worker takes the job; nil = not. Until it returns, the worker is not killed if ctx ends: a caller
	// that no longer cancels ctx then loses no worker to clients that leave.
	Taken func()
	// Source opens the file from its first byte. It is called again for a retry.
	Source func(ctx context.Context) (io.ReadCloser, error)
	// Recipes are from 1 to MaxRecipes. The file is decoded once for all where that is cheaper.
	Recipes []Recipe
	// MaxBytes bounds the bytes of all pictures together; 0 = 64 MiB. A picture beyond it is UnsupportedType.
	MaxBytes int64
}
