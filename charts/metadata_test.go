package charts_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// podMetadata are the paths of the metadata of pods in workloads.
var podMetadata = map[string][]string{
	"Deployment": {"spec", "template", "metadata"},
	"Job":        {"spec", "template", "metadata"},
	"CronJob":    {"spec", "jobTemplate", "spec", "template", "metadata"},
}

// Every object and every pod has the common labels and annotations, whatever it has of its own, and selectors have none.
func TestCommon_LabelsAndAnnotationsAreEverywhere(t *testing.T) {
	t.Parallel()
	common := []string{"--set=commonLabels.cost=media", "--set=commonAnnotations.owner=media-team"}
	count := 0
	for name, args := range renderings {
		for _, object := range objects(t, append(append(common, args...), "--set=crds.install=true,extraObjects=null")...) {
			metadata := map[string][]string{"the object": {"metadata"}}
			if path, ok := podMetadata[object.GetKind()]; ok {
				metadata["the pod"] = path
			}
			for what, path := range metadata {
				count++
				labels, _, _ := unstructured.NestedStringMap(object.Object, append(path, "labels")...)
				annotations, _, _ := unstructured.NestedStringMap(object.Object, append(path, "annotations")...)
				if labels["cost"] != "media" || annotations["owner"] != "media-team" {
					t.Errorf("%s: %s of %s %s has the labels %v and the annotations %v", name, what, object.GetKind(), object.GetName(), labels, annotations)
				}
			}
			for _, path := range [][]string{{"spec", "selector", "matchLabels"}, {"spec", "selector"}} {
				selector, _, _ := unstructured.NestedMap(object.Object, path...)
				if selector["cost"] != nil {
					t.Errorf("%s: the selector of %s %s has a common label", name, object.GetKind(), object.GetName())
				}
			}
		}
	}
	if count < 150 {
		t.Errorf("the test looked at %d objects and pods only", count)
	}
}

// What a workload has of its own goes before what is common.
func TestCommon_OwnLabelsAndAnnotationsHavePrecedence(t *testing.T) {
	t.Parallel()
	all := objects(t, "--set=commonLabels.a=common,commonAnnotations.a=common", "--set=runtime.podLabels.a=own,runtime.podAnnotations.a=own,service.annotations.a=own,monitoring.rules=true,monitoring.labels.a=own")
	pod := find(t, all, "Deployment", "mediastack-runtime")
	labels, _, err := unstructured.NestedStringMap(pod.Object, "spec", "template", "metadata", "labels")
	must(t, err)
	annotations, _, err := unstructured.NestedStringMap(pod.Object, "spec", "template", "metadata", "annotations")
	must(t, err)
	for what, got := range map[string]string{
		"label of the pod": labels["a"], "annotation of the pod": annotations["a"],
		"annotation of the Service": find(t, all, "Service", "mediastack-runtime").GetAnnotations()["a"],
		"label of the alerts":       find(t, all, "PrometheusRule", "mediastack").GetLabels()["a"],
	} {
		if got != "own" {
			t.Errorf("the %s is %q", what, got)
		}
	}
}
