package imaging

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"

	"mediastack.dev/runtime/geometry"
	"mediastack.dev/runtime/imageformat"
	"mediastack.dev/runtime/internal/imaging/bare"
	"mediastack.dev/runtime/internal/imaging/protocol"
	"mediastack.dev/runtime/internal/imaging/webp"
	"mediastack.dev/runtime/media"
)

// maxOutput bounds the pictures of one job, in bytes, unless the job has a smaller bound.
const maxOutput = 64 << 20

// job is a file of which pictures are requested: the derivatives of an upload, or renditions.
type job struct {
	item    uuid.UUID
	account uuid.UUID
	purpose purpose
	bytes   int64
	slot    media.ImageSlot // nil for a job that is not limited
	taken   func()          // called when a worker takes the job; may be nil
	source  func(ctx context.Context) (io.ReadCloser, error)
	// outputs are none of a job that asks only what the file says of how it was made.
	outputs  []protocol.Output
	location bool // the place at which the file was made is kept
	// maxBytes bounds the pictures; 0 = maxOutput.
	maxBytes int64

	ctx    context.Context
	queued time.Time
	wait   trace.Span    // for a worker
	done   chan struct{} // closed when made and err are set
	made   result
	err    error
}

// take releases the slot of the queue, and reports whether the job is still needed: no process is killed for one that is not.
func (j *job) take() (needed bool) {
	j.wait.End()
	j.releaseQueueSlot()
	if j.taken != nil {
		j.taken()
	}
	return j.ctx.Err() == nil
}

// fail ends a job that no worker has.
func (j *job) fail(err error) {
	j.wait.End()
	j.err = err
	close(j.done)
}

// releaseQueueSlot releases the slot of the queue, if the job holds one.
func (j *job) releaseQueueSlot() {
	if j.slot != nil {
		j.slot.Release()
	}
}

// failure returns the error of the job, or of its first picture that failed. A picture that does not apply to the file has
// not failed.
func (j *job) failure() error {
	if j.err != nil {
		return j.err
	}
	for _, picture := range j.made.pictures {
		if picture.Err != nil && !notApplicable(picture.Err) {
			return picture.Err
		}
	}
	return nil
}

// newJobRequest returns what a worker is asked to do for a job.
func (c Config) newJobRequest(number uint32, j *job) protocol.Job {
	maxBytes := uint64(maxOutput)
	if j.maxBytes > 0 {
		maxBytes = min(maxBytes, uint64(j.maxBytes))
	}
	return protocol.Job{
		Number:       number,
		Bytes:        uint64(j.bytes),              //nolint:gosec // Handles rejects sizes that are not positive
		MaxPixels:    uint64(c.MaxPixels),          //nolint:gosec // Validate
		MaxFrames:    uint32(c.MaxFrames),          //nolint:gosec // Validate
		MaxAnimation: uint64(c.MaxAnimationPixels), //nolint:gosec // Validate
		MaxBytes:     maxBytes,
		TimeoutMS:    uint32(c.Timeout.Milliseconds()), //nolint:gosec // Validate
		Location:     j.location,
		Outputs:      j.outputs,
	}
}

// result is what a worker returned of a job.
type result struct {
	facts media.Facts
	// pictures has one picture for each output that was answered, in their order. Err is a *RejectedError.
	pictures []media.Picture
}

// complete returns how many pictures there are.
func (r result) complete() (n int) {
	for _, picture := range r.pictures {
		if picture.Err == nil {
			n++
		}
	}
	return n
}

