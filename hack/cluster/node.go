package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"

	"mediastack.dev/hack/servers"
)

const (
	namespacesOfNode = syscall.CLONE_NEWNET | syscall.CLONE_NEWNS
	containerdSocket = "containerd.sock"
)

// nodeCommand runs one node: containerd, the kubelet and kube-proxy, in a network and with mounts of its own.
type nodeCommand struct {
	dataFlag
	Name string `arg:""`
}

// Run lasts until it is interrupted or a program of the node ends.
func (c *nodeCommand) Run(ctx context.Context) error {
	data, err := c.open()
	if err != nil {
		return err
	}
	number, err := nodeNumber(c.Name)
	if err != nil {
		return err
	}
	found, err := findPrograms()
	if err != nil {
		return err
	}
	n := &node{
		cluster: &cluster{data: data, programs: found, group: servers.NewGroup()},
		name:    c.Name, number: number, address: nodeAddress(number),
	}
	if err := n.start(ctx); err != nil {
		return err
	}
	if err := n.enforcePolicies(ctx); err != nil {
		return err
	}
	ended := make(chan error, 2)
	go func() { ended <- n.group.Dead(ctx) }()
	go func() { ended <- n.renewProxy(ctx) }()
	return <-ended
}

// node is one run of a node. Its part of the cluster has the paths only.
type node struct {
	*cluster
	name    string
	number  int
	address string
	proxy   *servers.Process
}

func (n *node) path(elements ...string) string {
	return n.data.path(append([]string{n.name}, elements...)...)
}

func (n *node) start(ctx context.Context) error {
	for _, dir := range []string{"cni", "kubelet", "manifests", "pod-logs", "sysctl"} {
		if err := os.MkdirAll(n.path(dir), 0o755); err != nil {
			return err
		}
	}
	if err := n.mount(); err != nil {
		return fmt.Errorf("prepare the mounts of %s: %w", n.name, err)
	}
	if err := connectNode(ctx, n.number); err != nil {
		return fmt.Errorf("connect %s with the network: %w", n.name, err)
	}
	if err := makeCgroups(n.data.cgroup(n.name)); err != nil {
		return err
	}
	if err := n.startContainerd(ctx); err != nil {
		return err
	}
	group, all := errgroup.WithContext(ctx)
	group.Go(func() error { return n.startProxy(all) })
	group.Go(func() error {
		for _, image := range n.images() {
			if err := importImage(all, n.programs, n.path(containerdSocket), image.archive); err != nil {
				return err
			}
		}
		return n.startKubelet(all)
	})
	return group.Wait()
}

// startContainerd starts the container runtime.
func (n *node) startContainerd(ctx context.Context) error {
	config := n.path("containerd.toml")
	content := strings.NewReplacer(
		"DIR", n.path(), "SANDBOX", n.images()[0].name, "RUNC", n.programs.container("runc"), "CNI", n.programs.cniDir,
	).Replace(containerdConfig)
	if err := os.WriteFile(config, []byte(content), 0o600); err != nil {
		return err
	}
	if err := n.writeJSON("cni/10-bridge.conflist", map[string]any{
		"cniVersion": "1.0.0", "name": "pods",
		"plugins": []any{
			map[string]any{
				"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
				"ipam": map[string]any{
					"type": "host-local", "dataDir": n.path("addresses"),
					"ranges": []any{[]any{map[string]any{"subnet": podRange(n.number)}}},
					"routes": []any{map[string]any{"dst": "0.0.0.0/0"}},
				},
			},
			map[string]any{"type": "portmap", "capabilities": map[string]any{"portMappings": true}},
		},
	}); err != nil {
		return err
	}
	_, err := n.group.Start(ctx, servers.Spec{
		Name: "containerd of " + n.name, Path: n.programs.container("containerd"), LogFile: n.log(n.name + "-containerd"),
		Args: []string{"--config", config}, Env: n.environment(),
		Ready: func(ctx context.Context) error {
			conn, err := new(net.Dialer).DialContext(ctx, "unix", n.path(containerdSocket))
			if err != nil {
				return err
			}
			return conn.Close()
		},
	})
	return err
}

// restrict_oom_score_adj: a container's score may not be below that of containerd, which root needs
// CAP_SYS_RESOURCE for.
const containerdConfig = `version = 3
root = "DIR/containerd"
state = "DIR/containerd-state"
[grpc]
  address = "DIR/` + containerdSocket + `"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "SANDBOX"
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  [plugins.'io.containerd.cri.v1.runtime'.containerd]
    default_runtime_name = "runc"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
        BinaryName = "RUNC"
        SystemdCgroup = false
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["CNI"]
    conf_dir = "DIR/cni"
`

