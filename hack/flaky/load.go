package main

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// busyFlag makes this program a busy process. It is no flag for users.
const busyFlag = "--busy"

// beBusy keeps one processor busy until the process is killed.
func beBusy() {
	for i := 0; ; i++ {
	}
}

// load are the busy processes of a round.
type load []*exec.Cmd

// startLoad starts a number of busy processes. The kernel ends them when this program ends, however it does. (It ends
// them with the thread that started them; Go keeps its threads, except for those of a locked goroutine.)
func startLoad(program string, number int) (load, error) {
	var started load
	for range number {
		process := exec.Command(program, busyFlag)
		process.Env = append(os.Environ(), "GOMAXPROCS=1")
		process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := process.Start(); err != nil {
			return nil, errors.Join(err, started.stop())
		}
		started = append(started, process)
	}
	return started, nil
}

// stop ends the processes, and returns when they are gone. One that ended before is an error: the round had less load.
func (l load) stop() error {
	var all error
	for _, process := range l {
		all = errors.Join(all, process.Process.Kill())
	}
	for _, process := range l {
		_ = process.Wait()
		if status, ok := process.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
			all = errors.Join(all, errors.New("a busy process ended by itself: "+process.ProcessState.String()))
		}
	}
	return all
}
