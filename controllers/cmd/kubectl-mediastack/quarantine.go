package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"

	"github.com/google/uuid"
)

// quarantineCommand has the commands of files in which a scanner has found something. The database has them, so the operator carries the commands
// out, in its pod: kubectl starts them there, and needs the right to create pods/exec.
type quarantineCommand struct {
	List    quarantineListCommand    `cmd:"" help:"List the files in quarantine, the latest first."`
	Release quarantineReleaseCommand `cmd:"" help:"Make the draft again that a file was, and seal it if that was wanted: the finding was wrong."`
	Delete  quarantineDeleteCommand  `cmd:"" help:"Delete a file in quarantine."`
}

// operatorPod is where the operator runs.
type operatorPod struct {
	OperatorNamespace string `default:"mediastack-system" help:"Namespace of the operator."`
	Operator          string `default:"mediastack-operator" help:"Name of the operator's Deployment."`
}

// run runs a command of the operator in its pod.
func (o operatorPod) run(ctx context.Context, cluster *cluster, out io.Writer, args ...string) error {
	command := append(cluster.kubectl, "exec", "--namespace="+o.OperatorNamespace, "deploy/"+o.Operator, "--", "mediastack-operator", "quarantine")
	kubectl := exec.CommandContext(ctx, "kubectl", append(command, args...)...) //nolint:gosec // of the administrator's own command line
	kubectl.Stdout, kubectl.Stderr = out, cluster.log
	err := kubectl.Run()
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		return fmt.Errorf("the command of the operator failed: %w", ended)
	}
	return err
}

// quarantineListCommand lists files in quarantine.
type quarantineListCommand struct {
	operatorPod   `embed:""`
	AllNamespaces bool   `short:"A" help:"List the files of all namespaces."`
	Output        string `short:"o" enum:"table,json" default:"table" help:"Format: table, or json, an object in each line."`
}

// Run prints the list.
func (c *quarantineListCommand) Run(ctx context.Context, cluster *cluster, out io.Writer) error {
	args := []string{"list", "--output=" + c.Output}
	if !c.AllNamespaces {
		args = append(args, "--namespace="+cluster.namespace)
	}
	return c.run(ctx, cluster, out, args...)
}

// quarantineReleaseCommand takes a file out of the quarantine.
type quarantineReleaseCommand struct {
	operatorPod `embed:""`
	MediaID     uuid.UUID `arg:"" name:"media-id" help:"Id of the item, as the command list shows it."`
}

// Run releases the file.
func (c *quarantineReleaseCommand) Run(ctx context.Context, cluster *cluster, out io.Writer) error {
	return c.run(ctx, cluster, out, "release", c.MediaID.String())
}

// quarantineDeleteCommand deletes a file in quarantine.
type quarantineDeleteCommand struct {
	operatorPod `embed:""`
	MediaID     uuid.UUID `arg:"" name:"media-id" help:"Id of the item, as the command list shows it."`
}

// Run deletes the file.
func (c *quarantineDeleteCommand) Run(ctx context.Context, cluster *cluster, out io.Writer) error {
	return c.run(ctx, cluster, out, "delete", c.MediaID.String())
}
