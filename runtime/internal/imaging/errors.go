package imaging

import (
	"errors"
	"fmt"

	"mediastack.dev/runtime/internal/imaging/protocol"
	"mediastack.dev/runtime/media"
)

// RejectedError is the error for a file of which no picture, or not the derivative in Variant,
// can be made.
type RejectedError struct {
	// Variant is the derivative of an upload that is missing; empty = all, or a rendition.
	Variant media.Variant
	// Reason is a protocol.Reason as text, the value of the metric label result.
	Reason string
	// Text is the message of libvips, for the log.
	Text string
}

func (r *RejectedError) Error() string {
	if r.Variant != "" {
		return fmt.Sprintf("no %s (%s): %s", r.Variant, r.Reason, r.Text)
	}
	return fmt.Sprintf("rejected (%s): %s", r.Reason, r.Text)
}

// Is reports media.ErrRejected, and a file whose bytes are not those of an image as media.ErrUnreadable. A file over a limit may be a whole
// image.
func (r *RejectedError) Is(target error) bool {
	return target == media.ErrRejected || target == media.ErrUnreadable && (r.Reason == protocol.ReasonFormat.String() || r.Reason == protocol.ReasonCorrupt.String())
}

// ErrWorker is in the chain of the error for a file on which workers crashed, hung or
// violated the protocol.
var ErrWorker = errors.New("image worker failed")

// errStart is in the chain of the error for a job without a worker: no program could be started. That says nothing of the file.
var errStart = errors.New("the image worker did not start")

// ErrSource is in the chain of the error for a file that could not be read.
var ErrSource = errors.New("reading the image failed")

// ErrClosed is in the chain of the error for a job that was not done before Close.
var ErrClosed = errors.New("the image workers have been stopped")

// workerError is the error of a worker that failed; the job is retried on another one.
type workerError struct{ cause error }

func (e *workerError) Error() string { return ErrWorker.Error() + ": " + e.cause.Error() }

func (e *workerError) Unwrap() []error { return []error{ErrWorker, e.cause} }

func pictureError(e protocol.PictureError) error {
	return &RejectedError{Reason: e.Reason.String(), Text: sanitize(e.Text)}
}

// notApplicable reports whether an error says that there is no such picture of the file.
func notApplicable(err error) bool {
	var rejected *RejectedError
	return errors.As(err, &rejected) && rejected.Reason == protocol.ReasonNotApplicable.String()
}

func rejectedError(r protocol.Rejected) error {
	return &RejectedError{Reason: r.Reason.String(), Text: sanitize(r.Text)}
}

// resultLabel returns the value of the metric label result.
func resultLabel(err error, canceled bool) string {
	var rejected *RejectedError
	switch {
	case err == nil:
		return resultSuccess
	case canceled:
		return resultCanceled
	case errors.As(err, &rejected):
		return rejected.Reason
	case errors.Is(err, ErrSource):
		return resultSourceError
	case errors.Is(err, errTimeout):
		return resultTimeout
	}
	return resultWorkerError
}

// sanitize returns text of a worker as one line of printable ASCII.
func sanitize(text string) string {
	runes := []rune(text)
	for i, r := range runes {
		if r < ' ' || r > '~' {
			runes[i] = '?'
		}
	}
	return string(runes)
}
