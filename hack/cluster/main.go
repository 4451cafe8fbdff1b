// Command mediastack-cluster is the program behind `make cluster`: a real Kubernetes cluster of two nodes
// on one machine, with PostgreSQL and an S3 store beside it, for the end-to-end tests and for trying out.
//
// All of it lives in a network, a mount and a process namespace of its own. The kernel ends every process
// in there when the first one ends, however that happens, and the networks and mounts go with them.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"mediastack.dev/hack/daemon"
)

type commandLine struct {
	Up     upCommand     `cmd:"" help:"Start the cluster, wait until it is ready and leave it running."`
	Stop   stopCommand   `cmd:"" help:"Stop the cluster and remove all of it."`
	Status statusCommand `cmd:"" help:"Print whether the cluster runs, and how to use it."`
	Check  checkCommand  `cmd:"" help:"Check that this machine can run a cluster; print what is missing."`
	Exec   execCommand   `cmd:"" help:"Run a command in the cluster's network, with its kubeconfig and kubectl."`
	Load   loadCommand   `cmd:"" help:"Load image archives (docker or OCI) into every node."`
	Lose   loseCommand   `cmd:"" help:"Take a node away, as a power failure does: cut its network and stop its processes."`
	Return returnCommand `cmd:"" help:"Return a node that was lost."`

	Init    initCommand    `cmd:"" hidden:"" help:"The first process of the cluster's namespaces."`
	Control controlCommand `cmd:"" hidden:"" help:"Start and supervise the cluster."`
	Node    nodeCommand    `cmd:"" hidden:"" help:"Start and supervise one node."`
}

func main() {
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	var cli commandLine
	command := kong.Parse(&cli,
		kong.Name("mediastack-cluster"),
		kong.Description("Runs a real Kubernetes cluster of two nodes on one machine, for tests and for trying out. Needs root."),
		kong.UsageOnError(),
		kong.BindTo(ctx, (*context.Context)(nil)),
	)
	if err := command.Run(); err != nil {
		if !errors.Is(err, daemon.ErrReported) {
			fmt.Fprintln(os.Stderr, "mediastack-cluster:", err)
		}
		if errors.As(err, new(incapableError)) {
			os.Exit(incapableStatus)
		}
		os.Exit(1)
	}
}
