package setup_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"mediastack.dev/hack/setup"
	"mediastack.dev/hack/testenv/check"
)

var must = check.NoError

func TestKubernetesVersion_MatchesTheModule(t *testing.T) {
	root, err := setup.RepoRoot()
	must(t, err)
	content, err := os.ReadFile(filepath.Join(root, "hack", "kube", "go.mod"))
	must(t, err)
	if !strings.Contains(string(content), "k8s.io/kubernetes v"+setup.KubernetesVersion+" ") &&
		!strings.Contains(string(content), "k8s.io/kubernetes v"+setup.KubernetesVersion+"\n") {
		t.Errorf("hack/kube/go.mod does not pin k8s.io/kubernetes v%s", setup.KubernetesVersion)
	}
}

func TestFind_NamesTheCommandForAMissingProgram(t *testing.T) {
	empty := t.TempDir()
	t.Setenv(setup.CacheEnv, empty)
	t.Setenv(setup.BinEnv, empty)
	t.Setenv(setup.AssetsEnv, "")
	_, kube := setup.FindKube()
	_, minio := setup.FindMinIO()
	_, tusd := setup.FindTusd()
	_, promtool := setup.FindPromtool()
	_, prometheus := setup.FindPrometheus()
	_, binary := setup.FindBinary("mediastack-runtime")
	t.Setenv(setup.AssetsEnv, empty)
	_, assets := setup.FindKube()
	for _, c := range []struct {
		err  error
		want string
	}{
		{kube, "run `make kube`"},
		{minio, "run `make minio`"},
		{tusd, "run `make tusd`"},
		{promtool, "run `make promtool`"},
		{prometheus, "run `make prometheus`"},
		{binary, "run `make build dev-services dev-stack`"},
		{assets, "KUBEBUILDER_ASSETS is set to " + empty + ", but " + empty + "/etcd is missing"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("got %v, want a sentence with %q", c.err, c.want)
		}
	}
}

// setup-envtest installs no controllers, and older versions of it no kubectl.
func TestFindKube_CompletesInstalledProgramsFromTheCache(t *testing.T) {
	assets, cache := t.TempDir(), t.TempDir()
	t.Setenv(setup.AssetsEnv, assets)
	t.Setenv(setup.CacheEnv, cache)
	writeFile := func(path string) {
		t.Helper()
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, nil, 0o755))
	}
	etcd, apiServer := filepath.Join(assets, "etcd"), filepath.Join(assets, "kube-apiserver")
	writeFile(etcd)
	writeFile(apiServer)
	if _, err := setup.FindKube(); err == nil || !strings.Contains(err.Error(), "run `make kube`") {
		t.Errorf("without controllers got %v, want a sentence with the command", err)
	}
	controllers := filepath.Join(cache, "kube", setup.KubernetesVersion, "kube-controllers")
	writeFile(controllers)
	tools, err := setup.FindKube()
	if want := (setup.KubeTools{Etcd: etcd, APIServer: apiServer, Controllers: controllers}); err != nil || tools != want {
		t.Errorf("got %+v, %v; want %+v", tools, err, want)
	}
	kubectl := filepath.Join(assets, "kubectl")
	writeFile(kubectl)
	if tools, err := setup.FindKube(); err != nil || tools.Kubectl != kubectl {
		t.Errorf("got %+v, %v; want the kubectl that is installed", tools, err)
	}
}

func TestPackages_NamesMissingOnes(t *testing.T) {
	root, err := setup.RepoRoot()
	must(t, err)
	for purpose, want := range map[string]struct {
		names  []string
		absent string
	}{
		"libvips":  {[]string{"`apt-get install gcc ", " pkg-config libvips-dev`"}, "exiftool"},
		"running":  {[]string{" curl ", " jq "}, "chromium"},
		"packages": {[]string{" libimage-exiftool-perl ", " chromium ", " iproute2 ", " haproxy ", " clamav-daemon ", " varnish"}, "ceph"},
	} {
		command := exec.Command("/bin/bash", filepath.Join(root, "hack", "packages.sh"), purpose)
		command.Env = []string{"PATH=" + t.TempDir()} // neither programs nor apt-get
		printed, err := command.CombinedOutput()
		if err == nil {
			t.Errorf("%s: it does not fail", purpose)
		}
		for _, name := range want.names {
			if !strings.Contains(string(printed), name) {
				t.Errorf("%s: %q is not in %s", purpose, name, printed)
			}
		}
		if strings.Contains(string(printed), want.absent) {
			t.Errorf("%s: %q is in %s", purpose, want.absent, printed)
		}
	}
}

