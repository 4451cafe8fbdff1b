//go:build cgo

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"mediastack.dev/runtime/capture"
	"mediastack.dev/runtime/imageformat"
	"mediastack.dev/runtime/internal/imaging/protocol"
	"mediastack.dev/runtime/internal/imaging/vips"
)

// watchdogGrace is how long after its timeout a job ends the worker, unless the runtime has
// killed the worker before.
const watchdogGrace = 2 * time.Second

// worker reads jobs and writes their pictures.
type worker struct {
	in  *protocol.Reader
	out *protocol.Writer
}

func newWorker(in io.Reader, out io.Writer) *worker {
	return &worker{in: protocol.NewReader(in), out: protocol.NewWriter(out)}
}

func (w *worker) handshake(layers protocol.Layers) error {
	return w.out.Handshake(protocol.Handshake{Version: protocol.Version, Sandbox: layers, Formats: supportedFormats(), Encoders: supportedEncoders()})
}

// supportedFormats returns the formats that thumbnails can be created of, here and now: it is called
// in the sandbox, as jobs are.
func supportedFormats() (found protocol.Formats) {
	for _, f := range imageformat.Files() {
		if vips.CheckFormat(f) {
			found |= protocol.FormatsOf(f)
		}
	}
	vips.Trim()
	return found
}

// supportedEncoders returns the formats that pictures can be made in, of those that an installation may lack.
func supportedEncoders() (found protocol.Formats) {
	for _, f := range imageformat.Encoded() {
		if f.Optional() && vips.CheckEncoder(f) {
			found |= protocol.FormatsOf(f)
		}
	}
	vips.Trim()
	return found
}

// serve does jobs until the end of the input.
func (w *worker) serve() error {
	for {
		frame, err := w.in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		job, err := frame.Job()
		if err != nil {
			return err
		}
		if err := w.do(job); err != nil {
			return err
		}
	}
}

func (w *worker) do(job protocol.Job) error {
	file, complete, err := w.receive(job)
	if err != nil {
		return err
	}
	defer func() {
		_ = unix.Munmap(file)
		vips.Trim()
	}()
	if !complete {
		return nil
	}
	// The runtime kills a worker whose job times out. This is for a runtime that hangs.
	watchdog := time.AfterFunc(time.Duration(job.TimeoutMS)*time.Millisecond+watchdogGrace, func() { os.Exit(exitTimeout) })
	defer watchdog.Stop()

	to := sender{out: w.out, number: job.Number}
	if len(job.Outputs) == 0 {
		return errors.Join(to.sendCapture(readCapture(file, job)), w.out.Done(protocol.Done{Number: job.Number}))
	}
	err = render(file, job, to)
	var rejected *rejectedError
	switch {
	case errors.As(err, &rejected):
		return w.out.Rejected(protocol.Rejected{Number: job.Number, Reason: rejected.reason, Text: rejected.text})
	case err != nil:
		return err
	}
	return w.out.Done(protocol.Done{Number: job.Number})
}

// sender sends the facts and the pictures of a job, each as soon as it is made: the runtime keeps
// it if the worker fails at the next one.
type sender struct {
	out    *protocol.Writer
	number uint32
}

func (s sender) sendFacts(facts protocol.Facts) error {
	facts.Number = s.number
	return s.out.Facts(facts)
}

func (s sender) sendCapture(c capture.Capture) error {
	return s.out.Capture(protocol.Capture{Number: s.number, Capture: c})
}

func (s sender) sendPicture(index int, picture vips.Output) error {
	header := protocol.PictureHeader{Number: s.number, Index: uint8(index), Encoding: picture.Encoding, //nolint:gosec // at most MaxOutputs
		Bytes: uint64(len(picture.Data)), Width: uint32(picture.Width), Height: uint32(picture.Height)} //nolint:gosec // libvips returns no negative sizes
	return errors.Join(s.out.PictureHeader(header), s.out.Data(picture.Data))
}

func (s sender) sendError(index int, cause *rejectedError) error {
	return s.out.PictureError(protocol.PictureError{Number: s.number, Index: uint8(index), Reason: cause.reason, Text: cause.text}) //nolint:gosec // at most MaxOutputs
}

// receive reads the file into an anonymous mapping, which is unmapped after the job.
func (w *worker) receive(job protocol.Job) (file []byte, complete bool, err error) {
	if file, err = unix.Mmap(-1, 0, int(job.Bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS); err != nil { //nolint:gosec // mmap rejects a length that is too large, or negative
		return nil, false, fmt.Errorf("memory for a file of %d bytes: %w", job.Bytes, err)
	}
	rest := file
	for {
		frame, err := w.in.Next()
		if err != nil {
			return nil, false, err
		}
		switch frame.Kind {
		case protocol.KindData:
			if len(frame.Data()) > len(rest) {
				return nil, false, fmt.Errorf("%w: more bytes than announced", protocol.ErrProtocol)
			}
			rest = rest[copy(rest, frame.Data()):]
		case protocol.KindEnd:
			if len(rest) > 0 {
				return nil, false, fmt.Errorf("%w: fewer bytes than announced", protocol.ErrProtocol)
			}
			return file, true, frame.Empty()
		case protocol.KindAbort:
			return file, false, frame.Empty()
		default:
			return nil, false, fmt.Errorf("%w: %v inside a job", protocol.ErrProtocol, frame.Kind)
		}
	}
}
