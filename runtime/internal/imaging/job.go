package imaging

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"mediastack.dev/runtime/internal/imaging/protocol"
	"mediastack.dev/runtime/internal/imaging/webp"
	"mediastack.dev/runtime/media"
)

// maxOutput bounds the derivatives of one job, in bytes.
const maxOutput = 64 << 20

// mimeWebP is the type of every derivative.
const mimeWebP = "image/webp"

// convertedTypes are the types that are converted to WebP.
var convertedTypes = map[string]bool{"image/jpeg": true, "image/png": true}

// newJobRequest returns what a worker is asked to do for a job.
func (c Config) newJobRequest(number uint32, job media.ImageJob) protocol.Job {
	s := job.Settings
	return protocol.Job{
		Number:    number,
		Bytes:     uint64(job.Bytes),   //nolint:gosec // Handles rejects sizes that are not positive
		MaxPixels: uint64(c.MaxPixels), //nolint:gosec // Validate
		MaxFrames: uint32(c.MaxFrames), //nolint:gosec // Validate
		MaxOutput: maxOutput,
		TimeoutMS: uint32(c.Timeout.Milliseconds()), //nolint:gosec // Validate
		Width:     clampSide(s.ThumbnailWidth),
		Height:    clampSide(s.ThumbnailHeight),
		WebP:      s.UseWebP && convertedTypes[job.MimeType],
		Quality:   uint8(min(max(s.WebPOutputQuality, 0), 100)),
	}
}

func clampSide(length int) uint16 { return uint16(min(max(length, 1), 1<<14-1)) }

// roundTrip sends a job to the worker and receives its derivatives. The error is a
// *RejectedError, wraps ErrSource, or is a *workerError; derivatives that came before it
// are valid. usable reports whether the worker is ready for another job; otherwise it must
// be terminated.
func (p *process) roundTrip(ctx context.Context, job media.ImageJob, request protocol.Job, timeout time.Duration) (made []media.Derivative, usable bool, err error) {
	p.jobs++
	timer := time.AfterFunc(timeout, p.killTimedOut)
	unregister := context.AfterFunc(ctx, p.kill)
	defer func() {
		// If a kill has begun, it also hits a worker that has answered.
		notCanceled, inTime := unregister(), timer.Stop()
		usable = usable && notCanceled && inTime
	}()

	if usable, err := p.send(ctx, job, request, timeout); err != nil {
		return nil, usable, p.classifyError(err)
	}
	// Reading the file has its own timeout.
	timer.Reset(timeout)
	made, err = p.receive(request)
	if err != nil {
		var rejected *RejectedError
		return made, errors.As(err, &rejected), p.classifyError(err)
	}
	return made, true, nil
}

// classifyError returns a *workerError unless the file or its source caused err.
func (p *process) classifyError(err error) error {
	var rejected *RejectedError
	switch {
	case errors.As(err, &rejected), errors.Is(err, ErrSource):
		return err
	case p.timedOut.Load():
		return &workerError{errTimeout}
	}
	return &workerError{err}
}

// send streams the file to the worker.
func (p *process) send(ctx context.Context, job media.ImageJob, request protocol.Job, timeout time.Duration) (usable bool, err error) {
	// A source that hangs is no failure of the worker.
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	source, err := job.Source(ctx)
	if err != nil {
		return true, fmt.Errorf("%w: %w", ErrSource, err)
	}
	defer source.Close()
	if err := p.writer.Job(request); err != nil {
		return false, err
	}
	buffer := make([]byte, min(int64(protocol.MaxData), job.Bytes+1))
	sent := int64(0)
	for {
		n, err := io.ReadFull(source, buffer)
		if sent += int64(n); sent > job.Bytes {
			return p.abort(fmt.Errorf("%w: it is longer than %d bytes", ErrSource, job.Bytes))
		}
		if err := p.writer.Data(buffer[:n]); err != nil {
			return false, err
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			if sent < job.Bytes {
				return p.abort(fmt.Errorf("%w: it has %d of %d bytes: %w", ErrSource, sent, job.Bytes, err))
			}
			return true, p.writer.End()
		case err != nil:
			return p.abort(fmt.Errorf("%w: %w", ErrSource, err))
		}
	}
}

