package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"mediastack.dev/hack/daemon"
	"mediastack.dev/hack/kubeapply"
	"mediastack.dev/hack/servers"
)

const (
	nodeCount    = 2
	readyTimeout = 3 * time.Minute
	fieldManager = "mediastack-cluster"
)

// addons are the objects of the cluster itself: its DNS server.
//
//go:embed addons.yaml
var addons []byte

// controlCommand brings the cluster up and supervises it. It ends without cleaning up: init does that.
type controlCommand struct{ dataFlag }

// Run lasts until it is interrupted or one of its processes ends.
func (c *controlCommand) Run(ctx context.Context) error {
	parent, err := daemon.OpenParent()
	if err != nil {
		return err
	}
	data, err := c.open()
	if err != nil {
		return err
	}
	k := &cluster{data: data, group: servers.NewGroup(), progress: &daemon.Progress{Started: time.Now(), Out: parent.Out()}}
	running, err := k.start(ctx)
	if err == nil {
		err = data.writeDescription(running)
	}
	if err != nil {
		if ctx.Err() == nil {
			k.progress.Printf("%v", err)
			k.progress.Printf("the cluster did not start; its logs are in %s", data.path("logs"))
		}
		return parent.Finish(daemon.ErrReported)
	}
	k.progress.Printf("the cluster is ready")
	fmt.Fprint(parent.Out(), "\n"+data.usage(running))
	_ = parent.Finish(nil)
	return k.group.Dead(ctx)
}

// cluster is one run of a cluster.
type cluster struct {
	data     *dataDir
	programs programs
	group    *servers.Group
	progress *daemon.Progress
	client   *kubernetes.Clientset
	config   *rest.Config
}

func (k *cluster) log(name string) string { return k.data.path("logs", name+".log") }

func nodeName(number int) string { return fmt.Sprintf("node%d", number) }

// start brings everything up, in the order of their dependencies.
func (k *cluster) start(ctx context.Context) (running description, err error) {
	if k.programs, err = findPrograms(); err != nil {
		return running, err
	}
	if err := makeBridge(ctx); err != nil {
		return running, err
	}
	if err := k.makeKeys(); err != nil {
		return running, fmt.Errorf("make the cluster's keys: %w", err)
	}
	if err := k.writeImages(); err != nil {
		return running, fmt.Errorf("write the cluster's images: %w", err)
	}
	running = description{
		Kubeconfig: k.data.path(adminKubeconfig), Nodes: map[string]string{},
		Cgroups: k.data.cgroup(""),
		Path:    []string{k.programs.kubeDir, k.programs.clusterDir},
	}
	for number := 1; number <= nodeCount; number++ {
		running.Nodes[nodeName(number)] = nodeAddress(number)
	}
	group, both := errgroup.WithContext(ctx)
	group.Go(func() error { return k.startStores(both, &running) })
	group.Go(func() error { return k.startKubernetes(both) })
	return running, group.Wait()
}

func (k *cluster) startKubernetes(ctx context.Context) error {
	if err := k.startControlPlane(ctx); err != nil {
		return err
	}
	k.progress.Printf("the API server is ready at %s", apiServerURL())
	var err error
	if k.config, err = clientcmd.BuildConfigFromFlags("", k.data.path(adminKubeconfig)); err != nil {
		return err
	}
	if k.client, err = kubernetes.NewForConfig(k.config); err != nil {
		return err
	}
	group, all := errgroup.WithContext(ctx)
	for number := 1; number <= nodeCount; number++ {
		group.Go(func() error { return k.startNode(all, number) })
	}
	group.Go(func() error { return k.applyAddons(all) })
	if err := group.Wait(); err != nil {
		return err
	}
	return k.waitDNS(ctx)
}

// startNode starts a node in a network and with mounts of its own, and waits until Kubernetes calls it ready.
func (k *cluster) startNode(ctx context.Context, number int) error {
	name := nodeName(number)
	checkout, err := os.Getwd() // where the node finds the programs
	if err != nil {
		return err
	}
	_, err = k.group.Start(ctx, servers.Spec{
		Name: name, Path: "/proc/self/exe", LogFile: k.log(name),
		Args: k.data.nodeArguments(name),
		Dir:  checkout, Env: k.environment(),
		Namespaces: namespacesOfNode, ReadyTimeout: readyTimeout,
		Ready: func(ctx context.Context) error { return k.nodeReady(ctx, name) },
	})
	if err == nil {
		k.progress.Printf("%s is ready at %s", name, nodeAddress(number))
	}
	return err
}

func (k *cluster) nodeReady(ctx context.Context, name string) error {
	node, err := k.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return errors.New("the node's condition Ready is not True")
}

func (k *cluster) applyAddons(ctx context.Context) error {
	objects, err := kubeapply.Parse(bytes.NewReader(addons))
	if err != nil {
		return err
	}
	return kubeapply.Apply(ctx, k.config, fieldManager, objects...)
}

// waitDNS waits until pods can resolve the names of Services.
func (k *cluster) waitDNS(ctx context.Context) error {
	last := "it does not exist"
	err := wait.PollUntilContextTimeout(ctx, pollEvery, readyTimeout, true, func(ctx context.Context) (bool, error) {
		deployment, err := k.client.AppsV1().Deployments("kube-system").Get(ctx, "coredns", metav1.GetOptions{})
		if err != nil {
			last = err.Error()
			return false, nil
		}
		last = fmt.Sprintf("%d of its replicas are ready", deployment.Status.ReadyReplicas)
		return deployment.Status.ReadyReplicas > 0, nil
	})
	if err != nil {
		return fmt.Errorf("the DNS server did not become ready: %w (%s)", err, last)
	}
	k.progress.Printf("the DNS server is ready at %s", dnsAddress)
	return nil
}

// run runs a program to its end; its error has what it printed.
func run(ctx context.Context, stdin io.Reader, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = stdin
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(output)))
	}
	return nil
}
