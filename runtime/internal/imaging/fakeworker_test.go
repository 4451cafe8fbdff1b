package imaging_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"mediastack.dev/runtime/capture"
	"mediastack.dev/runtime/imageformat"
	"mediastack.dev/runtime/internal/imaging/protocol"
)

// fakeWorkerPrefix is the prefix of the file names under which the test binary is a fake image
// worker.
const fakeWorkerPrefix = "fakeworker-"

func TestMain(m *testing.M) {
	// Workers get no environment, so that the file name selects the behavior.
	if role, ok := strings.CutPrefix(filepath.Base(os.Args[0]), fakeWorkerPrefix); ok {
		os.Exit(runFakeWorker(role))
	}
	os.Exit(m.Run())
}

// fakeWorker returns the path of a program that behaves as role says.
func fakeWorker(t testing.TB, role string) string {
	t.Helper()
	own, err := os.Executable()
	must(t, err)
	path := filepath.Join(t.TempDir(), fakeWorkerPrefix+role)
	must(t, os.Symlink(own, path))
	return path
}

// renamedWorker returns the real worker under a path of the test, which distinguishes its
// processes from others.
func renamedWorker(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mediastack-imaging")
	must(t, os.Symlink(realWorker(t), path))
	return path
}

// once reports whether it is called for the first time by a program of this path.
func once() bool {
	file, err := os.OpenFile(os.Args[0]+".once", os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return false
	}
	return file.Close() == nil
}

// pixel returns the container of a WebP image of one pixel.
func pixel(more ...byte) []byte {
	bitmap := append([]byte("VP8L\x06\x00\x00\x00\x2f\x00\x00\x00\x00\x00"), more...)
	return append([]byte{'R', 'I', 'F', 'F', byte(4 + len(bitmap)), 0, 0, 0, 'W', 'E', 'B', 'P'}, bitmap...)
}

// runFakeWorker is the main function of a fake worker.
func runFakeWorker(role string) int {
	out, in := protocol.NewWriter(os.Stdout), protocol.NewReader(os.Stdin)
	version := uint16(protocol.Version)
	switch {
	case role == "fails-to-start", role == "starts-once" && !once():
		fmt.Fprintln(os.Stderr, "no libvips here")
		return 7
	case role == "is-killed-once" && once():
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case role == "other-version":
		version++
	case role == "handshakes-with-garbage":
		fmt.Println("hello, world")
	case role == "writes-to-stderr":
		for range 10_000 {
			fmt.Fprintf(os.Stderr, "\x1b[31m%s\n", strings.Repeat("noise ", 1000))
		}
	}
	_ = out.Handshake(protocol.Handshake{Version: version, Encoders: protocol.FormatsOf(imageformat.AVIF)})
	if role == "does-not-read" {
		forever()
	}
	for {
		job, err := readJob(in)
		if err != nil {
			return 0
		}
		if job.Number == 0 {
			continue // aborted
		}
		answer(role, job, out)
	}
}

// readJob reads a job to its end. The job has no number if it was aborted.
func readJob(in *protocol.Reader) (job protocol.Job, err error) {
	for {
		frame, err := in.Next()
		if err != nil {
			return job, err
		}
		switch frame.Kind {
		case protocol.KindJob:
			if job, err = frame.Job(); err != nil {
				return job, err
			}
		case protocol.KindEnd:
			return job, nil
		case protocol.KindAbort:
			return protocol.Job{}, nil
		}
	}
}