// abort cancels a job whose file can't be read. It returns cause.
func (p *process) abort(cause error) (usable bool, err error) {
	return p.writer.Abort() == nil, cause
}

// receive reads and validates the answer of a worker. Derivatives that came before an error
// are complete.
func (p *process) receive(request protocol.Job) (made []media.Derivative, err error) {
	expected := []protocol.Variant{protocol.Thumbnail}
	if request.WebP {
		expected = append(expected, protocol.WebP)
	}
	var missing error
	remaining := uint64(maxOutput)
	for {
		frame, err := p.reader.Next()
		if err != nil {
			return made, err
		}
		switch frame.Kind {
		case protocol.KindRejected:
			rejected, err := frame.Rejected()
			switch {
			case err != nil:
				return made, err
			case rejected.Number != request.Number || len(made) > 0 || missing != nil:
				return made, fmt.Errorf("%w: unexpected Rejected", protocol.ErrProtocol)
			}
			return nil, rejectedError(rejected)
		case protocol.KindDone:
			done, err := frame.Done()
			switch {
			case err != nil:
				return made, err
			case done.Number != request.Number || len(made) == 0:
				return made, fmt.Errorf("%w: unexpected Done", protocol.ErrProtocol)
			}
			return made, missing
		case protocol.KindDerivativeError:
			failed, err := frame.DerivativeError()
			switch {
			case err != nil:
				return made, err
			case failed.Number != request.Number || len(expected) == 0 || failed.Variant != expected[0] || missing != nil:
				return made, fmt.Errorf("%w: unexpected DerivativeError", protocol.ErrProtocol)
			}
			missing, expected = missingError(failed), expected[1:]
		case protocol.KindDerivativeHeader:
			header, err := frame.DerivativeHeader()
			switch {
			case err != nil:
				return made, err
			case header.Number != request.Number || len(expected) == 0 || header.Variant != expected[0]:
				return made, fmt.Errorf("%w: a derivative that was not requested", protocol.ErrProtocol)
			case header.Bytes > remaining:
				return made, fmt.Errorf("%w: more than %d bytes of derivatives", protocol.ErrProtocol, uint64(maxOutput))
			}
			derivative, err := p.readDerivative(header, request)
			if err != nil {
				return made, err
			}
			made, expected, remaining = append(made, derivative), expected[1:], remaining-header.Bytes
		default:
			return made, fmt.Errorf("%w: unexpected %v", protocol.ErrProtocol, frame.Kind)
		}
	}
}

func variantOf(variant protocol.Variant) media.Variant {
	if variant == protocol.WebP {
		return media.WebP
	}
	return media.Thumbnail
}

// readDerivative reads one derivative, validates it and strips its metadata.
func (p *process) readDerivative(header protocol.DerivativeHeader, request protocol.Job) (media.Derivative, error) {
	file := make([]byte, 0, min(header.Bytes, 1<<20))
	for uint64(len(file)) < header.Bytes {
		frame, err := p.reader.Next()
		switch {
		case err != nil:
			return media.Derivative{}, err
		case frame.Kind != protocol.KindData || uint64(len(file)+len(frame.Data())) > header.Bytes:
			return media.Derivative{}, fmt.Errorf("%w: unexpected %v in a derivative of %d bytes", protocol.ErrProtocol, frame.Kind, header.Bytes)
		}
		file = append(file, frame.Data()...)
	}
	image, err := webp.StripMetadata(file)
	switch {
	case err != nil:
		return media.Derivative{}, fmt.Errorf("%w: %w", protocol.ErrProtocol, err)
	case uint64(image.Width) != uint64(header.Width) || uint64(image.Height) != uint64(header.Height): //nolint:gosec // not negative
		return media.Derivative{}, fmt.Errorf("%w: the size of the image is not that of its header", protocol.ErrProtocol)
	case header.Variant == protocol.Thumbnail && (image.Width > int(request.Width) || image.Height > int(request.Height)):
		return media.Derivative{}, fmt.Errorf("%w: a thumbnail of %d x %d", protocol.ErrProtocol, image.Width, image.Height)
	}
	return media.Derivative{Variant: variantOf(header.Variant), MimeType: mimeWebP, Data: image.File}, nil
}
