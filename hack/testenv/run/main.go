// Command run runs a command, such as go test, with one set of servers for all test processes that it
// starts: see testenv.Serve. It ends with the exit status of the command.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/kubetest"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: mediastack-testenv COMMAND [ARGUMENT...]")
		os.Exit(2)
	}
	status, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "mediastack-testenv:", err)
		os.Exit(1)
	}
	os.Exit(status)
}

func run(args []string) (status int, err error) {
	ctrl.SetLogger(logr.Discard()) // what fails is returned, too
	socket, stop, err := testenv.Serve(kubetest.Served)
	if err != nil {
		return 0, err
	}
	defer stop()
	// The tests end first; their signal comes from the terminal, or from here.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	command := exec.Command(args[0], args[1:]...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	command.Env = append(os.Environ(), testenv.ServersEnv+"="+socket)
	// Tests without their servers would only fail one after the other.
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	runtime.LockOSThread() // of which the kernel sends Pdeathsig
	if err := command.Start(); err != nil {
		return 0, err
	}
	go func() {
		for sent := range signals {
			_ = command.Process.Signal(sent)
		}
	}()
	var exit *exec.ExitError
	if err := command.Wait(); err != nil && !errors.As(err, &exit) {
		return 0, err
	}
	return max(command.ProcessState.ExitCode(), 0), endedBySignal(command.ProcessState)
}

// endedBySignal returns an error if a signal ended the command: it has no exit status then.
func endedBySignal(state *os.ProcessState) error {
	if wait, ok := state.Sys().(syscall.WaitStatus); ok && wait.Signaled() {
		return fmt.Errorf("the command was ended by a signal: %s", wait.Signal())
	}
	return nil
}
