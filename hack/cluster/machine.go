package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"mediastack.dev/hack/setup"
)

// namespaces are what the cluster has of its own: its network, its mounts and its processes.
const namespaces = syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID

// programs are the paths of what the cluster runs.
type programs struct {
	kube setup.KubeTools
	// kubeDir has the programs of Kubernetes, clusterDir those of containers, and cniDir the CNI plugins.
	kubeDir, clusterDir, cniDir string
	// pause and devServices are built from this repository.
	pause, devServices string
}

func (p programs) kubernetes(name string) string { return filepath.Join(p.kubeDir, name) }
func (p programs) container(name string) string  { return filepath.Join(p.clusterDir, name) }

// findPrograms finds what make has built.
func findPrograms() (found programs, err error) {
	cache, err := setup.CacheDir()
	if err != nil {
		return found, err
	}
	if found.kube, err = setup.FindKube(); err != nil {
		return found, err
	}
	found.kubeDir = filepath.Join(cache, "kube", setup.KubernetesVersion)
	found.clusterDir = filepath.Join(cache, "cluster")
	found.cniDir = filepath.Join(found.clusterDir, "cni")
	var missing []string
	for dir, names := range map[string][]string{
		found.kubeDir:    {"kubectl", "kubelet", "kube-controller-manager", "kube-proxy", "kube-scheduler"},
		found.clusterDir: {"containerd", "containerd-shim-runc-v2", "ctr", "runc", "coredns"},
		found.cniDir:     {"bridge", "loopback", "portmap", "host-local"},
	} {
		for _, name := range names {
			if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
				missing = append(missing, filepath.Join(dir, name))
			}
		}
	}
	if len(missing) > 0 {
		return found, fmt.Errorf("programs are missing (%s): run `make cluster-programs`", strings.Join(missing, ", "))
	}
	if found.pause, err = setup.FindBinary("mediastack-pause"); err != nil {
		return found, err
	}
	found.devServices, err = setup.FindBinary("mediastack-devservices")
	return found, err
}

// checkMachine returns everything that keeps this machine from running a cluster.
func checkMachine() error {
	if runtime.GOOS != "linux" {
		return errors.New("the cluster runs on Linux only")
	}
	if os.Geteuid() != 0 {
		return errors.New("the cluster needs root, for network namespaces, mounts and cgroups: run it as root or with sudo")
	}
	var problems []error
	for name, use := range map[string]string{
		"ip": "iproute2", "nft": "nftables", "iptables": "iptables", "nsenter": "util-linux",
	} {
		if _, err := exec.LookPath(name); err != nil {
			problems = append(problems, fmt.Errorf("the program %s is missing: on Debian and Ubuntu, run `apt-get install %s`", name, use))
		}
	}
	if _, err := setup.FindPostgres(); err != nil {
		problems = append(problems, err)
	}
	if _, err := cgroupHierarchies(); err != nil {
		problems = append(problems, err)
	}
	if err := checkNamespaces(); err != nil {
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// checkNamespaces makes namespaces, links and cgroups as the cluster does, for a moment. Root in a
// container often may not.
func checkNamespaces() error {
	explain := func(what string, err error) error {
		return fmt.Errorf("root may not %s here (%w): the cluster needs CAP_SYS_ADMIN and CAP_NET_ADMIN, a kernel with bridges, veth, nftables and overlayfs, and a cgroup file system that can be written, which containers without privileges have not", what, err)
	}
	probe := exec.Command("/bin/sh", "-ec", "mount --make-rprivate / && mount -t tmpfs probe /run && ip link add br0 type bridge && ip link add v0 type veth peer name v1 && nft add table inet probe")
	probe.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces}
	if output, err := probe.CombinedOutput(); err != nil {
		if text := strings.TrimSpace(string(output)); text != "" {
			err = fmt.Errorf("%w: %s", err, text)
		}
		return explain("make namespaces with a bridge, a veth pair and nftables", err)
	}
	name := fmt.Sprintf("mediastack-cluster-probe-%d", os.Getpid())
	err := makeCgroups(name)
	if err := errors.Join(err, removeCgroups(name)); err != nil {
		return explain("make cgroups", err)
	}
	if content, err := os.ReadFile("/proc/filesystems"); err != nil || !strings.Contains(string(content), "\toverlay\n") {
		if err := exec.Command("modprobe", "overlay").Run(); err != nil {
			return explain("mount overlayfs", err)
		}
	}
	return nil
}

// incapableStatus is the exit status of `check` on a machine that cannot run a cluster: any other one is a
// failure of the program.
const incapableStatus = 3

type checkCommand struct{}

// Run prints what is missing, by its error.
func (checkCommand) Run() error {
	if err := checkMachine(); err != nil {
		return incapableError{err}
	}
	return nil
}

// incapableError says what a machine lacks.
type incapableError struct{ error }
