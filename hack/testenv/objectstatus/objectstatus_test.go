package objectstatus_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/kubetest"
	"mediastack.dev/hack/testenv/objectstatus"
	"mediastack.dev/hack/testenv/wait"
)

var must = check.NoError

func TestMain(m *testing.M) { testenv.Main(m) }

// object returns a MediaAccount of generation 2 whose Ready, Reconciling and Stalled have the
// statuses in the text, such as "True False False".
func object(observed int64, statuses string, change ...func(map[string]any)) *unstructured.Unstructured {
	var conditions []any
	for i, value := range strings.Fields(statuses) {
		conditions = append(conditions, map[string]any{
			"type": []string{"Ready", "Reconciling", "Stalled"}[i], "status": value, "reason": "Test", "message": "text",
			"observedGeneration": observed, "lastTransitionTime": "2026-01-01T00:00:00Z",
		})
	}
	raw := map[string]any{
		"apiVersion": "mediastack.dev/v1alpha1", "kind": "MediaAccount",
		"metadata": map[string]any{"name": "demo", "generation": int64(2)},
		"status":   map[string]any{"observedGeneration": observed, "conditions": conditions},
	}
	for _, change := range change {
		change(raw)
	}
	return &unstructured.Unstructured{Object: raw}
}

func TestContradictions_AreFound(t *testing.T) {
	t.Parallel()
	deleting := func(raw map[string]any) {
		raw["metadata"].(map[string]any)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
	}
	noMessage := func(raw map[string]any) {
		raw["status"].(map[string]any)["conditions"].([]any)[0].(map[string]any)["message"] = ""
	}
	aheadOfStatus := func(raw map[string]any) { raw["status"].(map[string]any)["observedGeneration"] = int64(1) }
	for name, c := range map[string]struct {
		object *unstructured.Unstructured
		want   string // part of the contradiction; empty = none
	}{
		"a new object":                                {object(-1, ""), ""},
		"Ready":                                       {object(2, "True False False"), ""},
		"Ready at an older generation":                {object(1, "True False False"), ""},
		"Reconciling":                                 {object(1, "False True False"), ""},
		"Stalled":                                     {object(2, "False False True"), ""},
		"deleting":                                    {object(2, "False True False", deleting), ""},
		"Stalled while deleting":                      {object(2, "False False True", deleting), ""},
		"Reconciling and Stalled":                     {object(2, "False True True"), "Reconciling and Stalled are both True"},
		"Ready and Reconciling":                       {object(2, "True True False"), "Ready and Reconciling are both True"},
		"Ready and Stalled":                           {object(2, "True False True"), "Ready and Stalled are both True"},
		"nothing is True":                             {object(2, "False False False"), "none of Ready, Reconciling and Stalled is True"},
		"no message":                                  {object(2, "True False False", noMessage), "Ready has no message"},
		"no condition Stalled":                        {object(2, "True False"), "there is no condition Stalled"},
		"observed without conditions":                 {object(2, ""), "there are no conditions"},
		"a generation that does not exist":            {object(3, "True False False"), "was observed at generation 3 of 2"},
		"kubectl returns, kstatus still waits":        {object(2, "True False False", aheadOfStatus), "kubectl wait"},
		"Stalled, but the generation is not observed": {object(2, "False False True", aheadOfStatus), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := objectstatus.Contradictions(c.object)
			must(t, err)
			all := strings.Join(found, "; ")
			if c.want == "" && all != "" || !strings.Contains(all, c.want) {
				t.Errorf("found %q, want %q", all, c.want)
			}
		})
	}
}

// seen waits until a number of versions was seen.
func seen(t *testing.T, recorder *objectstatus.Recorder, count int) {
	t.Helper()
	wait.UntilNone(t, func() string {
		if now := recorder.Count(); now < count {
			return fmt.Sprintf("%d versions were seen, want %d", now, count)
		}
		return ""
	})
}

func TestRecorder_SeesEveryVersion(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	plane := kubetest.New(t)
	clients, err := kubernetes.NewForConfig(plane.Access())
	must(t, err)
	if _, err := clients.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	dynamics, err := dynamic.NewForConfig(plane.Access())
	must(t, err)
	accounts := dynamics.Resource(v1alpha1.GroupVersion.WithResource("mediaaccounts")).Namespace("team-a")
	var reported []string
	recorder, err := objectstatus.Start(plane.Access(), "team-a", func(format string, args ...any) { reported = append(reported, fmt.Sprintf(format, args...)) }, t.Logf)
	must(t, err)
	made, err := accounts.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "mediastack.dev/v1alpha1", "kind": "MediaAccount", "metadata": map[string]any{"name": "demo"}, "spec": map[string]any{},
	}}, metav1.CreateOptions{})
	must(t, err)
	versions := []string{made.GetResourceVersion()}
	write := func(statuses string) {
		made.Object["status"] = object(made.GetGeneration(), statuses).Object["status"]
		if made, err = accounts.UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		versions = append(versions, made.GetResourceVersion())
	}
	for range 20 {
		write("False True False")
		write("True False False")
	}
	// A watch that breaks goes on. What is written before it is back may be missed.
	seen(t, recorder, len(versions))
	plane.KillAPIServer()
	plane.StartAPIServer()
	write("False True False")
	seen(t, recorder, len(versions))
	write("False True True") // for a moment only
	write("True False False")
	recorder.Close()
	var got []string
	for _, version := range recorder.Versions("MediaAccount", "demo") {
		got = append(got, version.GetResourceVersion())
	}
	if !slices.Equal(got, versions) {
		t.Errorf("versions %v were written, %v were seen", versions, got)
	}
	if len(reported) != 1 || !strings.Contains(reported[0], "Reconciling and Stalled are both True") {
		t.Errorf("reported: %q", reported)
	}
}
