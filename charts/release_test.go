package charts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/kubetest"
	"mediastack.dev/hack/testenv/wait"
)

// manifests writes install.yaml and crds.yaml as a release has them.
func manifests(t *testing.T, version string, env ...string) string {
	t.Helper()
	folder := t.TempDir()
	command := exec.CommandContext(t.Context(), filepath.Join(testenv.RepoRoot(t), "hack", "release-manifests.sh"), version, folder)
	command.Env = append(append(command.Environ(), "KUBECTL="+testenv.Kubectl(t)), env...)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return folder
}

// One command creates everything in an empty cluster, although the file has definitions and a namespace that other objects need,
// and again changes nothing.
func TestInstallYAML_IsAppliedByOneCommand(t *testing.T) {
	t.Parallel()
	plane := kubetest.New(t)
	c := &cluster{t: t, plane: plane, namespace: namespace}
	c.Client = c.as(plane.Kubeconfig())
	for _, object := range kubetest.Manifests(t, "crd/bases") { // of testenv
		must(t, c.Delete(t.Context(), object))
		wait.Until(c.t, object.GetName()+" is gone", func() bool { return apierrors.IsNotFound(c.definition(object.GetName())) })
	}
	file := filepath.Join(manifests(t, "v1.2.3", "REGISTRY=registry.example.org/team"), "install.yaml")
	apply := func() string {
		out, err := exec.CommandContext(t.Context(), testenv.Kubectl(t), "--kubeconfig", plane.Kubeconfig(), "apply", "-f", file).CombinedOutput()
		if err != nil {
			t.Fatalf("kubectl apply: %v\n%s", err, out)
		}
		return string(out)
	}
	first := apply()
	text, err := os.ReadFile(file)
	must(t, err)
	all := kubetest.ParseManifests(t, string(text))
	if created := strings.Count(first, " created\n") + strings.Count(first, "serverside-applied"); created != len(all) || created < 25 {
		t.Errorf("%d of %d objects were created:\n%s", created, len(all), first)
	}
	for _, object := range all {
		must(t, c.Get(t.Context(), client.ObjectKeyFromObject(object), object))
	}
	// kubectl calls some objects configured whose defaults differ from the file in form alone, so the generations are compared.
	again := apply()
	for _, object := range all {
		before := object.GetGeneration()
		must(t, c.Get(t.Context(), client.ObjectKeyFromObject(object), object))
		if object.GetGeneration() != before {
			t.Errorf("applied again, it changes %s %s:\n%s", object.GetKind(), object.GetName(), again)
		}
	}
	if strings.Contains(again, " created\n") {
		t.Errorf("applied again, it creates something:\n%s", again)
	}
	// The samples, which the chart and the bundle for the Operator Lifecycle Manager show as examples.
	samples := filepath.Join(testenv.RepoRoot(t), "config", "samples")
	shown := []string{filepath.Join(samples, "namespace.yaml")}
	for _, pattern := range []string{"media*.yaml", "*/media*.yaml"} {
		found, err := filepath.Glob(filepath.Join(samples, pattern))
		must(t, err)
		shown = append(shown, found...)
	}
	for _, sample := range shown {
		if out, err := exec.CommandContext(t.Context(), testenv.Kubectl(t), "--kubeconfig", plane.Kubeconfig(), "apply", "-f", sample).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", sample, err, out)
		}
	}
	if len(shown) != 4 {
		t.Errorf("there are the samples %q", shown)
	}
	for _, image := range []string{"registry.example.org/team/mediastack/operator:v1.2.3", "registry.example.org/team/mediastack/runtime:v1.2.3"} {
		if !strings.Contains(string(text), "image: "+image+"\n") {
			t.Errorf("nothing runs %s", image)
		}
	}
	// The pods get their environment from a Secret that is not in the file, and need no other object.
	var namespaces corev1.NamespaceList
	must(t, c.List(t.Context(), &namespaces, client.MatchingLabels{corev1.LabelMetadataName: namespace}))
	if len(namespaces.Items) != 1 || namespaces.Items[0].Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
		t.Errorf("the namespace is %+v", namespaces.Items)
	}
}

// edits matches the commands of install.md that change install.yaml.
var edits = regexp.MustCompile("(?s)```sh TestInstallYAML_IsEditedAsDocumented\n(.*?)```")

// Who has a release alone edits the file: afterwards it has no URL and no registry of an example.
func TestInstallYAML_IsEditedAsDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(testenv.RepoRoot(t), "docs", "guides", "install.md"))
	must(t, err)
	commands := edits.FindSubmatch(page)
	if commands == nil {
		t.Fatal("install.md has no such commands")
	}
	folder := manifests(t, "v1.2.3")
	command := exec.CommandContext(t.Context(), "bash", "-ec", string(commands[1]))
	command.Dir = folder
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(folder, "install.yaml"))
	must(t, err)
	all := kubetest.ParseManifests(t, string(text))
	var settings *unstructured.Unstructured
	for _, object := range all {
		if object.GetKind() == "ConfigMap" {
			settings = object
		}
	}
	if settings == nil {
		t.Fatal("install.yaml has no ConfigMap")
	}
	data, _, err := unstructured.NestedStringMap(settings.Object, "data")
	must(t, err)
	if data["SERVICE_BASE_URL"] != "https://media.your-domain.org" || data["SERVICE_S3_ENDPOINT"] != "https://s3.your-domain.org" {
		t.Errorf("the settings are %v", data)
	}
	if strings.Contains(string(text), "image: mediastack/") || strings.Count(string(text), "image: registry.your-domain.org/mediastack/") != 4 {
		t.Errorf("an image has no registry")
	}
}

// A chart of a release knows the digests of its images; that of a checkout says that it does not.
func TestImages_ByDigestAreThoseOfTheRelease(t *testing.T) {
	t.Parallel()
	if _, err := render(t, "--set=image.byDigest=true"); err == nil || !strings.Contains(err.Error(), "this chart is not that of a release, and has no digests") {
		t.Errorf("the chart of a checkout: %v", err)
	}
	copied := filepath.Join(t.TempDir(), "mediastack")
	must(t, os.CopyFS(copied, os.DirFS(chart(t))))
	operator, runtime := "sha256:"+strings.Repeat("a", 64), "sha256:"+strings.Repeat("b", 64)
	must(t, os.WriteFile(filepath.Join(copied, "files", "digests.yaml"), []byte("operator: "+operator+"\nruntime: "+runtime+"\n"), 0o600))
	for set, want := range map[string][]string{
		"image.byDigest=true": {"mediastack/operator@" + operator, "mediastack/runtime@" + runtime},
		"image.byDigest=true,image.runtime.digest=sha256:" + strings.Repeat("c", 64): {"mediastack/operator@" + operator, "mediastack/runtime@sha256:" + strings.Repeat("c", 64)},
		"image.byDigest=false": {"mediastack/operator:devel", "mediastack/runtime:devel"},
	} {
		out, err := helm(t, append([]string{"template", release, copied, "--namespace", namespace, "--set=" + set}, required...)...)
		must(t, err)
		for _, image := range want {
			if !strings.Contains(out, image+"\n") {
				t.Errorf("%s: nothing runs %s", set, image)
			}
		}
		if strings.Contains(set, "true") && (strings.Contains(out, "mediastack/runtime:devel") || strings.Contains(out, "mediastack/operator:devel")) {
			t.Errorf("%s: something runs an image by its tag", set)
		}
	}
}
