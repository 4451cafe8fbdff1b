// Package daemon starts a program that stays in the background, and repeats what it reports until it is
// ready. The dev stack (hack/devstack) and the test cluster (hack/cluster) use it.
package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// ErrReported is a failure that was printed already.
var ErrReported = errors.New("the program in the background failed")

// notifyEnv names the file descriptor on which a program in the background reports to the one that
// started it. The report ends with readyMark when all is well.
const (
	notifyEnv = "MEDIASTACK_NOTIFY_FD"
	readyMark = "\x04"
	notifyFD  = 3
)

// Start starts a program in a session of its own, repeats what it reports into out, and returns when it
// is ready. It returns ErrReported when the program ended before that.
func Start(ctx context.Context, child *exec.Cmd, out io.Writer) error {
	reports, notify, err := os.Pipe()
	if err != nil {
		return err
	}
	defer reports.Close()
	if child.Env == nil {
		child.Env = os.Environ()
	}
	if child.SysProcAttr == nil {
		child.SysProcAttr = &syscall.SysProcAttr{}
	}
	child.SysProcAttr.Setsid = true
	hand(child, notify)
	if err := child.Start(); err != nil {
		return errors.Join(err, notify.Close())
	}
	if err := notify.Close(); err != nil {
		return err
	}
	// A canceled wait ends the program.
	stop := context.AfterFunc(ctx, func() { _ = child.Process.Signal(syscall.SIGTERM) })
	defer stop()

	last, err := repeat(out, reports)
	if err != nil {
		return err
	}
	if last == readyMark[0] {
		return child.Process.Release()
	}
	_ = child.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return ErrReported
}

// hand passes a child the descriptor to report on.
func hand(child *exec.Cmd, notify *os.File) {
	child.ExtraFiles = []*os.File{notify}
	child.Env = append(child.Env, notifyEnv+"="+strconv.Itoa(notifyFD))
}

// repeat copies a report without its mark, and returns the last byte.
func repeat(w io.Writer, r io.Reader) (last byte, err error) {
	buffer := make([]byte, 4096)
	for {
		n, err := r.Read(buffer)
		if n > 0 {
			last = buffer[n-1]
			if _, err := w.Write(bytes.TrimSuffix(buffer[:n], []byte(readyMark))); err != nil {
				return last, err
			}
		}
		if errors.Is(err, io.EOF) {
			return last, nil
		}
		if err != nil {
			return last, err
		}
	}
}

// Parent is the process that waits until a program in the background is ready; for one in the
// foreground there is none.
type Parent struct{ notify *os.File }

// OpenParent finds out whether someone waits, and keeps that from our own children.
func OpenParent() (*Parent, error) {
	value := os.Getenv(notifyEnv)
	if value == "" {
		return &Parent{}, nil
	}
	fd, err := strconv.Atoi(value)
	if err != nil {
		return nil, fmt.Errorf("%s is no file descriptor: %w", notifyEnv, err)
	}
	syscall.CloseOnExec(fd)
	return &Parent{notify: os.NewFile(uintptr(fd), "notify")}, os.Unsetenv(notifyEnv)
}

// Waits reports whether someone waits.
func (p *Parent) Waits() bool { return p.notify != nil }

// Hand lets a child that is about to start report in our place. Call Leave after the start.
func (p *Parent) Hand(child *exec.Cmd) {
	if p.notify != nil {
		hand(child, p.notify)
	}
}

// Leave ends our part of the report without a word: a child reports on.
func (p *Parent) Leave() {
	if p.notify != nil {
		_ = p.notify.Close()
		p.notify = nil
	}
}

// Out takes what the user should see until Finish.
func (p *Parent) Out() io.Writer {
	if p.notify == nil {
		return os.Stdout
	}
	return io.MultiWriter(os.Stdout, ignoreErrors{p.notify})
}

// ignoreErrors keeps a parent that went away from disturbing the program.
type ignoreErrors struct{ w io.Writer }

func (i ignoreErrors) Write(b []byte) (int, error) {
	_, _ = i.w.Write(b)
	return len(b), nil
}

// Finish ends the report, once: with the mark when err is nil. It returns err.
func (p *Parent) Finish(err error) error {
	if p.notify != nil && err == nil {
		_, _ = io.WriteString(p.notify, readyMark)
	}
	p.Leave()
	return err
}

// Progress prints lines with the time since a start.
type Progress struct {
	// Started is the time that lines count from.
	Started time.Time
	// Out takes the lines.
	Out io.Writer

	mu sync.Mutex
}

// Printf prints a line.
func (p *Progress) Printf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.Out, "%6.1f s  %s\n", time.Since(p.Started).Seconds(), fmt.Sprintf(format, args...))
}
