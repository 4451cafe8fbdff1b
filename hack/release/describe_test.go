package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

const testList = "registry.example.org/mediastack/operator:v1.2.3@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n" +
	"registry.example.org/mediastack/runtime:v1.2.3@sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\n"

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// Artifact Hub reads these annotations: https://artifacthub.io/docs/topics/annotations/helm/.
func TestChart_IsDescribedForArtifactHub(t *testing.T) {
	t.Parallel()
	key, _ := newKey(t)
	chart := filepath.Join(t.TempDir(), "mediastack")
	must(t, os.CopyFS(chart, os.DirFS("../../charts/mediastack")))
	must(t, (&chartCommand{Version: "v1.2.3-rc.1", Images: write(t, "images.txt", testList), Changelog: "../../CHANGELOG.md", Samples: "../../config/samples", Key: key, Chart: chart}).Run())
	text, err := os.ReadFile(filepath.Join(chart, "Chart.yaml"))
	must(t, err)
	var metadata struct {
		Version, AppVersion, Icon, Home string
		Maintainers                     []struct{ Name, URL string }
		Annotations                     map[string]string
	}
	must(t, yaml.Unmarshal(text, &metadata))
	if metadata.Version != "1.2.3-rc.1" || metadata.AppVersion != "v1.2.3-rc.1" || !strings.HasPrefix(metadata.Icon, "https://") || metadata.Home == "" || len(metadata.Maintainers) == 0 || metadata.Maintainers[0].Name == "" {
		t.Errorf("the chart is described as %+v", metadata)
	}
	read := func(name string, into any) {
		t.Helper()
		if err := yaml.Unmarshal([]byte(metadata.Annotations["artifacthub.io/"+name]), into); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	var listed []image
	if read("images", &listed); len(listed) != 2 || listed[0].Image+"\n"+listed[1].Image+"\n" != strings.ReplaceAll(testList, "v1.2.3", "v1.2.3-rc.1") {
		t.Errorf("the images are %+v", listed)
	}
	var crds []definition
	files, err := filepath.Glob("../../config/crd/bases/*.yaml")
	must(t, err)
	if read("crds", &crds); len(crds) != len(files) || len(crds) < 4 {
		t.Errorf("%d of %d definitions are listed", len(crds), len(files))
	}
	for _, crd := range crds {
		if crd.Kind == "" || crd.Version == "" || crd.DisplayName == "" || !strings.HasSuffix(crd.Name, ".mediastack.dev") || !strings.Contains(crd.Description, crd.Kind) {
			t.Errorf("a definition is %+v", crd)
		}
	}
	var examples []struct{ Kind string }
	if read("crdsExamples", &examples); len(examples) != 3 || examples[0].Kind != "MediaAccount" {
		t.Errorf("the examples are %+v", examples)
	}
	var changes []change
	if read("changes", &changes); len(changes) < 5 {
		t.Errorf("there are %d changes", len(changes))
	}
	for _, one := range changes {
		if _, ok := map[string]bool{"added": true, "changed": true, "deprecated": true, "removed": true, "fixed": true, "security": true}[one.Kind]; !ok || one.Description == "" || strings.Contains(one.Description, "](") {
			t.Errorf("a change is %+v", one)
		}
	}
	var links []struct{ Name, URL string }
	if read("links", &links); len(links) < 3 {
		t.Errorf("the links are %+v", links)
	}
	for _, one := range links {
		if page, ok := strings.CutPrefix(one.URL, "https://mediastack.dev/"); ok {
			page, _, _ = strings.Cut(page, "#")
			if _, err := os.Stat(filepath.Join("../..", page+".md")); err != nil {
				t.Errorf("the link %s leads to no page: %v", one.Name, err)
			}
		}
	}
	pair, err := loadKey(key)
	must(t, err)
	var signKey struct{ Fingerprint, URL string }
	if read("signKey", &signKey); signKey.Fingerprint != string(pair.hint) || len(signKey.Fingerprint) != 64 || signKey.URL == "" {
		t.Errorf("the key is %+v", signKey)
	}
	for name, want := range map[string]string{"prerelease": "true", "operator": "true", "license": "Apache-2.0"} {
		if got := metadata.Annotations["artifacthub.io/"+name]; got != want {
			t.Errorf("%s is %q", name, got)
		}
	}
}

// bundleOf writes the bundle of the objects of config/default.
func bundleOf(t *testing.T, version string, change func(string) string) (string, error) {
	t.Helper()
	kubectl := os.Getenv("KUBECTL")
	if kubectl == "" {
		t.Fatal("KUBECTL must name kubectl: make test-images sets it")
	}
	rendered, err := exec.CommandContext(t.Context(), kubectl, "kustomize", "../../config/default").Output()
	must(t, err)
	tagged := strings.NewReplacer("image: mediastack/operator:devel\n", "image: registry.example.org/mediastack/operator:"+version+"\n", "image: mediastack/runtime:devel\n", "image: registry.example.org/mediastack/runtime:"+version+"\n").Replace(string(rendered))
	folder := t.TempDir()
	return folder, (&olmCommand{Version: version, Images: write(t, "images.txt", testList), Install: write(t, "install.yaml", change(tagged)), Samples: "../../config/samples",
		Icon: "../../docs/icon.svg", Created: "2026-01-01T00:00:00Z", Arch: []string{"amd64", "arm64"}, Changelog: write(t, "CHANGELOG.md", "## [1.2.3]\n\n## [1.2.2]\n\n## [1.1.0]\n"), Definitions: "../../config/crd/bases", Out: folder}).Run()
}

// Run fails unless the library accepts the bundle, so what it contains is looked at here.
func TestOLM_TheBundleIsAcceptedAndComplete(t *testing.T) {
	t.Parallel()
	folder, err := bundleOf(t, "v1.2.3", func(text string) string { return text })
	must(t, err)
	text, err := os.ReadFile(filepath.Join(folder, "manifests", "mediastack.clusterserviceversion.yaml"))
	must(t, err)
	permitted(t, text)
	for _, want := range []string{"name: mediastack.v1.2.3\n", "minKubeVersion: 1.30.0\n", "mediatype: image/svg+xml\n", "operatorframework.io/arch.arm64: supported", "serviceAccountName: mediastack-runtime", "kind: MediaWebhook\n",
		"replaces: mediastack.v1.2.2\n", "olm.skipRange: '>=1.1.0 <1.2.3'\n",
		"image: registry.example.org/mediastack/operator@sha256:aaaa", "image: registry.example.org/mediastack/runtime@sha256:bbbb"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the ClusterServiceVersion lacks %q", want)
		}
	}
	beside, err := os.ReadFile(filepath.Join(folder, besideFile))
	must(t, err)
	if strings.Contains(string(text), ":v1.2.3\n") || strings.Contains(string(beside), ":v1.2.3\n") || !strings.Contains(string(beside), "image: registry.example.org/mediastack/runtime@sha256:bbbb") {
		t.Errorf("an image is named by its tag, or not at all: %s", beside)
	}
	rest, err := objects(beside)
	must(t, err)
	kinds := map[string]int{}
	for _, object := range rest {
		kinds[object.GetKind()]++
	}
	if len(kinds) != 3 || kinds["CronJob"] != 1 || kinds["ValidatingAdmissionPolicy"] != 2 || kinds["ValidatingAdmissionPolicyBinding"] != 2 {
		t.Errorf("beside the bundle are %v", kinds)
	}
	annotations, err := os.ReadFile(filepath.Join(folder, "metadata", "annotations.yaml"))
	must(t, err)
	if !strings.Contains(string(annotations), "channels.v1: stable\n") {
		t.Errorf("the annotations are %s", annotations)
	}
}

