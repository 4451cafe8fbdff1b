package imaging

import (
	"errors"
	"fmt"

	"mediastack.dev/runtime/internal/imaging/protocol"
	"mediastack.dev/runtime/media"
)

// Refusal is the error for a derivative that a worker could not make of a file.
type Refusal struct {
	// Variant is what is lacking; empty when nothing could be made.
	Variant media.Variant
	// Reason is one of format, broken, pixels, frames, output, memory and encode.
	Reason string
	// Text is libvips' word, for the log.
	Text string
}

func (r *Refusal) Error() string {
	if r.Variant != "" {
		return fmt.Sprintf("no %s (%s): %s", r.Variant, r.Reason, r.Text)
	}
	return fmt.Sprintf("refused (%s): %s", r.Reason, r.Text)
}

// ErrWorker is in the chain of the error for a file on which two workers failed: crashed,
// hung, or said something that no worker says.
var ErrWorker = errors.New("the image worker failed")

// ErrSource is in the chain of the error for a file that could not be read.
var ErrSource = errors.New("read the image")

// ErrClosed is in the chain of the error of a job that the end of the pool overtook.
var ErrClosed = errors.New("the image workers have been ended")

// fault is what a worker did wrong; the job deserves another one.
type workerFault struct{ cause error }

func (f *workerFault) Error() string { return ErrWorker.Error() + ": " + f.cause.Error() }

func (f *workerFault) Unwrap() []error { return []error{ErrWorker, f.cause} }

func lacking(l protocol.Lacks) error {
	return &Refusal{Variant: variantOf(l.Variant), Reason: l.Reason.String(), Text: printable(l.Text)}
}

func refused(r protocol.Refused) error {
	return &Refusal{Reason: r.Reason.String(), Text: printable(r.Text)}
}

// result names an outcome for the metrics.
func result(err error, cancelled bool) string {
	var no *Refusal
	switch {
	case err == nil:
		return "success"
	case cancelled:
		return "canceled"
	case errors.As(err, &no):
		return no.Reason
	case errors.Is(err, ErrSource):
		return "source_error"
	case errors.Is(err, errTimeout):
		return "timeout"
	}
	return "worker_error"
}

// printable makes text of a worker's fit for a log: one line of plain characters.
func printable(text string) string {
	clean := []rune(text)
	for i, r := range clean {
		if r < ' ' || r > '~' {
			clean[i] = '?'
		}
	}
	return string(clean)
}
