// Package processgroup runs a command so that an interrupt ends its children with it. `make flaky` and `make nightly`
// run tests in it for hours.
package processgroup

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// grace is how long an interrupted command may take to end.
const grace = 20 * time.Second

// Run runs a command with variables beside those of this process, and returns how it ended. When ctx ends, the command
// and its children get an interrupt. An error is that the command could not be started.
func Run(ctx context.Context, command, variables []string, output *os.File) (*os.ProcessState, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), variables...)
	cmd.Stdout, cmd.Stderr = output, output
	// It has a process group of its own, so an interrupt reaches its children, too: once, and from here alone.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = grace
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	_ = cmd.Wait() // the state has its result
	if ctx.Err() != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // children that ignored the interrupt
	}
	return cmd.ProcessState, nil
}