func answer(role string, job protocol.Job, out *protocol.Writer) {
	header := protocol.PictureHeader{Number: job.Number, Encoding: imageformat.WebP, Bytes: uint64(len(pixel())), Width: 1, Height: 1}
	failure := protocol.PictureError{Number: job.Number, Reason: protocol.ReasonEncode, Text: "mux error"}
	image := pixel()
	captured := protocol.Capture{Number: job.Number, Capture: capture.Capture{Camera: "a camera"}}
	if len(job.Outputs) == 0 {
		answerCapture(role, captured, out)
		return
	}
	facts := protocol.Facts{Number: job.Number, Width: 3, Height: 2, Placeholder: "ThumbHash", HasColor: true, DominantColor: [3]byte{1, 2, 255}}
	if job.Outputs[0].Flags&protocol.Thumbnail == 0 {
		facts.Width, facts.Height = 1, 1 // the size of the pixel
	}
	switch role {
	case "sends-no-facts":
		_ = errors.Join(out.PictureHeader(header), out.Data(image), out.Done(protocol.Done{Number: job.Number}))
		return
	case "sends-facts-of-another-job":
		facts.Number++
	case "sends-facts-over-the-limit":
		facts.Width, facts.Height = 1<<31, 1<<31
	case "rejects":
		_ = out.Rejected(protocol.Rejected{Number: job.Number, Reason: protocol.ReasonCorrupt, Text: "it is \x1b[31mbroken\n"})
		return
	case "rejects-another-job":
		_ = out.Rejected(protocol.Rejected{Number: job.Number + 1, Reason: protocol.ReasonCorrupt})
		return
	case "crashes", "starts-once":
		os.Exit(3)
	case "crashes-once":
		if once() {
			os.Exit(3)
		}
	}
	_ = out.Facts(facts)
	switch role {
	case "sends-facts-twice":
		_ = out.Facts(facts)
	case "sends-a-capture-twice":
		_ = errors.Join(out.Capture(captured), out.Capture(captured))
	case "sends-a-capture-of-another-job":
		captured.Number++
		_ = out.Capture(captured)
	case "sends-a-capture-late":
		_ = errors.Join(out.PictureHeader(header), out.Data(image), out.Capture(captured))
	case "sends-a-hostile-capture":
		_ = out.Capture(hostile(job.Number))
	case "hangs":
		forever()
	case "hangs-once":
		if once() {
			forever()
		}
	case "closes-its-output":
		_ = os.Stdout.Close()
		forever()
	case "writes-garbage":
		_, _ = os.Stdout.Write(bytes.Repeat([]byte("garbage!"), 1000))
		forever()
	case "writes-forever":
		for {
			_ = out.Data(make([]byte, protocol.MaxData))
		}
	case "announces-a-terabyte":
		header.Bytes = 1 << 40
	case "answers-another-job":
		header.Number++
	case "sends-an-unrequested-picture":
		header.Index = 1
	case "sends-another-format":
		header.Encoding = imageformat.PNG
	case "sends-no-webp":
		image = []byte("<script>alert(1)</script>")
		header.Bytes = uint64(len(image))
	case "announces-another-size":
		header.Width = 2
	case "sends-a-large-thumbnail":
		image[21], header.Width = 0xff, 256
	case "sends-more-than-announced":
		header.Bytes--
	case "sends-it-twice":
		_ = errors.Join(out.PictureHeader(header), out.Data(image))
	case "is-done-without-pictures":
		_ = out.Done(protocol.Done{Number: job.Number})
		return
	case "crashes-after-the-first":
		_ = errors.Join(out.PictureHeader(header), out.Data(image))
		os.Exit(3)
	case "fails-the-second":
		failure.Index = 1
		_ = errors.Join(out.PictureHeader(header), out.Data(image), out.PictureError(failure), out.Done(protocol.Done{Number: job.Number}))
		return
	case "fails-both":
		second := failure
		second.Index = 1
		_ = errors.Join(out.PictureError(failure), out.PictureError(second), out.Done(protocol.Done{Number: job.Number}))
		return
	case "fails-it-twice":
		_ = errors.Join(out.PictureError(failure), out.PictureError(failure))
	case "rejects-after-a-failure":
		_ = errors.Join(out.PictureError(failure), out.Rejected(protocol.Rejected{Number: job.Number, Reason: protocol.ReasonCorrupt}))
		return
	case "adds-metadata":
		image = pixel([]byte("EXIF\x06\x00\x00\x00secret")...)
		header.Bytes = uint64(len(image))
	}
	_ = errors.Join(out.PictureHeader(header), out.Data(image), out.Done(protocol.Done{Number: job.Number}))
	if role == "writes-after-done" {
		_, _ = io.WriteString(os.Stdout, "and another thing")
	}
}

// hostile is what a worker that a file has compromised sends.
func hostile(number uint32) protocol.Capture {
	return protocol.Capture{Number: number, Capture: capture.Capture{At: "9999-01-01", Camera: "\u202eevil\x00", Lens: strings.Repeat("x", 500), Rating: 1 << 30,
		Location: &capture.Location{Latitude: 48.5, Longitude: 2.5}}}
}

// answerCapture answers a job without outputs.
func answerCapture(role string, captured protocol.Capture, out *protocol.Writer) {
	number := captured.Number
	switch role {
	case "crashes":
		os.Exit(3)
	case "sends-a-hostile-capture":
		captured = hostile(number)
	case "sends-a-capture-of-another-job":
		captured.Number++
	case "sends-no-capture":
		_ = out.Done(protocol.Done{Number: number})
		return
	case "sends-a-capture-twice":
		_ = out.Capture(captured)
	}
	_ = errors.Join(out.Capture(captured), out.Done(protocol.Done{Number: number}))
}

// forever blocks on a timer: the Go runtime ends a program whose goroutines are all blocked.
func forever() { <-time.After(time.Hour) } //nolint:forbidigo // what is tested is a program that does not end
