//go:build cgo

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"mediastack.dev/runtime/internal/imaging/protocol"
	"mediastack.dev/runtime/internal/imaging/vips"
)

// overtime is what the runtime's own clock gets to kill the worker before the worker ends itself.
const overtime = 2 * time.Second

// worker does one job after another.
type worker struct {
	in  *protocol.Reader
	out *protocol.Writer
}

func newWorker(in io.Reader, out io.Writer) *worker {
	return &worker{in: protocol.NewReader(in), out: protocol.NewWriter(out)}
}

func (w *worker) greet(locked protocol.Layers) error {
	return w.out.Hello(protocol.Hello{Version: protocol.Version, Locked: locked})
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
	// The runtime kills a worker that is late. This is for the runtime that can't.
	alarm := time.AfterFunc(time.Duration(job.TimeoutMS)*time.Millisecond+overtime, func() { os.Exit(exitTimeout) })
	defer alarm.Stop()

	err = derive(file, job, sender{out: w.out, number: job.Number})
	var no *refusal
	switch {
	case errors.As(err, &no):
		return w.out.Refused(protocol.Refused{Number: job.Number, Reason: no.reason, Text: no.text})
	case err != nil:
		return err
	}
	return w.out.Done(protocol.Done{Number: job.Number})
}

// sender sends what becomes of a job's derivatives. Each is sent when it is made, so that
// the runtime has it whatever the next one does to the worker.
type sender struct {
	out    *protocol.Writer
	number uint32
}

func (s sender) made(variant protocol.Variant, output vips.Output) error {
	head := protocol.Head{Number: s.number, Variant: variant, Bytes: uint64(len(output.Data)), Width: uint32(output.Width), Height: uint32(output.Height)} //nolint:gosec // libvips gives no negative sizes
	return errors.Join(s.out.Head(head), s.out.Data(output.Data))
}

func (s sender) lacks(variant protocol.Variant, why *refusal) error {
	return s.out.Lacks(protocol.Lacks{Number: s.number, Variant: variant, Reason: why.reason, Text: why.text})
}

// receive reads the file into memory of its own, which goes back to the system after the job.
func (w *worker) receive(job protocol.Job) (file []byte, complete bool, err error) {
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
		case protocol.KindData:
			if len(frame.Data()) > len(rest) {
				return nil, false, fmt.Errorf("%w: more bytes than the job said", protocol.ErrProtocol)
			}
			rest = rest[copy(rest, frame.Data()):]
		case protocol.KindEnd:
			if len(rest) > 0 {
				return nil, false, fmt.Errorf("%w: fewer bytes than the job said", protocol.ErrProtocol)
			}
			return file, true, frame.Empty()
		case protocol.KindAbort:
			return file, false, frame.Empty()
		default:
			return nil, false, fmt.Errorf("%w: %v inside a job", protocol.ErrProtocol, frame.Kind)
		}
	}
}
