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

// maxOutput bounds what is taken from a worker for one job, in bytes.
const maxOutput = 64 << 20

// mimeWebP is the type of every derivative.
const mimeWebP = "image/webp"

// converted are the types that a WebP conversion is made of.
var converted = map[string]bool{"image/jpeg": true, "image/png": true}

// order says what a job asks of a worker.
func (c Config) order(number uint32, job media.ImageJob) protocol.Job {
	s := job.Settings
	return protocol.Job{
		Number:    number,
		Bytes:     uint64(job.Bytes),   //nolint:gosec // Handles refuses what is not positive
		MaxPixels: uint64(c.MaxPixels), //nolint:gosec // Validate
		MaxFrames: uint32(c.MaxFrames), //nolint:gosec // Validate
		MaxOutput: maxOutput,
		TimeoutMS: uint32(c.Timeout.Milliseconds()), //nolint:gosec // Validate
		Width:     side(s.ThumbnailWidth),
		Height:    side(s.ThumbnailHeight),
		WebP:      s.UseWebP && converted[job.MimeType],
		Quality:   uint8(min(max(s.WebPOutputQuality, 0), 100)),
	}
}

func side(length int) uint16 { return uint16(min(max(length, 1), 1<<14-1)) }

// do sends one job to the worker and takes its answer. The error is a *Refusal of
// everything or of what is lacking, ErrSource, or a *workerFault after which the worker
// must be discarded; what it made before is good. usable tells whether the worker is ready
// for another job.
func (p *process) do(ctx context.Context, job media.ImageJob, order protocol.Job, timeout time.Duration) (made []media.Derivative, usable bool, err error) {
	p.jobs++
	alarm := time.AfterFunc(timeout, p.timeOut)
	givenUp := context.AfterFunc(ctx, p.kill)
	defer func() {
		// A kill that is on its way already hits a worker that is done, too.
		missed, inTime := givenUp(), alarm.Stop()
		usable = usable && missed && inTime
	}()

	if usable, err := p.send(ctx, job, order, timeout); err != nil {
		return nil, usable, p.blame(err)
	}
	// The file may come slowly; the work has its own time.
	alarm.Reset(timeout)
	made, err = p.receive(order)
	if err != nil {
		var no *Refusal
		return made, errors.As(err, &no), p.blame(err)
	}
	return made, true, nil
}

// blame tells a worker's fault from an answer.
func (p *process) blame(err error) error {
	var no *Refusal
	switch {
	case errors.As(err, &no), errors.Is(err, ErrSource):
		return err
	case p.late.Load():
		return &workerFault{errTimeout}
	}
	return &workerFault{err}
}

// send streams the file to the worker.
func (p *process) send(ctx context.Context, job media.ImageJob, order protocol.Job, timeout time.Duration) (usable bool, err error) {
	// A source that hangs is not the worker's fault.
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	source, err := job.Source(ctx)
	if err != nil {
		return true, fmt.Errorf("%w: %w", ErrSource, err)
	}
	defer source.Close()
	if err := p.writer.Job(order); err != nil {
		return false, err
	}
	piece := make([]byte, min(int64(protocol.MaxData), job.Bytes+1))
	sent := int64(0)
	for {
		n, err := io.ReadFull(source, piece)
		if sent += int64(n); sent > job.Bytes {
			return p.abort(fmt.Errorf("%w: it is longer than %d bytes", ErrSource, job.Bytes))
		}
		if err := p.writer.Data(piece[:n]); err != nil {
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

// abort makes the worker forget a job whose file can't be read.
func (p *process) abort(cause error) (usable bool, err error) {
	return p.writer.Abort() == nil, cause
}

// receive takes a worker's answer. Whatever a worker would not say is an error. What was
// made before an error is whole.
func (p *process) receive(order protocol.Job) (made []media.Derivative, err error) {
	wanted := []protocol.Variant{protocol.Thumbnail}
	if order.WebP {
		wanted = append(wanted, protocol.WebP)
	}
	var lack error
	room := uint64(maxOutput)
	for {
		frame, err := p.reader.Next()
		if err != nil {
			return made, err
		}
		switch frame.Kind {
		case protocol.KindRefused:
			no, err := frame.Refused()
			switch {
			case err != nil:
				return made, err
			case no.Number != order.Number || len(made) > 0 || lack != nil:
				return made, fmt.Errorf("%w: a refusal out of place", protocol.ErrProtocol)
			}
			return nil, refused(no)
		case protocol.KindDone:
			done, err := frame.Done()
			switch {
			case err != nil:
				return made, err
			case done.Number != order.Number || len(made) == 0:
				return made, fmt.Errorf("%w: an end out of place", protocol.ErrProtocol)
			}
			return made, lack
		case protocol.KindLacks:
			no, err := frame.Lacks()
			switch {
			case err != nil:
				return made, err
			case no.Number != order.Number || len(wanted) == 0 || no.Variant != wanted[0] || lack != nil:
				return made, fmt.Errorf("%w: a lack out of place", protocol.ErrProtocol)
			}
			lack, wanted = lacking(no), wanted[1:]
		case protocol.KindHead:
			head, err := frame.Head()
			switch {
			case err != nil:
				return made, err
			case head.Number != order.Number || len(wanted) == 0 || head.Variant != wanted[0]:
				return made, fmt.Errorf("%w: a derivative that nobody asked for", protocol.ErrProtocol)
			case head.Bytes > room:
				return made, fmt.Errorf("%w: more than %d bytes of derivatives", protocol.ErrProtocol, uint64(maxOutput))
			}
			derivative, err := p.derivative(head, order)
			if err != nil {
				return made, err
			}
			made, wanted, room = append(made, derivative), wanted[1:], room-head.Bytes
		default:
			return made, fmt.Errorf("%w: %v in an answer", protocol.ErrProtocol, frame.Kind)
		}
	}
}

func variantOf(variant protocol.Variant) media.Variant {
	if variant == protocol.WebP {
		return media.WebP
	}
	return media.Thumbnail
}

// derivative reads one derivative and lets its pixels through, and nothing else.
func (p *process) derivative(head protocol.Head, order protocol.Job) (media.Derivative, error) {
	file := make([]byte, 0, min(head.Bytes, 1<<20))
	for uint64(len(file)) < head.Bytes {
		frame, err := p.reader.Next()
		switch {
		case err != nil:
			return media.Derivative{}, err
		case frame.Kind != protocol.KindData || uint64(len(file)+len(frame.Data())) > head.Bytes:
			return media.Derivative{}, fmt.Errorf("%w: %v in a derivative of %d bytes", protocol.ErrProtocol, frame.Kind, head.Bytes)
		}
		file = append(file, frame.Data()...)
	}
	image, err := webp.Still(file)
	switch {
	case err != nil:
		return media.Derivative{}, fmt.Errorf("%w: %w", protocol.ErrProtocol, err)
	case uint64(image.Width) != uint64(head.Width) || uint64(image.Height) != uint64(head.Height): //nolint:gosec // not negative
		return media.Derivative{}, fmt.Errorf("%w: an image of another size than was said", protocol.ErrProtocol)
	case head.Variant == protocol.Thumbnail && (image.Width > int(order.Width) || image.Height > int(order.Height)):
		return media.Derivative{}, fmt.Errorf("%w: a thumbnail of %d x %d", protocol.ErrProtocol, image.Width, image.Height)
	}
	return media.Derivative{Variant: variantOf(head.Variant), MimeType: mimeWebP, Data: image.File}, nil
}