// permitted fails the test unless a ClusterServiceVersion has the rules of every role that config/default binds, for the same account, and no others.
func permitted(t *testing.T, text []byte) {
	t.Helper()
	type granted struct {
		ServiceAccountName string
		Rules              []rbacv1.PolicyRule
	}
	var csv struct {
		Spec struct {
			Install struct {
				Spec struct{ Permissions, ClusterPermissions []granted }
			}
		}
	}
	must(t, yaml.Unmarshal(text, &csv))
	got := map[string]int{}
	add := func(to map[string]int, scope string, rules []rbacv1.PolicyRule, account string) {
		for _, rule := range rules {
			to[fmt.Sprint(scope, " ", account, " ", rule.String())]++
		}
	}
	for _, one := range csv.Spec.Install.Spec.Permissions {
		add(got, "Role", one.Rules, one.ServiceAccountName)
	}
	for _, one := range csv.Spec.Install.Spec.ClusterPermissions {
		add(got, "ClusterRole", one.Rules, one.ServiceAccountName)
	}
	rendered, err := exec.CommandContext(t.Context(), os.Getenv("KUBECTL"), "kustomize", "../../config/default").Output()
	must(t, err)
	all, err := objects(rendered)
	must(t, err)
	rules, want := map[string][]rbacv1.PolicyRule{}, map[string]int{}
	for _, object := range all {
		var role rbacv1.ClusterRole
		if object.GetKind() == "Role" || object.GetKind() == "ClusterRole" {
			must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role))
			rules[object.GetKind()+" "+object.GetName()] = role.Rules
		}
	}
	for _, object := range all {
		var binding rbacv1.ClusterRoleBinding
		if object.GetKind() == "RoleBinding" || object.GetKind() == "ClusterRoleBinding" {
			must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &binding))
			add(want, strings.TrimSuffix(object.GetKind(), "Binding"), rules[binding.RoleRef.Kind+" "+binding.RoleRef.Name], binding.Subjects[0].Name)
		}
	}
	if !maps.Equal(got, want) || len(want) < 10 {
		t.Errorf("the bundle permits %v, and config/default %v", got, want)
	}
}

func TestOLM_ABundleThatTheLibraryRejectsIsAnError(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		change func(string) string
		want   string
	}{
		"a definition is missing": {func(text string) string {
			return strings.Replace(text, "kind: CustomResourceDefinition", "kind: ConfigMap", 1)
		}, `Kind=MediaAccount" not found in bundle`},
		"a role is not bound": {func(text string) string {
			return strings.Replace(text, "kind: ClusterRoleBinding", "kind: ConfigMap", 1)
		}, "nothing binds ClusterRole/mediastack-operator"},
	} {
		if _, err := bundleOf(t, "v1.2.3", one.change); err == nil || !strings.Contains(err.Error(), one.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// By default the library pulls the images with docker, which asks docker.io for images that are nowhere yet.
func TestOLM_AsksNoContainerEngine(t *testing.T) {
	folder, called := t.TempDir(), filepath.Join(t.TempDir(), "called")
	for _, name := range []string{"docker", "podman"} {
		must(t, os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\necho \"$0 $*\" >>'"+called+"'\n"), 0o700))
	}
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	_, err := bundleOf(t, "v1.2.3", func(text string) string { return text })
	must(t, err)
	if calls, err := os.ReadFile(called); err == nil {
		t.Errorf("it runs %s", calls)
	}
}
