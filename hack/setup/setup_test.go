package setup_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mediastack.dev/hack/setup"
)

func TestKubernetesVersion_MatchesTheModule(t *testing.T) {
	root, err := setup.RepoRoot()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(root, "hack", "kube", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
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
		{binary, "run `make build dev-services dev-stack`"},
		{assets, "KUBEBUILDER_ASSETS is set to " + empty + ", but " + empty + "/etcd is missing"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("got %v, want a sentence with %q", c.err, c.want)
		}
	}
}

func TestFindKube_AcceptsAssetsWithoutKubectl(t *testing.T) {
	assets := t.TempDir()
	for _, name := range []string{"etcd", "kube-apiserver"} {
		if err := os.WriteFile(filepath.Join(assets, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(setup.AssetsEnv, assets)
	tools, err := setup.FindKube()
	if err != nil || tools.Etcd != filepath.Join(assets, "etcd") || tools.Kubectl != "" {
		t.Errorf("got %+v, %v", tools, err)
	}
}

func TestPackages_NamesMissingOnes(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // neither programs nor apt-get
	err := setup.Packages(t.Context(), io.Discard, setup.Building)
	if err == nil || !strings.Contains(err.Error(), "`apt-get install gcc ") || !strings.Contains(err.Error(), " pkg-config libvips-dev`") {
		t.Errorf("got %v", err)
	}
	if err == nil || strings.Contains(err.Error(), "exiftool") {
		t.Errorf("building needs no test tools: %v", err)
	}
	err = setup.Packages(t.Context(), io.Discard, setup.Running)
	if err == nil || !strings.Contains(err.Error(), " curl ") || strings.Contains(err.Error(), "chromium") {
		t.Errorf("running needs curl and no browser: %v", err)
	}
	err = setup.Packages(t.Context(), io.Discard, setup.Everything)
	if err == nil || !strings.Contains(err.Error(), " libimage-exiftool-perl ") || !strings.Contains(err.Error(), " chromium`") {
		t.Errorf("got %v", err)
	}
}
