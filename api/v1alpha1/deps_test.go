package v1alpha1_test

import (
	"os/exec"
	"strings"
	"testing"
)

// Importing the API types must not pull in the operator or a Kubernetes client.
func TestPackage_ImportsApimachineryOnly(t *testing.T) {
	t.Parallel()
	needs := deps(t, "k8s.io/apimachinery/pkg/apis/meta/v1", "k8s.io/apimachinery/pkg/runtime", "k8s.io/apimachinery/pkg/api/resource")
	for path := range deps(t, "mediastack.dev/api/...") {
		standard := !strings.Contains(strings.SplitN(path, "/", 2)[0], ".")
		if !needs[path] && !standard && !strings.HasPrefix(path, "mediastack.dev/api/") {
			t.Errorf("the API types need %s", path)
		}
	}
}

func deps(t *testing.T, packages ...string) map[string]bool {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps"}, packages...)...).Output()
	if err != nil {
		t.Fatalf("go list -deps: %v", err)
	}
	found := map[string]bool{}
	for path := range strings.FieldsSeq(string(out)) {
		found[path] = true
	}
	return found
}
