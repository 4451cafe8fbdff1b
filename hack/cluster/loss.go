package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/prometheus/procfs"
)

// loseCommand takes a node away as a power failure does: its network is cut first, so nothing that ends can
// say so, and then all its processes are stopped, with those of its pods. From outside it is the same, as
// nothing answers; but the node returns with what its processes knew, so a test can still ask them.
type loseCommand struct {
	dataFlag
	Node string `arg:"" help:"Name of the node: node1."`
}

// Run returns when no process of the node runs.
func (c *loseCommand) Run(ctx context.Context) error {
	node, err := c.find(c.Node)
	if err != nil {
		return err
	}
	if err := node.link(ctx, "down"); err != nil {
		return err
	}
	// A process may start another one before it is stopped.
	for ctx.Err() == nil {
		running, err := node.processes(func(state string) bool { return state != stopped })
		if err != nil || len(running) == 0 {
			return err
		}
		if err := signalAll(running, syscall.SIGSTOP); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// returnCommand ends the loss of a node.
type returnCommand struct {
	dataFlag
	Node string `arg:"" help:"Name of the node: node1."`
}

// Run returns when the processes of the node run again. It takes Kubernetes some seconds to notice.
func (c *returnCommand) Run(ctx context.Context) error {
	node, err := c.find(c.Node)
	if err != nil {
		return err
	}
	if err := node.link(ctx, "up"); err != nil {
		return err
	}
	lost, err := node.processes(func(state string) bool { return state == stopped })
	if err != nil {
		return err
	}
	return signalAll(lost, syscall.SIGCONT)
}

// stopped and ended are states of processes.
const (
	stopped = "T"
	ended   = "Z"
)

// runningNode is a node of a cluster that runs.
type runningNode struct {
	data *dataDir
	// first is the first process of the cluster.
	first int
	name  string
}

func (f dataFlag) find(name string) (*runningNode, error) {
	data, err := f.open()
	if err != nil {
		return nil, err
	}
	first, running, err := data.running()
	if err != nil {
		return nil, err
	}
	if _, ok := running.Nodes[name]; !ok {
		return nil, fmt.Errorf("the cluster has no node %q", name)
	}
	return &runningNode{data: data, first: first, name: name}, nil
}

// link sets the state of the node's cable, at the bridge.
func (n *runningNode) link(ctx context.Context, state string) error {
	return run(ctx, nil, "nsenter", "--target", fmt.Sprint(n.first), "--net", "ip", "link", "set", n.name, state)
}

// processes are those of the node in such a state: those in its own network, and those in the cgroups of its pods.
func (n *runningNode) processes(wanted func(state string) bool) ([]procfs.Proc, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil, err
	}
	network, err := n.network(all)
	if err != nil {
		return nil, err
	}
	var found []procfs.Proc
	for _, process := range all {
		belongs, err := n.owns(process, network)
		if err == nil && belongs {
			var stat procfs.ProcStat
			if stat, err = process.Stat(); err == nil && stat.State != ended && wanted(stat.State) {
				found = append(found, process)
			}
		}
		if err != nil && !gone(err) {
			return nil, fmt.Errorf("look at process %d: %w", process.PID, err)
		}
	}
	return found, nil
}

// network is the network of the process that supervises the node.
func (n *runningNode) network(all procfs.Procs) (uint32, error) {
	for _, process := range all {
		line, err := process.CmdLine()
		if err != nil || len(line) == 0 || !slices.Equal(line[1:], n.data.nodeArguments(n.name)) {
			continue
		}
		return networkOf(process)
	}
	return 0, fmt.Errorf("no process supervises %s", n.name)
}

func networkOf(process procfs.Proc) (uint32, error) {
	namespaces, err := process.Namespaces()
	return namespaces["net"].Inode, err
}

// owns reports whether a process belongs to the node. One whose network this process may not see is none of a cluster.
func (n *runningNode) owns(process procfs.Proc, network uint32) (bool, error) {
	groups, err := process.Cgroups()
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(groups, func(group procfs.Cgroup) bool {
		return strings.Contains(group.Path, "/"+n.data.cgroup(n.name)+"/")
	}) {
		return true, nil
	}
	its, err := networkOf(process)
	if errors.Is(err, os.ErrPermission) {
		return false, nil
	}
	return err == nil && its == network, err
}

// signalAll sends a signal to all of them; one that has ended needs none.
func signalAll(processes []procfs.Proc, signal syscall.Signal) error {
	for _, process := range processes {
		if err := syscall.Kill(process.PID, signal); err != nil && !gone(err) {
			return fmt.Errorf("send %s to process %d: %w", signal, process.PID, err)
		}
	}
	return nil
}

// gone reports whether a process has ended in the meantime.
func gone(err error) bool { return errors.Is(err, syscall.ESRCH) || errors.Is(err, syscall.ENOENT) }
