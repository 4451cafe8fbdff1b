package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"mediastack.dev/hack/setup"
)

const (
	system  = "mediastack-system"
	tenants = "zeroloss"
	release = "mediastack"
	// image is that of this program.
	image = "mediastack.local/zeroloss:1"
	// descriptionEnv names the description of the cluster, which `mediastack-cluster exec` sets.
	descriptionEnv = "MEDIASTACK_CLUSTER"
	// settleLimit is how long the product may take to be whole again after an operation.
	settleLimit = 5 * time.Minute
	pollEvery   = 200 * time.Millisecond
)

// cluster is the cluster that the product runs in, as its description has it.
type cluster struct {
	Nodes       map[string]string `json:"nodes"`
	DatabaseURL string            `json:"databaseURL"`
	// Cgroups is what the names of the cgroups of the nodes begin with.
	Cgroups string `json:"cgroups"`

	root, helm, runtime string
}

func findCluster() (*cluster, error) {
	path := os.Getenv(descriptionEnv)
	if path == "" {
		return nil, errors.New("there is no cluster: run `make zero-loss`, which starts one")
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	k := &cluster{}
	if err := json.Unmarshal(content, k); err != nil {
		return nil, err
	}
	if k.root, err = setup.RepoRoot(); err != nil {
		return nil, err
	}
	if k.runtime, err = setup.FindBinary("mediastack-runtime"); err != nil {
		return nil, err
	}
	k.helm, err = setup.FindHelm()
	return k, err
}

// run runs a program to its end and returns what it printed.
func run(ctx context.Context, stdin, name string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, name, args...)
	command.Stdin = strings.NewReader(stdin)
	output, err := command.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", filepath.Base(name), strings.Join(args, " "), err, strings.TrimSpace(string(output)))
	}
	return strings.TrimSpace(string(output)), err
}

// kubectl runs kubectl in the namespace of the product.
func kubectl(ctx context.Context, args ...string) error {
	_, err := query(ctx, args...)
	return err
}

func query(ctx context.Context, args ...string) (string, error) {
	return run(ctx, "", "kubectl", append([]string{"--namespace", system}, args...)...)
}

func apply(ctx context.Context, manifests string) error {
	_, err := run(ctx, manifests, "kubectl", "apply", "-f", "-")
	return err
}

// until asks again and again until done returns nil.
func until(ctx context.Context, limit time.Duration, done func() error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		err := done()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
			return fmt.Errorf("not within %s: %w", limit, err)
		}
	}
}

func selector(component string) string {
	return "--selector=app.kubernetes.io/name=mediastack,app.kubernetes.io/component=" + component
}

// pods are the names of the pods of a component, also of those that end.
func pods(ctx context.Context, component string) ([]string, error) {
	output, err := query(ctx, "get", "pods", selector(component), "--output=jsonpath={.items[*].metadata.name}")
	return strings.Fields(output), err
}

// settle waits until both deployments are rolled out and no other pod of them is there.
func settle(ctx context.Context) error {
	for _, component := range []string{"runtime", "operator"} {
		deployment := "deployment/mediastack-" + component
		if err := kubectl(ctx, "rollout", "status", "--timeout="+settleLimit.String(), deployment); err != nil {
			return err
		}
		wanted, err := query(ctx, "get", deployment, "--output=jsonpath={.spec.replicas}")
		if err != nil {
			return err
		}
		if err := until(ctx, settleLimit, func() error {
			there, err := query(ctx, "get", "pods", selector(component), `--output=jsonpath={range .items[*]}{.status.conditions[?(@.type=="Ready")].status} {end}`)
			if want := strings.TrimSpace(strings.Repeat("True ", number(wanted))); err == nil && there != want {
				err = fmt.Errorf("the pods of the %s are Ready: %q, not %q", component, there, want)
			}
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

func number(text string) int {
	n, _ := strconv.Atoi(text) // another number is never there
	return n
}

// processes are the ids of the cluster's processes whose command line begins with one.
func (k *cluster) processes(commandLine string) ([]procfs.Proc, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil, err
	}
	var found []procfs.Proc
	for _, process := range all {
		line, err := process.CmdLine()
		if err != nil || !strings.HasPrefix(strings.Join(line, " "), commandLine) {
			continue
		}
		groups, err := process.Cgroups()
		if err == nil && len(groups) > 0 && strings.Contains(fmt.Sprint(groups), k.Cgroups) {
			found = append(found, process)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no process %s runs in the cluster", commandLine)
	}
	return found, nil
}

// kill ends a process at once, as the kernel does when memory is short.
func kill(process procfs.Proc) error { return syscall.Kill(process.PID, syscall.SIGKILL) }

// leader is the process of the operator that leads.
func (k *cluster) leader(ctx context.Context) (procfs.Proc, error) {
	holder, err := query(ctx, "get", "lease", "--output=jsonpath={.items[0].spec.holderIdentity}")
	if err != nil {
		return procfs.Proc{}, err
	}
	operators, err := k.processes(operatorProgram)
	if err != nil {
		return procfs.Proc{}, err
	}
	for _, process := range operators {
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/root/etc/hostname", process.PID))
		if err == nil && strings.HasPrefix(holder, strings.TrimSpace(string(name))) {
			return process, nil
		}
	}
	return procfs.Proc{}, fmt.Errorf("no operator is the leader %q", holder)
}

const (
	operatorProgram = "/usr/local/bin/mediastack-operator"
	runtimeProgram  = "/usr/local/bin/mediastack-runtime serve"
	workerProgram   = "/usr/local/bin/mediastack-imaging"
)