// roundTrip sends a job to the worker and receives its pictures. The error is a
// *RejectedError, wraps ErrSource, or is a *workerError; pictures that came before it
// are valid. usable reports whether the worker is ready for another job; otherwise it must
// be terminated.
func (p *process) roundTrip(ctx context.Context, j *job, request protocol.Job, timeout time.Duration) (made result, usable bool, err error) {
	p.jobs++
	timer := time.AfterFunc(timeout, p.killTimedOut)
	unregister := context.AfterFunc(ctx, p.kill)
	defer func() {
		// If a kill has begun, it also hits a worker that has answered.
		notCanceled, inTime := unregister(), timer.Stop()
		usable = usable && notCanceled && inTime
	}()

	if usable, err := p.send(ctx, j, request, timeout); err != nil {
		return made, usable, p.classifyError(err)
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
func (p *process) send(ctx context.Context, j *job, request protocol.Job, timeout time.Duration) (usable bool, err error) {
	// A source that hangs is no failure of the worker.
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	source, err := j.source(ctx)
	if err != nil {
		return true, fmt.Errorf("%w: %w", ErrSource, err)
	}
	defer source.Close()
	if err := p.writer.Job(request); err != nil {
		return false, err
	}
	buffer := make([]byte, min(int64(protocol.MaxData), j.bytes+1))
	sent := int64(0)
	for {
		n, err := io.ReadFull(source, buffer)
		if sent += int64(n); sent > j.bytes {
			return p.abort(fmt.Errorf("%w: it is longer than %d bytes", ErrSource, j.bytes))
		}
		if err := p.writer.Data(buffer[:n]); err != nil {
			return false, err
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			if sent < j.bytes {
				return p.abort(fmt.Errorf("%w: it has %d of %d bytes: %w", ErrSource, sent, j.bytes, err))
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

// receive reads and validates the answer of a worker. The facts and pictures that came before an
// error are complete.
func (p *process) receive(request protocol.Job) (made result, err error) {
	frame, err := p.reader.Next()
	switch {
	case err != nil:
		return made, err
	case len(request.Outputs) == 0:
		if err = readCapture(frame, request, &made.facts); err != nil {
			return made, err
		}
		return made, p.receiveDone(request)
	case frame.Kind == protocol.KindRejected:
		return made, rejection(frame, request)
	}
	if made.facts, err = readFacts(frame, request); err != nil {
		return made, err
	}
	for remaining := request.MaxBytes; ; {
		frame, err := p.reader.Next()
		if err != nil {
			return made, err
		}
		switch frame.Kind {
		case protocol.KindCapture:
			if made.facts.CaptureRead || len(made.pictures) > 0 {
				return made, fmt.Errorf("%w: unexpected Capture", protocol.ErrProtocol)
			}
			if err := readCapture(frame, request, &made.facts); err != nil {
				return made, err
			}
		case protocol.KindDone:
			done, err := frame.Done()
			if err == nil && (done.Number != request.Number || len(made.pictures) < len(request.Outputs)) {
				err = fmt.Errorf("%w: unexpected Done", protocol.ErrProtocol)
			}
			return made, err
		case protocol.KindPictureError:
			failed, err := frame.PictureError()
			if err == nil {
				err = checkAnswer("PictureError", failed.Number, failed.Index, request, made)
			}
			if err != nil {
				return made, err
			}
			made.pictures = append(made.pictures, media.Picture{Err: pictureError(failed)})
		case protocol.KindPictureHeader:
			header, err := frame.PictureHeader()
			if err == nil {
				err = checkAnswer("picture", header.Number, header.Index, request, made)
			}
			if err == nil && header.Bytes > remaining {
				err = fmt.Errorf("%w: more than %d bytes of pictures", protocol.ErrProtocol, request.MaxBytes)
			}
			if err != nil {
				return made, err
			}
			remaining -= header.Bytes
			picture, err := p.readPicture(header, request.Outputs[header.Index], request, made.facts)
			if err != nil {
				return made, err
			}
			made.pictures = append(made.pictures, picture)
		default:
			return made, fmt.Errorf("%w: unexpected %v", protocol.ErrProtocol, frame.Kind)
		}
	}
}

// receiveDone reads the end of a job without pictures.
func (p *process) receiveDone(request protocol.Job) error {
	frame, err := p.reader.Next()
	if err != nil {
		return err
	}
	done, err := frame.Done()
	if err == nil && done.Number != request.Number {
		err = fmt.Errorf("%w: unexpected Done", protocol.ErrProtocol)
	}
	return err
}

// checkAnswer checks that an answer is that of the next output of the job.
func checkAnswer(what string, number uint32, index uint8, request protocol.Job, made result) error {
	if number != request.Number || int(index) != len(made.pictures) || int(index) >= len(request.Outputs) {
		return fmt.Errorf("%w: a %s that was not requested", protocol.ErrProtocol, what)
	}
	return nil
}

// rejection returns the error of a file that the worker has rejected.
func rejection(frame protocol.Frame, request protocol.Job) error {
	rejected, err := frame.Rejected()
	switch {
	case err != nil:
		return err
	case rejected.Number != request.Number:
		return fmt.Errorf("%w: unexpected Rejected", protocol.ErrProtocol)
	}
	return rejectedError(rejected)
}

// readFacts validates what the worker says of an image.
func readFacts(frame protocol.Frame, request protocol.Job) (media.Facts, error) {
	facts, err := frame.Facts()
	switch {
	case err != nil:
		return media.Facts{}, err
	case facts.Number != request.Number:
		return media.Facts{}, fmt.Errorf("%w: facts of another job", protocol.ErrProtocol)
	case uint64(facts.Width)*uint64(facts.Height) > request.MaxPixels || facts.Width > math.MaxInt32 || facts.Height > math.MaxInt32:
		return media.Facts{}, fmt.Errorf("%w: an image of %d x %d pixels", protocol.ErrProtocol, facts.Width, facts.Height)
	}
	read := media.Facts{Width: int(facts.Width), Height: int(facts.Height), Placeholder: []byte(facts.Placeholder)}
	if facts.HasColor {
		read.DominantColor = fmt.Sprintf("#%x", facts.DominantColor)
	}
	return read, nil
}

// readCapture adds what the worker says of how a file was made. A place is dropped that was not asked for.
func readCapture(frame protocol.Frame, request protocol.Job, facts *media.Facts) error {
	read, err := frame.Capture()
	switch {
	case err != nil:
		return err
	case read.Number != request.Number:
		return fmt.Errorf("%w: a capture of another job", protocol.ErrProtocol)
	}
	facts.Capture, facts.CaptureRead = read.Clean(time.Now()), true
	if !request.Location {
		facts.Capture = facts.Capture.WithoutLocation()
	}
	return nil
}

// readPicture reads one picture, validates it and strips its metadata.
func (p *process) readPicture(header protocol.PictureHeader, output protocol.Output, request protocol.Job, facts media.Facts) (media.Picture, error) {
	file := make([]byte, 0, min(header.Bytes, 1<<20))
	for uint64(len(file)) < header.Bytes {
		frame, err := p.reader.Next()
		switch {
		case err != nil:
			return media.Picture{}, err
		case frame.Kind != protocol.KindData || uint64(len(file)+len(frame.Data())) > header.Bytes:
			return media.Picture{}, fmt.Errorf("%w: unexpected %v in a picture of %d bytes", protocol.ErrProtocol, frame.Kind, header.Bytes)
		}
		file = append(file, frame.Data()...)
	}
	picture, err := strip(file, header.Encoding, output, request)
	switch {
	case err != nil:
		return media.Picture{}, fmt.Errorf("%w: %w", protocol.ErrProtocol, err)
	case uint64(picture.Width) != uint64(header.Width) || uint64(picture.Height) != uint64(header.Height): //nolint:gosec // not negative
		return media.Picture{}, fmt.Errorf("%w: the size of the image is not that of its header", protocol.ErrProtocol)
	}
	return picture, checkSize(picture, output, facts)
}

// checkSize checks that a picture has the size that its output has of such an image.
func checkSize(picture media.Picture, output protocol.Output, facts media.Facts) error {
	if output.Flags&protocol.Thumbnail != 0 {
		if picture.Width > int(output.Width) || picture.Height > int(output.Height) {
			return fmt.Errorf("%w: a thumbnail of %d x %d", protocol.ErrProtocol, picture.Width, picture.Height)
		}
		return nil
	}
	box := geometry.Size{Width: int(output.Width), Height: int(output.Height)}
	_, want := geometry.Layout(output.Fit, box, geometry.Size{Width: facts.Width, Height: facts.Height})
	if output.MaxBytes > 0 { // it may have been shrunk until it fitted
		if len(picture.Data) > int(output.MaxBytes) || picture.Width > want.Width || picture.Height > want.Height {
			return fmt.Errorf("%w: a picture of %d x %d with %d bytes, of at most %d x %d with %d bytes", protocol.ErrProtocol, picture.Width, picture.Height, len(picture.Data), want.Width, want.Height, output.MaxBytes)
		}
		return nil
	}
	if picture.Width != want.Width || picture.Height != want.Height {
		return fmt.Errorf("%w: a picture of %d x %d instead of %d x %d", protocol.ErrProtocol, picture.Width, picture.Height, want.Width, want.Height)
	}
	return nil
}

// strip validates a picture by its format, and strips its metadata.
func strip(file []byte, encoding imageformat.Format, output protocol.Output, request protocol.Job) (media.Picture, error) {
	if encoding != output.Encoding && (output.Encoding != imageformat.Auto || encoding != imageformat.JPEG && encoding != imageformat.PNG) {
		return media.Picture{}, fmt.Errorf("encoding %d instead of %d", encoding, output.Encoding)
	}
	var image bare.Image
	var err error
	switch encoding {
	case imageformat.JPEG:
		image, err = bare.JPEG(file)
	case imageformat.PNG:
		image, err = bare.PNG(file)
	case imageformat.AVIF:
		image, err = bare.AVIF(file)
	default:
		return stripWebP(file, output, request)
	}
	if err != nil {
		return media.Picture{}, err
	}
	return media.Picture{MimeType: encoding.MIMEType(), Width: image.Width, Height: image.Height, Data: image.File}, nil
}

// stripWebP is strip for WebP: an animation, where one was requested, or a still image.
func stripWebP(file []byte, output protocol.Output, request protocol.Job) (media.Picture, error) {
	image, err := webp.StripMetadata(file)
	if err != nil && output.Flags&protocol.Animated != 0 {
		image, err = webp.StripAnimation(file)
	}
	switch {
	case err != nil:
		return media.Picture{}, err
	case uint64(image.Frames) > uint64(request.MaxFrames): //nolint:gosec // not negative
		return media.Picture{}, fmt.Errorf("an animation of %d frames", image.Frames)
	}
	return media.Picture{MimeType: imageformat.WebP.MIMEType(), Width: image.Width, Height: image.Height, Data: image.File}, nil
}
