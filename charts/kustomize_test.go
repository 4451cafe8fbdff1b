package charts_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/kubetest"
)

// differences are what config/default and the chart with its default values differ in by
// intention. Each removes its difference from an object, or the object (false).
var differences = []struct {
	reason string
	remove func(object *unstructured.Unstructured) (keep bool)
}{
	{"Helm does not create the namespace", func(object *unstructured.Unstructured) bool {
		return object.GetKind() != "Namespace"
	}},
	{"kustomize has no hooks: uninstalling in the right order is in the user's hands", func(object *unstructured.Unstructured) bool {
		_, hook := object.GetAnnotations()["helm.sh/hook"]
		return !hook && (object.GetKind() != "NetworkPolicy" || !strings.HasSuffix(object.GetName(), "-test") && !strings.HasSuffix(object.GetName(), "-uninstall"))
	}},
	{"the chart labels every object and pod with the release", func(object *unstructured.Unstructured) bool {
		for _, path := range [][]string{{"metadata", "labels"}, {"spec", "template", "metadata", "labels"}, {"spec", "jobTemplate", "spec", "template", "metadata", "labels"}} {
			labels, found, _ := unstructured.NestedStringMap(object.Object, path...)
			for name := range labels {
				if strings.HasPrefix(name, "helm.sh/") || strings.HasPrefix(name, "app.kubernetes.io/") && name != "app.kubernetes.io/name" && name != "app.kubernetes.io/component" || !isPod(path) && strings.HasPrefix(name, "app.kubernetes.io/") {
					delete(labels, name)
				}
			}
			if !found {
				continue
			}
			unstructured.RemoveNestedField(object.Object, path...)
			if len(labels) > 0 {
				_ = unstructured.SetNestedStringMap(object.Object, labels, path...)
			}
		}
		return true
	}},
	{"Helm keeps the definitions by an annotation; kustomize deletes what is deleted", func(object *unstructured.Unstructured) bool {
		annotations := object.GetAnnotations()
		delete(annotations, "helm.sh/resource-policy")
		object.SetAnnotations(annotations)
		return true
	}},
	{"kustomize gives a namespace to kinds that it does not know to be of the cluster; the API server ignores it", func(object *unstructured.Unstructured) bool {
		if strings.HasPrefix(object.GetKind(), "ValidatingAdmissionPolicy") {
			object.SetNamespace("")
		}
		return true
	}},
	{"a changed setting rolls the pods by a checksum in the chart, and by the ConfigMap's name in kustomize", func(object *unstructured.Unstructured) bool {
		unstructured.RemoveNestedField(object.Object, "spec", "template", "metadata", "annotations", "checksum/settings")
		walkStrings(object.Object, func(text string) string { return hashedName.ReplaceAllString(text, "mediastack") })
		return true
	}},
}

func isPod(path []string) bool { return len(path) > 2 }

// hashedName is the name of the ConfigMap that kustomize generates.
var hashedName = regexp.MustCompile(`^mediastack-[a-z0-9]{10}$`)

// walkStrings replaces every string below value.
func walkStrings(value any, replace func(string) string) any {
	switch value := value.(type) {
	case map[string]any:
		for key, child := range value {
			value[key] = walkStrings(child, replace)
		}
	case []any:
		for i, child := range value {
			value[i] = walkStrings(child, replace)
		}
	case string:
		return replace(value)
	}
	return value
}

// normalized returns the objects without the intended differences, by kind, namespace and name.
func normalized(all []*unstructured.Unstructured) map[string]map[string]any {
	found := map[string]map[string]any{}
	for _, object := range all {
		keep := true
		for _, difference := range differences {
			keep = keep && difference.remove(object)
		}
		if keep {
			found[object.GetKind()+" "+object.GetNamespace()+"/"+object.GetName()] = object.Object
		}
	}
	return found
}

// kustomized returns the objects of config/default with components of config/components.
func kustomized(t *testing.T, components ...string) []*unstructured.Unstructured {
	t.Helper()
	root, overlay := testenv.RepoRoot(t), t.TempDir()
	relative, err := filepath.Rel(overlay, filepath.Join(root, "config"))
	must(t, err)
	text := "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [" + relative + "/default]\n"
	for _, component := range components {
		text += "components: [" + relative + "/components/" + component + "]\n"
		if component == "iam" {
			text += "configMapGenerator: [{name: mediastack, namespace: mediastack-system, behavior: merge, literals: [SERVICE_S3_CREDENTIALS=iam]}]\n"
		}
	}
	must(t, os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte(text), 0o600))
	return kubetest.ParseManifests(t, testenv.Run(t, 4*time.Minute, root, testenv.Kubectl(t), "kustomize", overlay))
}

// Most of config/ is generated from the chart (hack/kustomization). The role of the operator, the definitions, the settings
// and the components are not: this compares them.
func TestChart_InstallsWhatTheKustomizationInstalls(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		components []string
		values     []string
	}{
		{},
		{[]string{"tls"}, []string{"--set=tls.secretName=mediastack-tls"}},
		{[]string{"iam"}, []string{"--set=s3.credentials=iam"}},
	} {
		rendered, written := normalized(objects(t, c.values...)), normalized(kustomized(t, c.components...))
		if len(written) < 25 {
			t.Errorf("the kustomization has %d objects only", len(written))
		}
		if diff := cmp.Diff(written, rendered); diff != "" {
			t.Errorf("config/default with %q (-) and charts/mediastack with %q (+) differ: run `make generate`, or name the difference in the table:\n%s", c.components, c.values, diff)
		}
	}
}
