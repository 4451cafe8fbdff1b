package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"mediastack.dev/hack/daemon"
)

type upCommand struct{ dataFlag }

// Run starts the first process of the cluster, in new namespaces, and waits until the cluster is ready.
func (c *upCommand) Run(ctx context.Context) error {
	data, err := c.open()
	if err != nil {
		return err
	}
	if _, running, err := data.running(); err == nil {
		fmt.Print("The cluster runs already.\n\n" + data.usage(running))
		return nil
	}
	if err := checkMachine(); err != nil {
		return err
	}
	if _, err := findPrograms(); err != nil {
		return err
	}
	if err := data.make(); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	first := exec.Command(self, "init", "--data-dir", data.dir)
	first.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces}
	return daemon.Start(ctx, first, os.Stdout)
}

type stopCommand struct{ dataFlag }

// Run ends the first process of the cluster; the kernel ends the others. It also removes what a cluster
// left that was killed.
func (c *stopCommand) Run(ctx context.Context) error {
	data, err := c.open()
	if err != nil {
		return err
	}
	if _, err := os.Stat(data.dir); errors.Is(err, os.ErrNotExist) {
		fmt.Println("No cluster runs.")
		return nil
	}
	pid, err := data.holder()
	if err != nil {
		return err
	}
	if pid != 0 {
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
			return fmt.Errorf("end the cluster (process %d): %w", pid, err)
		}
		if err := data.waitReleased(ctx); err != nil {
			return fmt.Errorf("the cluster (process %d) has not ended: %w", pid, err)
		}
	}
	if err := data.clear(); err != nil {
		return err
	}
	if err := os.RemoveAll(data.dir); err != nil {
		return err
	}
	_ = os.Remove(dataParent) // stays while another checkout has a cluster
	fmt.Println("The cluster has ended, and all of it is removed.")
	return nil
}

type statusCommand struct{ dataFlag }

// Run prints how to use a cluster that runs.
func (c *statusCommand) Run() error {
	data, err := c.open()
	if err != nil {
		return err
	}
	pid, running, err := data.running()
	if err != nil {
		return err
	}
	fmt.Printf("The cluster runs (process %d).\n\n%s", pid, data.usage(running))
	return nil
}

type execCommand struct {
	dataFlag
	Command []string `arg:"" passthrough:"" help:"The command and its arguments."`
}

// Run replaces this process by a command in the cluster's network.
func (c *execCommand) Run() error {
	data, err := c.open()
	if err != nil {
		return err
	}
	pid, running, err := data.running()
	if err != nil {
		return err
	}
	command := c.Command
	if command[0] == "--" {
		command = command[1:]
	}
	path := strings.Join(append(running.Path, os.Getenv("PATH")), ":")
	if err := os.Setenv("PATH", path); err != nil {
		return err
	}
	program, err := exec.LookPath(command[0])
	if err != nil {
		return err
	}
	network, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return err
	}
	runtime.LockOSThread() // a network namespace belongs to a thread, and the new program gets this one
	if err := unix.Setns(int(network.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter the cluster's network, which needs root: %w", err)
	}
	env := append(os.Environ(), "KUBECONFIG="+running.Kubeconfig, "MEDIASTACK_CLUSTER="+data.path(descriptionFile))
	return fmt.Errorf("run %s: %w", program, syscall.Exec(program, command, env))
}

type loadCommand struct {
	dataFlag
	Program  string   `placeholder:"IMAGE" help:"Load an image of this name that has a static program only; the argument is the program."`
	Archives []string `arg:"" type:"existingfile" help:"Image archives, for example dist/*.tar."`
}

// Run loads images into every node.
func (c *loadCommand) Run(ctx context.Context) error {
	data, err := c.open()
	if err != nil {
		return err
	}
	_, running, err := data.running()
	if err != nil {
		return err
	}
	found, err := findPrograms()
	if err != nil {
		return err
	}
	if c.Program != "" {
		if len(c.Archives) != 1 {
			return errors.New("--program takes one program")
		}
		single := image{name: c.Program, program: c.Archives[0], archive: data.path("program.tar")}
		if err := single.write(); err != nil {
			return fmt.Errorf("write the image of %s: %w", single.program, err)
		}
		defer os.Remove(single.archive)
		c.Archives = []string{single.archive}
	}
	for _, archive := range c.Archives {
		for _, node := range slices.Sorted(maps.Keys(running.Nodes)) {
			if err := importImage(ctx, found, data.path(node, containerdSocket), archive); err != nil {
				return fmt.Errorf("load %s into %s: %w", archive, node, err)
			}
		}
		fmt.Printf("loaded %s into %d nodes\n", filepath.Base(archive), len(running.Nodes))
	}
	return nil
}

// nodeNumber is the number in the name of a node: 1 for node1.
func nodeNumber(name string) (int, error) {
	number, err := strconv.Atoi(strings.TrimPrefix(name, "node"))
	if err != nil || number < 1 || number > 9 {
		return 0, fmt.Errorf("%q is no name of a node: node1 to node9 are", name)
	}
	return number, nil
}
