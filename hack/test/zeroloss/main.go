// Command zeroloss shows what clients see of operations on the product in a real Kubernetes cluster: correct
// clients in pods upload, seal, list, fetch, delete and call tools while pods are rolled, drained, scaled and
// killed, stores restart, fail over and go away, and settings and secrets change. It prints a table. It fails
// when a client has seen a failed request during a planned operation, or when an acknowledged byte is
// missing afterwards. `make zero-loss` runs it in a cluster of its own.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"mediastack.dev/hack/test/zeroloss/tenant"
)

type commandLine struct {
	Run    runCommand    `cmd:"" default:"withargs" help:"Do every operation, and print the table."`
	Client clientCommand `cmd:"" hidden:"" help:"What the pods run."`
}

type clientCommand struct{ tenant.Config }

// Run lasts until the pod ends.
func (c clientCommand) Run(ctx context.Context) error { return tenant.Run(ctx, c.Config) }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var cli commandLine
	command := kong.Parse(&cli, kong.Name("mediastack-zeroloss"), kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Description("Operates the product in a cluster under load, and counts what clients see failing. Run it with `make zero-loss`."))
	if err := command.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "zero-loss:", err)
		os.Exit(1)
	}
}