// startKubelet starts the kubelet. The control plane sees when it is ready.
func (n *node) startKubelet(ctx context.Context) error {
	// No name outside of the cluster can be resolved.
	if err := os.WriteFile(n.path("resolv.conf"), []byte("nameserver "+hostAddress+"\n"), 0o600); err != nil {
		return err
	}
	err := n.writeJSON("kubelet.json", map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false}, "webhook": map[string]any{"enabled": true},
			"x509": map[string]any{"clientCAFile": n.data.path(authorityFile)},
		},
		"authorization": map[string]any{"mode": "Webhook"},
		"address":       n.address, "healthzBindAddress": "127.0.0.1",
		"cgroupDriver": "cgroupfs", "cgroupRoot": "/" + n.data.cgroup(n.name), "failCgroupV1": false,
		"clusterDomain": "cluster.local", "clusterDNS": []string{dnsAddress}, "resolvConf": n.path("resolv.conf"),
		"containerRuntimeEndpoint": "unix://" + n.path(containerdSocket),
		"podLogsDir":               n.path("pod-logs"), "staticPodPath": n.path("manifests"),
		"failSwapOn": false, "imageGCHighThresholdPercent": 100,
		"evictionHard": map[string]string{"memory.available": "200Mi", "nodefs.available": "1Gi", "imagefs.available": "1Gi", "nodefs.inodesFree": "1%"},
	})
	if err != nil {
		return err
	}
	_, err = n.group.Start(ctx, servers.Spec{
		Name: "the kubelet of " + n.name, Path: n.programs.kubernetes("kubelet"), LogFile: n.log(n.name + "-kubelet"),
		Args: []string{
			"--config", n.path("kubelet.json"), "--kubeconfig", n.kubeconfig(n.name),
			"--hostname-override", n.name, "--node-ip", n.address,
		},
		Env: n.environment(),
	})
	return err
}

// startProxy starts kube-proxy, which leads connections for Services to pods.
func (n *node) startProxy(ctx context.Context) error {
	health := net.JoinHostPort(n.address, "10256")
	err := n.writeJSON("kube-proxy.json", map[string]any{
		"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
		"mode": "nftables", "clusterCIDR": podNetwork, "hostnameOverride": n.name,
		"clientConnection": map[string]any{"kubeconfig": n.kubeconfig("kube-proxy")},
		"bindAddress":      n.address, "healthzBindAddress": health, "metricsBindAddress": "127.0.0.1:10249",
		// The limits of connection tracking belong to the machine.
		"conntrack": map[string]any{"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
	})
	if err != nil {
		return err
	}
	n.proxy, err = n.group.Start(ctx, servers.Spec{
		Name: "kube-proxy of " + n.name, Path: n.programs.kubernetes("kube-proxy"), LogFile: n.log(n.name + "-kube-proxy"),
		Args: []string{"--config", n.path("kube-proxy.json")}, Env: n.environment(), ReadyTimeout: readyTimeout,
		Ready: servers.Answers("http://" + health + "/healthz"),
	})
	return err
}

// renewProxy starts kube-proxy anew when the node returns from a loss, as a node that boots does. The former
// one would learn after 45 s that its connection to the API server is gone, and lead to former pods until then.
func (n *node) renewProxy(ctx context.Context) error {
	returned := make(chan os.Signal, 1)
	signal.Notify(returned, syscall.SIGCONT)
	defer signal.Stop(returned)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-n.proxy.Done():
			return n.proxy.Err()
		case <-returned:
			n.proxy.Kill()
			if err := n.startProxy(ctx); err != nil {
				return err
			}
		}
	}
}

// writeJSON writes a configuration file; JSON is YAML, too.
func (n *node) writeJSON(name string, value any) error {
	content, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(n.path(name), content, 0o600)
}

// importImage loads an image archive into a node.
func importImage(ctx context.Context, found programs, socket, archive string) error {
	cmd := exec.CommandContext(ctx, found.container("ctr"), "--address", socket, "--namespace", "k8s.io", "images", "import", "--no-unpack", archive)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("import %s: %w: %s", filepath.Base(archive), err, strings.TrimSpace(string(output)))
	}
	return nil
}

// sysctls are the settings of the kernel that a kubelet wants, and their values. They belong to the
// machine, so each node sees files of its own in their places and the machine keeps what it has.
var sysctls = map[string]int{
	"kernel/keys/root_maxbytes": 25_000_000,
	"kernel/keys/root_maxkeys":  1_000_000,
	"kernel/panic":              10,
	"kernel/panic_on_oops":      1,
	"vm/overcommit_memory":      1,
	"vm/panic_on_oom":           0,
}

func (n *node) writeSysctl(name string, value int) (path string, err error) {
	path = n.path("sysctl", strings.ReplaceAll(name, "/", "."))
	return path, os.WriteFile(path, []byte(strconv.Itoa(value)+"\n"), 0o600)
}
