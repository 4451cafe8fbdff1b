package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mediastack.dev/hack/controlplane"
	"mediastack.dev/hack/testenv"
)

// emptyCluster starts a control plane without anything of mediastack, and returns the path of its kubeconfig.
func emptyCluster(t *testing.T) string {
	t.Helper()
	group, dir := testenv.Group(t), testenv.TempDir(t)
	plane, err := controlplane.Start(t.Context(), group, controlplane.Config{Dir: filepath.Join(dir, "kube"), LogDir: dir, Volatile: true})
	if err == nil {
		err = plane.StartControllers(t.Context())
	}
	must(t, err)
	return plane.Kubeconfig
}

// A stack uses a cluster of another (`make run CLUSTER=1`): it overwrites nothing there that is not its own, and `make
// clean` removes what it has applied, and no more.
func TestDevStack_InAClusterOfAnother(t *testing.T) {
	t.Parallel()
	kubeconfig, dir := emptyCluster(t), filepath.Join(testenv.TempDir(t), "data")
	setting := "KUBECONFIG=" + kubeconfig
	program := testenv.Binary(t, "mediastack-dev")
	kubectl := func(args ...string) string {
		t.Helper()
		return run(t, "", testenv.Kubectl(t), append([]string{"--kubeconfig", kubeconfig, "--cache-dir", filepath.Join(dir, "..", "kubectl-cache")}, args...)...)
	}
	names := func() string {
		t.Helper()
		return kubectl("get", "namespaces,customresourcedefinitions,clusterroles,validatingadmissionpolicies,validatingadmissionpolicybindings", "--output=name")
	}
	fails := func(want, dir, name string) {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "env", setting, program, "run", "--detach", "--data-dir", dir, "--cluster", name).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("a stack with the cluster %s ends with %v, want %q in %s", name, err, want, out)
		}
	}

	empty := names()
	fails(`no context "elsewhere"`, dir, "elsewhere")
	kubectl("create", "namespace", "team-a")
	taken := names()
	fails("has team-a already", dir, "1")
	if now := names(); now != taken {
		t.Errorf("a cluster that is not used has changed from %s to %s", taken, now)
	}
	kubectl("delete", "namespace", "team-a")

	s := startWith(t, dir, []string{"--cluster", "1"}, setting)
	draft := s.upload(s.APIKey, "a.txt", []byte("in a cluster"))
	if status := s.call(s.APIKey, "POST", "/media/seal/"+draft.MediaID, "", nil, nil); status != 200 {
		t.Errorf("seal: %d", status)
	}
	s.kubectl(manifest, "apply", "-f", "-") // an account of the developer's own
	s.kubectl("", "wait", "--for=condition=Ready", "--timeout=2m", "-n", "team-a", "mediaaccount/shop")
	fails("is in use by the stack in "+dir, filepath.Join(dir, "..", "other"), "1")
	s.stop()
	// Without the flag the stack finds its cluster again.
	s = start(t, dir, setting)
	var found item
	if status := s.call(s.APIKey, "GET", "/media/get/"+draft.MediaID, "", nil, &found); status != 200 || found.Temp {
		t.Errorf("after a restart the item is answered with %d, %+v", status, found)
	}
	s.stop()
	if printed := run(t, "", program, "clean", "--data-dir", dir); !strings.Contains(printed, "Removed the objects of the stack from the cluster ") {
		t.Errorf("clean prints %q", printed)
	}
	if left := names(); left != empty {
		t.Errorf("left in the cluster: %s\nat first: %s", left, empty)
	}
}
