package charts_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"mediastack.dev/hack/testenv"
)

// passed is the grade of a check of kube-score that finds nothing.
const passed = 10

// scored is an object in the output of kube-score.
type scored struct {
	Name   string `json:"object_name"`
	Checks []struct {
		Check struct {
			ID string `json:"id"`
		} `json:"check"`
		Grade    int  `json:"grade"`
		Skipped  bool `json:"skipped"`
		Comments []struct {
			Path    string `json:"path"`
			Summary string `json:"summary"`
		} `json:"comments"`
	} `json:"checks"`
}

// score runs kube-score on manifests.
func score(t *testing.T, manifests string) (objects []scored) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "manifests.yaml")
	must(t, os.WriteFile(path, []byte(manifests), 0o600))
	out, err := exec.CommandContext(t.Context(), testenv.KubeScore(t), "score", "--kubernetes-version=v1.30", "--output-format=json", path).Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) { // it exits with 1 if it finds something
		t.Fatal(err)
	}
	must(t, json.Unmarshal(out, &objects))
	return objects
}

// exception is a row of the table of kube-score in the chart's README.
var exception = regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| (.+) \\|$")

// Every finding of kube-score is explained in the chart's README, which explains no other.
func TestRender_KubeScoreFindsOnlyWhatTheREADMEExplains(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(filepath.Join(chart(t), "README.md"))
	must(t, err)
	_, section, _ := strings.Cut(string(readme), "\n## kube-score\n")
	section, _, _ = strings.Cut(section, "\n## ")
	reasons, used := map[string]string{}, map[string]bool{}
	for _, row := range exception.FindAllStringSubmatch(section, -1) {
		reasons[row[1]] = row[2]
	}
	for name, args := range renderings {
		text, err := render(t, args...)
		must(t, err)
		checks := 0
		for _, object := range score(t, text) {
			for _, check := range object.Checks {
				checks++
				if check.Skipped || check.Grade >= passed {
					continue
				}
				reason, explained := reasons[check.Check.ID]
				if used[check.Check.ID] = true; !explained || strings.HasPrefix(reason, "Trial stores: ") && !strings.Contains(object.Name, "-trial-") {
					t.Errorf("%s: %s: %s: %v", name, object.Name, check.Check.ID, check.Comments)
				}
			}
		}
		if checks < 100 {
			t.Errorf("%s: kube-score made %d checks only", name, checks)
		}
	}
	for check := range reasons {
		if !used[check] {
			t.Errorf("the README explains %s, which finds nothing", check)
		}
	}
}