func TestPinned_BuildsOncePerVersion(t *testing.T) {
	root, err := setup.RepoRoot()
	must(t, err)
	module, program := t.TempDir(), filepath.Join(t.TempDir(), "bin", "tool")
	write := func(name, text string) {
		t.Helper()
		must(t, os.WriteFile(filepath.Join(module, name), []byte(text), 0o600))
	}
	build := func() (string, error) {
		out, err := exec.Command(filepath.Join(root, "hack", "build-pinned.sh"), program, module, "example.org/tool").CombinedOutput()
		return string(out), err
	}
	write("main.go", "package main\n\nfunc main() { println(1) }\n")
	write("go.mod", "module example.org/tool\n\ngo 1.24\n")
	if out, err := build(); err == nil {
		t.Errorf("a module without go.sum is not pinned, and is built: %s", out)
	}
	write("go.sum", "")
	if out, err := build(); err != nil || !strings.Contains(out, "tool: built in") {
		t.Fatalf("the first build: %v: %s", err, out)
	}
	if out, err := build(); err != nil || out != "" {
		t.Errorf("the same version again: %v: %s", err, out)
	}
	write("main.go", "package main\n\nfunc main() { println(2) }\n")
	write("go.mod", "module example.org/tool\n\ngo 1.25\n")
	if out, err := build(); err != nil || !strings.Contains(out, "tool: built in") {
		t.Errorf("another version: %v: %s", err, out)
	}
	write("main.go", "package main\n\nfunc main() { missing() }\n")
	write("go.mod", "module example.org/tool\n\ngo 1.24\n")
	for range 2 {
		if out, err := build(); err == nil {
			t.Errorf("a version that does not compile: %s", out)
		}
	}
	if out, err := exec.Command(program).CombinedOutput(); err != nil || string(out) != "2\n" {
		t.Errorf("after a build that failed the program prints %q: %v", out, err)
	}
}

// niceness runs `nice`, which prints the priority of its process.
func niceness(t *testing.T, prefix ...string) int {
	t.Helper()
	command := append(slices.Clone(prefix), "nice")
	out, err := exec.Command(command[0], command[1:]...).Output()
	must(t, err)
	value, err := strconv.Atoi(strings.TrimSpace(string(out)))
	must(t, err)
	return value
}

// A build has a low priority. If its caller has one, the build has the same: with both, a `nice make cluster` on a busy
// machine took more than half an hour.
func TestBuildPinned_LowersThePriorityOnce(t *testing.T) {
	t.Parallel()
	compiler, err := exec.LookPath("go")
	must(t, err)
	root, err := setup.RepoRoot()
	must(t, err)
	for name, prefix := range map[string][]string{"as the test": nil, "with nice": {"nice", "-n", "3"}} {
		module, dir := t.TempDir(), t.TempDir()
		for file, text := range map[string]string{"main.go": "package main\n\nfunc main() {}\n", "go.mod": "module example.org/tool\n\ngo 1.24\n", "go.sum": ""} {
			must(t, os.WriteFile(filepath.Join(module, file), []byte(text), 0o600))
		}
		seen := filepath.Join(dir, "seen")
		must(t, os.WriteFile(filepath.Join(dir, "go"), []byte("#!/bin/sh\ncase \"$*\" in *build*) nice > "+seen+";; esac\nexec "+compiler+" \"$@\"\n"), 0o700))
		command := append(slices.Clone(prefix), filepath.Join(root, "hack", "build-pinned.sh"), filepath.Join(dir, "tool"), module, "example.org/tool")
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
		want := niceness(t, prefix...)
		if want == 0 {
			want = 10
		}
		if text, err := os.ReadFile(seen); err != nil || strings.TrimSpace(string(text)) != strconv.Itoa(want) {
			t.Errorf("%s: the build has the priority %s, want %d: %v", name, text, want, err)
		}
	}
}

// A variable of the Makefile once had the name of the parameter CLUSTER, so every stack was to run in a cluster.
func TestMake_RunUsesAClusterOnlyOnRequest(t *testing.T) {
	root, err := setup.RepoRoot()
	must(t, err)
	for parameter, want := range map[string]string{"DETACH=1": "--detach", "CLUSTER=1": `--cluster="1"`} {
		command := exec.CommandContext(t.Context(), "make", "--dry-run", "run", parameter)
		command.Dir, command.Env = root, append(os.Environ(), "MAKEFLAGS=")
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		_, flags, found := strings.Cut(string(out), "bin/mediastack-dev run ")
		flags, _, _ = strings.Cut(flags, "\n")
		if got := strings.TrimSpace(flags); !found || got != want {
			t.Errorf("%s: the flags are %q, want %q", parameter, got, want)
		}
	}
}
