//go:build cluster

package cluster

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// confinedArgument makes this program look for what it may do.
	confinedArgument = "show-confinement"
	// nothingArgument makes it end at once.
	nothingArgument = "nothing"
)

// TestRuntime_IsConfined runs this program instead of the runtime in a copy of a pod of the runtime: with
// its service account, user, capabilities, volumes and environment.
func TestRuntime_IsConfined(t *testing.T) {
	install(t)
	copyRuntimePod(t, "confined", confinedArgument)
	defer kubectl(t, "-n", namespace, "delete", "pod/confined", "--now", "--wait=false")
	phase := ended(t, namespace, "confined")
	shown := kubectl(t, "-n", namespace, "logs", "confined")
	if phase != "Succeeded" {
		t.Errorf("from inside of the runtime's pod: %s", shown)
	}
	t.Logf("from inside of the runtime's pod:\n%s", shown)
}

// copyRuntimePod makes a pod that differs from the one of the runtime in its name, its program and its
// labels, so that the Service does not lead to it.
func copyRuntimePod(t *testing.T, name, argument string) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	var pods corev1.PodList
	must(t, json.Unmarshal([]byte(kubectl(t, "-n", namespace, "get", "pods", "--selector=app.kubernetes.io/component=runtime", "--output=json")), &pods))
	pod := corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Spec: pods.Items[0].Spec,
	}
	pod.Spec.RestartPolicy, pod.Spec.InitContainers, pod.Spec.TopologySpreadConstraints = corev1.RestartPolicyNever, nil, nil
	container := &pod.Spec.Containers[0]
	container.Image, container.Command, container.Args = program, []string{"/" + filepath.Base(self)}, []string{argument}
	container.StartupProbe, container.LivenessProbe, container.ReadinessProbe = nil, nil, nil
	manifest, err := json.Marshal(pod)
	must(t, err)
	apply(t, string(manifest))
}

// showConfinement tries what the runtime's pod must not be able to do, and prints the outcomes.
func showConfinement(ctx context.Context) error {
	var broken []error
	show := func(what string, err error) {
		fmt.Printf("%s: %v\n", what, err)
		if err == nil {
			broken = append(broken, fmt.Errorf("%s: it can", what))
		}
	}
	show("be root", becomeRoot())
	for _, dir := range []string{"/", "/etc", "/usr/local/bin", "/tmp", "/var", "/home"} {
		show("write into "+dir, os.WriteFile(filepath.Join(dir, "probe"), nil, 0o600))
	}
	show("mount", syscall.Mount("probe", "/", "tmpfs", 0, ""))
	show("make a network namespace", syscall.Unshare(syscall.CLONE_NEWNET))
	show("make a user namespace", startInUserNamespace(ctx))
	_, err := os.ReadDir("/var/run/secrets")
	show("read a token", err)
	show("read Secrets of the namespace", readSecrets(ctx))
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	for _, line := range []string{"CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"} {
		if !strings.Contains(string(status), line+"\n") {
			broken = append(broken, fmt.Errorf("the process lacks %q: %s", line, status))
		}
	}
	return errors.Join(broken...)
}

func becomeRoot() error {
	if os.Getuid() == 0 {
		return nil
	}
	return syscall.Setuid(0)
}

// startInUserNamespace starts this program again: a process with several threads, as every Go program is, cannot
// change its own user namespace in any case.
func startInUserNamespace(ctx context.Context) error {
	child := exec.CommandContext(ctx, "/proc/self/exe", nothingArgument)
	child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}
	return child.Run()
}

// readSecrets asks the API server for the Secrets of the product, with what the pod has.
func readSecrets(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://kubernetes.default.svc/api/v1/namespaces/"+namespace+"/secrets", nil)
	if err != nil {
		return err
	}
	// The pod has no certificate of the authority, and sends no secret.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %.200s", response.Status, content)
	}
	return nil
}
