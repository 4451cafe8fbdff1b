//go:build cluster

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/setup"
	"mediastack.dev/hack/testenv/wait"
)

const (
	// program is the image that has this test program only: pods of tenants run it.
	program = "mediastack.local/client:1"
	// descriptionEnv names the description of the cluster, which `mediastack-cluster exec` sets.
	descriptionEnv = "MEDIASTACK_CLUSTER"
	// imageTag is the tag that make e2e gives the images.
	imageTag = "e2e"
)

// environment is the running cluster, as its description has it, and the programs beside it.
type environment struct {
	Kubeconfig  string            `json:"kubeconfig"`
	Nodes       map[string]string `json:"nodes"`
	DatabaseURL string            `json:"databaseURL"`
	S3          servers.S3Access  `json:"s3"`
	SMTP        string            `json:"smtp"`
	MailLog     string            `json:"mailLog"`

	root, cluster, operator, helm string
	// cgroups is what the names of the cgroups of this cluster's nodes begin with.
	Cgroups string `json:"cgroups"`
}

var env environment

func TestMain(m *testing.M) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if inPod, err := runAsProgram(ctx); inPod {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if err := env.find(); err != nil {
		fmt.Fprintln(os.Stderr, "the tests of the cluster:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// runAsProgram does what a pod of a test runs this program for.
func runAsProgram(ctx context.Context) (inPod bool, err error) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == confinedArgument:
		return true, showConfinement(ctx)
	case len(os.Args) > 1 && os.Args[1] == nothingArgument:
		return true, nil
	case len(os.Args) > 1 && os.Args[1] == reachArgument:
		return true, reach(ctx, os.Args[2:])
	case os.Getenv(clientEnv) != "":
		return true, runInPod(ctx)
	}
	return false, nil
}

// ended waits for a pod that runs once, and returns its phase.
func ended(t *testing.T, in, pod string) (phase string) {
	t.Helper()
	wait.UntilNoneWithin(t, 90*time.Second, func() string {
		phase = kubectl(t, "-n", in, "get", "pod/"+pod, "--output=jsonpath={.status.phase}")
		if phase == "Succeeded" || phase == "Failed" {
			return ""
		}
		return "the pod " + pod + " is " + phase
	})
	return phase
}

// find finds the cluster, and loads this program into it.
func (e *environment) find() (err error) {
	path := os.Getenv(descriptionEnv)
	if path == "" {
		return errors.New("there is no cluster: run `make e2e`, which starts one")
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, e); err != nil {
		return err
	}
	if e.root, err = setup.RepoRoot(); err != nil {
		return err
	}
	if e.helm, err = setup.FindHelm(); err != nil {
		return err
	}
	if e.operator, err = setup.FindBinary("mediastack-operator"); err != nil {
		return err
	}
	if e.cluster, err = setup.FindBinary("mediastack-cluster"); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if output, err := exec.Command(e.cluster, "load", "--program", program, self).CombinedOutput(); err != nil {
		return fmt.Errorf("load the tests as an image: %w: %s", err, output)
	}
	return nil
}

// run runs a program to its end and returns what it printed; a failure ends the test.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	output, err := try(t, "", name, args...)
	must(t, err)
	return output
}

// try is run with an input, for a program that may fail.
func try(t *testing.T, stdin, name string, args ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	command.Stdin = strings.NewReader(stdin)
	output, err := command.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, output)
	}
	return strings.TrimSpace(string(output)), err
}

// kubectl runs kubectl, as the admin of the cluster.
func kubectl(t *testing.T, args ...string) string { t.Helper(); return run(t, "kubectl", args...) }

// apply applies manifests.
func apply(t *testing.T, manifests string) {
	t.Helper()
	if _, err := try(t, manifests, "kubectl", "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
}
