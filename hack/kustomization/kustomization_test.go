package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
)

var must = check.NoError

func TestMain(m *testing.M) { testenv.Main(m) }

// rendered is what Helm renders: the chart of the repository with its default values.
func rendered(t *testing.T) string {
	t.Helper()
	text, err := render(testenv.RepoRoot(t), testenv.Helm(t))
	must(t, err)
	return text
}

func TestFiles_OfTheRepositoryAreUpToDate(t *testing.T) {
	t.Parallel()
	written, err := convert(rendered(t))
	must(t, err)
	for name, text := range written {
		is, err := os.ReadFile(filepath.Join(testenv.RepoRoot(t), "config", name))
		must(t, err)
		if string(is) != string(text) {
			t.Errorf("config/%s is out of date: change charts/mediastack and run `make generate`", name)
		}
	}
	if len(written) < 20 {
		t.Errorf("there are %d files only", len(written))
	}
}

// Nothing of Helm is left, and nothing else is missing: the rest of an object is as it was rendered.
func TestConvert_RemovesWhatOnlyHelmNeeds(t *testing.T) {
	t.Parallel()
	written, err := convert(strings.Replace(rendered(t), "kind: Deployment\nmetadata:\n  name: mediastack-runtime", "kind: Deployment\nmetadata:\n  annotations: {kept: here}\n  name: mediastack-runtime", 1))
	must(t, err)
	all := ""
	for _, text := range written {
		if !strings.HasPrefix(string(text), header) {
			t.Errorf("a file begins with %.80s", text)
		}
		all += string(text)
	}
	for _, helms := range []string{"helm.sh", "Helm", "app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "app.kubernetes.io/version", "checksum", "# Source", "image: mediastack/runtime:"} {
		if strings.Contains(all, helms) {
			t.Errorf("the files contain %s", helms)
		}
	}
	for _, kept := range []string{"annotations: {kept: here}", "kubectl.kubernetes.io/default-container: runtime", "rbac.authorization.k8s.io/aggregate-to-view", "image: mediastack/runtime\n", "# DNS\n"} {
		if !strings.Contains(all, kept) {
			t.Errorf("the files lack %s", kept)
		}
	}
}

func TestConvert_ObjectsWithoutAFileAreNamed(t *testing.T) {
	t.Parallel()
	text := rendered(t)
	for name, test := range map[string]struct{ text, want string }{
		"a new object":     {text + "\n---\napiVersion: v1\nkind: Service\nmetadata:\n  name: mediastack-new\n", "no file of config/ has the Service mediastack-new of the chart"},
		"a hook":           {text + "\n---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: mediastack-hook\n  annotations:\n    helm.sh/hook: test\n", ""},
		"a missing object": {strings.Replace(text, "kind: CronJob", "kind: Job", 1), "the chart does not have the CronJob mediastack-purge of config/runtime/purge.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := convert(test.text)
			if (test.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, not %q", err, test.want)
			}
		})
	}
}
