package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
)

// notifyEnv names the file descriptor on which a detached stack reports to the process that started
// it. The report ends with readyMark when all is well.
const (
	notifyEnv = "MEDIASTACK_NOTIFY_FD"
	readyMark = "\x04"
	notifyFD  = 3
)

// daemonize starts the stack in a session of its own and repeats what it reports until it is ready.
func daemonize(ctx context.Context, data *dataDir) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(data.path("logs"), 0o700); err != nil {
		return fmt.Errorf("make the data directory: %w", err)
	}
	log, err := os.OpenFile(data.path("logs/stack.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	reports, notify, err := os.Pipe()
	if err != nil {
		return err
	}
	defer reports.Close()

	args := slices.DeleteFunc(slices.Clone(os.Args[1:]), func(arg string) bool { return arg == "--detach" })
	child := exec.Command(self, args...)
	child.Stdout, child.Stderr = log, log
	child.ExtraFiles = []*os.File{notify}
	child.Env = append(os.Environ(), notifyEnv+"="+strconv.Itoa(notifyFD))
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := child.Start(); err != nil {
		return errors.Join(err, notify.Close())
	}
	if err := notify.Close(); err != nil {
		return err
	}
	// A canceled wait ends the stack.
	stop := context.AfterFunc(ctx, func() { _ = child.Process.Signal(syscall.SIGTERM) })
	defer stop()

	last, err := repeat(os.Stdout, reports)
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
	return errReported
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

// parent is the process that waits for a detached stack; for a stack in the foreground there is none.
type parent struct{ notify *os.File }

// openParent finds out whether someone waits, and keeps that from our own children.
func openParent() (*parent, error) {
	value := os.Getenv(notifyEnv)
	if value == "" {
		return &parent{}, nil
	}
	fd, err := strconv.Atoi(value)
	if err != nil {
		return nil, fmt.Errorf("%s is no file descriptor: %w", notifyEnv, err)
	}
	syscall.CloseOnExec(fd)
	return &parent{notify: os.NewFile(uintptr(fd), "notify")}, os.Unsetenv(notifyEnv)
}

// out takes what the user should see until finish.
func (p *parent) out() io.Writer {
	if p.notify == nil {
		return os.Stdout
	}
	return io.MultiWriter(os.Stdout, ignoreErrors{p.notify})
}

// ignoreErrors keeps a parent that went away from disturbing the stack.
type ignoreErrors struct{ w io.Writer }

func (i ignoreErrors) Write(b []byte) (int, error) {
	_, _ = i.w.Write(b)
	return len(b), nil
}

// finish ends the report, once: with the mark when err is nil. It returns err.
func (p *parent) finish(err error) error {
	if p.notify == nil {
		return err
	}
	if err == nil {
		_, _ = io.WriteString(p.notify, readyMark)
	}
	_ = p.notify.Close()
	p.notify = nil
	return err
}
