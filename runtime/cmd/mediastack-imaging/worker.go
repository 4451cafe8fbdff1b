//go:build cgo

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"mediastack.dev/runtime/internal/imaging/vips"
	"mediastack.dev/runtime/internal/imaging/wire"
)

// overtime is what the runtime's own clock gets to kill the worker before the worker ends itself.
const overtime = 2 * time.Second

// worker does one job after another.
type worker struct {
	in  *wire.Reader
	out *wire.Writer
}

func newWorker(in io.Reader, out io.Writer) *worker {
	return &worker{in: wire.NewReader(in), out: wire.NewWriter(out)}
}

func (w *worker) greet(locked wire.Layers) error {
	return w.out.Hello(wire.Hello{Version: wire.Version, Locked: locked})
}

// serve works until the input ends between two jobs.
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

func (w *worker) do(job wire.Job) error {
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
	// The runtime kills a worker that is late. This is for the runtime that can't.
	alarm := time.AfterFunc(time.Duration(job.TimeoutMS)*time.Millisecond+overtime, func() { os.Exit(exitTimeout) })
	defer alarm.Stop()

	err = derive(file, job, sender{out: w.out, number: job.Number})
	var no *refusal
	switch {
	case errors.As(err, &no):
		return w.out.Refused(wire.Refused{Number: job.Number, Reason: no.reason, Text: no.text})
	case err != nil:
		return err
	}
	return w.out.Done(wire.Done{Number: job.Number})
}

// sender sends what becomes of a job's derivatives. Each is sent when it is made, so that
// the runtime has it whatever the next one does to the worker.
type sender struct {
	out    *wire.Writer
	number uint32
}

func (s sender) made(variant wire.Variant, output vips.Output) error {
	head := wire.Head{Number: s.number, Variant: variant, Bytes: uint64(len(output.Data)), Width: uint32(output.Width), Height: uint32(output.Height)} //nolint:gosec // libvips gives no negative sizes
	return errors.Join(s.out.Head(head), s.out.Data(output.Data))
}

func (s sender) lacks(variant wire.Variant, why *refusal) error {
	return s.out.Lacks(wire.Lacks{Number: s.number, Variant: variant, Reason: why.reason, Text: why.text})
}

// receive reads the file into memory of its own, which goes back to the system after the job.
func (w *worker) receive(job wire.Job) (file []byte, complete bool, err error) {
	if file, err = unix.Mmap(-1, 0, int(job.Bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS); err != nil { //nolint:gosec // what is too large, or negative then, mmap refuses
		return nil, false, fmt.Errorf("memory for a file of %d bytes: %w", job.Bytes, err)
	}
	rest := file
	for {
		frame, err := w.in.Next()
		if err != nil {
			return nil, false, err
		}
		switch frame.Kind {
		case wire.KindData:
			if len(frame.Data()) > len(rest) {
				return nil, false, fmt.Errorf("%w: more bytes than the job said", wire.ErrProtocol)
			}
			rest = rest[copy(rest, frame.Data()):]
		case wire.KindEnd:
			if len(rest) > 0 {
				return nil, false, fmt.Errorf("%w: fewer bytes than the job said", wire.ErrProtocol)
			}
			return file, true, frame.Empty()
		case wire.KindAbort:
			return file, false, frame.Empty()
		default:
			return nil, false, fmt.Errorf("%w: %v inside a job", wire.ErrProtocol, frame.Kind)
		}
	}
}
