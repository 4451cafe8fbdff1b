package charts_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mediastack.dev/hack/testenv"
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
		return !hook
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

func TestChart_InstallsWhatTheKustomizationInstalls(t *testing.T) {
	t.Parallel()
	rendered := normalized(objects(t))
	kustomized := normalized(testenv.ParseManifests(t, testenv.Run(t, time.Minute, testenv.RepoRoot(t), testenv.Kubectl(t), "kustomize", "config/default")))
	if len(kustomized) < 25 {
		t.Errorf("the kustomization has %d objects only", len(kustomized))
	}
	if diff := cmp.Diff(kustomized, rendered); diff != "" {
		t.Errorf("config/default (-) and charts/mediastack (+) differ: change both, or name the difference in the table:\n%s", diff)
	}
}
