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

	"mediastack.dev/runtime/internal/imaging/protocol"
)

// doublePrefix begins the file name under which the test binary plays an image worker.
const doublePrefix = "double-"

func TestMain(m *testing.M) {
	// Workers get no environment, so the name has to say what to play.
	if role, ok := strings.CutPrefix(filepath.Base(os.Args[0]), doublePrefix); ok {
		os.Exit(play(role))
	}
	os.Exit(m.Run())
}

// double returns a program that plays a role.
func double(t testing.TB, role string) string {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), doublePrefix+role)
	if err := os.Symlink(own, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// renamed returns the real worker under a path of the test's own, by which it can be told from others.
func renamed(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mediastack-imaging")
	if err := os.Symlink(realWorker(t), path); err != nil {
		t.Fatal(err)
	}
	return path
}

// once is true the first time that a program of this path asks.
func once() bool {
	file, err := os.OpenFile(os.Args[0]+".once", os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return false
	}
	return file.Close() == nil
}

// pixel is a WebP image of one pixel, as far as its container tells.
func pixel(more ...byte) []byte {
	bitmap := append([]byte("VP8L\x06\x00\x00\x00\x2f\x00\x00\x00\x00\x00"), more...)
	return append([]byte{'R', 'I', 'F', 'F', byte(4 + len(bitmap)), 0, 0, 0, 'W', 'E', 'B', 'P'}, bitmap...)
}

// play is the worker of a role.
func play(role string) int {
	out, in := protocol.NewWriter(os.Stdout), protocol.NewReader(os.Stdin)
	version := uint16(protocol.Version)
	switch {
	case role == "refuses-to-start", role == "starts-once" && !once():
		fmt.Fprintln(os.Stderr, "no libvips here")
		return 7
	case role == "is-killed-once" && once():
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case role == "other-version":
		version++
	case role == "greets-with-garbage":
		fmt.Println("hello, world")
	case role == "chatty":
		for range 10_000 {
			fmt.Fprintf(os.Stderr, "\x1b[31m%s\n", strings.Repeat("noise ", 1000))
		}
	}
	_ = out.Hello(protocol.Hello{Version: version})
	if role == "deaf" {
		forever()
	}
	for {
		job, err := await(in)
		if err != nil {
			return 0
		}
		if job.Number == 0 {
			continue // aborted
		}
		answer(role, job, out)
	}
}

// await reads a job to its end; the job has no number when it was aborted.
func await(in *protocol.Reader) (job protocol.Job, err error) {
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
	head := protocol.Head{Number: job.Number, Variant: protocol.Thumbnail, Bytes: uint64(len(pixel())), Width: 1, Height: 1}
	lack := protocol.Lacks{Number: job.Number, Variant: protocol.Thumbnail, Reason: protocol.ReasonEncode, Text: "mux error"}
	image := pixel()
	switch role {
	case "crashes", "starts-once":
		os.Exit(3)
	case "crashes-once":
		if once() {
			os.Exit(3)
		}
	case "hangs":
		forever()
	case "hangs-once":
		if once() {
			forever()
		}
	case "closes-its-output":
		_ = os.Stdout.Close()
		forever()
	case "talks-garbage":
		_, _ = os.Stdout.Write(bytes.Repeat([]byte("garbage!"), 1000))
		forever()
	case "talks-forever":
		for {
			_ = out.Data(make([]byte, protocol.MaxData))
		}
	case "claims-a-terabyte":
		head.Bytes = 1 << 40
	case "answers-another-job":
		head.Number++
	case "gives-what-nobody-asked":
		head.Variant = protocol.WebP
	case "gives-no-webp":
		image = []byte("<script>alert(1)</script>")
		head.Bytes = uint64(len(image))
	case "lies-about-size":
		head.Width = 2
	case "gives-a-poster":
		image[21], head.Width = 0xff, 256
	case "gives-more-than-it-said":
		head.Bytes--
	case "gives-it-twice":
		_ = errors.Join(out.Head(head), out.Data(image))
	case "ends-with-nothing":
		_ = out.Done(protocol.Done{Number: job.Number})
		return
	case "refuses-another-job":
		_ = out.Refused(protocol.Refused{Number: job.Number + 1, Reason: protocol.ReasonBroken})
		return
	case "refuses":
		_ = out.Refused(protocol.Refused{Number: job.Number, Reason: protocol.ReasonBroken, Text: "it is \x1b[31mbroken\n"})
		return
	case "crashes-after-the-thumbnail":
		_ = errors.Join(out.Head(head), out.Data(image))
		os.Exit(3)
	case "lacks-the-conversion":
		lack.Variant = protocol.WebP
		_ = errors.Join(out.Head(head), out.Data(image), out.Lacks(lack), out.Done(protocol.Done{Number: job.Number}))
		return
	case "lacks-both":
		second := lack
		second.Variant = protocol.WebP
		_ = errors.Join(out.Lacks(lack), out.Lacks(second), out.Done(protocol.Done{Number: job.Number}))
		return
	case "lacks-it-twice":
		_ = errors.Join(out.Lacks(lack), out.Lacks(lack))
	case "refuses-after-a-lack":
		_ = errors.Join(out.Lacks(lack), out.Refused(protocol.Refused{Number: job.Number, Reason: protocol.ReasonBroken}))
		return
	case "publishes-a-place":
		image = pixel([]byte("EXIF\x06\x00\x00\x00secret")...)
		head.Bytes = uint64(len(image))
	}
	_ = errors.Join(out.Head(head), out.Data(image), out.Done(protocol.Done{Number: job.Number}))
	if role == "says-more-later" {
		_, _ = io.WriteString(os.Stdout, "and another thing")
	}
}

// forever waits with a timer: the Go runtime ends a program in which nothing can happen any more.
func forever() { <-time.After(time.Hour) }
