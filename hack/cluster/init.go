package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"mediastack.dev/hack/daemon"
)

// initCommand is the first process in the cluster's namespaces. It holds the lock of the data directory,
// runs the control command, and collects the processes whose parents have ended (containerd leaves one
// for each pod). When it ends, the kernel kills every process that is left in the namespaces.
type initCommand struct{ dataFlag }

// Run lasts as long as the cluster.
func (c *initCommand) Run() error {
	parent, err := daemon.OpenParent()
	if err != nil {
		return err
	}
	if err := c.serve(parent); err != nil {
		fmt.Fprintln(parent.Out(), "mediastack-cluster:", err)
		return parent.Finish(daemon.ErrReported)
	}
	return nil
}

func (c *initCommand) serve(parent *daemon.Parent) error {
	if os.Getpid() != 1 {
		return errors.New("this command is for the program itself: use `up`")
	}
	// What is mounted from here on stays in the namespace.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	data, err := c.open()
	if err != nil {
		return err
	}
	free, err := data.acquire()
	if err != nil {
		return err
	}
	if !free {
		return fmt.Errorf("another process is starting or stopping the cluster in %s; try again", data.dir)
	}
	if err := data.clear(); err != nil {
		return err
	}
	if err := os.Mkdir(data.path("logs"), 0o700); err != nil {
		return err
	}
	status, err := c.supervise(data, parent)
	if err != nil {
		return err
	}
	endAll()
	if err := removeCgroups(data.cgroup("*")); err != nil {
		return err
	}
	if status != 0 {
		return errors.New("the cluster has ended; its logs are in " + data.path("logs"))
	}
	return nil
}

// supervise runs the control command and returns its exit status.
func (c *initCommand) supervise(data *dataDir, parent *daemon.Parent) (int, error) {
	log, err := os.OpenFile(data.path("logs", "cluster.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	control := exec.Command("/proc/self/exe", "control", "--data-dir", data.dir)
	control.Env = os.Environ()
	control.Stdout, control.Stderr = log, log
	parent.Hand(control)
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	if err := control.Start(); err != nil {
		return 0, err
	}
	parent.Leave()
	go func() {
		for received := range signals {
			_ = control.Process.Signal(received)
		}
	}()
	// Not control.Wait: this process is the parent of every orphan, too.
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, fmt.Errorf("wait for the cluster: %w", err)
		case pid == control.Process.Pid && status.Exited():
			return status.ExitStatus(), nil
		case pid == control.Process.Pid && status.Signaled():
			return 128 + int(status.Signal()), nil
		}
	}
}

// endAll kills every other process of the namespace and collects them, so that their cgroups are empty.
func endAll() {
	_ = syscall.Kill(-1, syscall.SIGKILL)
	for {
		if _, err := syscall.Wait4(-1, nil, 0, nil); err != nil && !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}
