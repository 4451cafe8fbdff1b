package charts_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/kubetest"
)

// slothSpec is a specification of Sloth, as far as the tests read it.
type slothSpec struct {
	SLOs []struct {
		Name      string
		Objective float64
		SLI       struct {
			Events struct {
				Errors string `json:"error_query"`
				Total  string `json:"total_query"`
			}
		}
	}
}

// sloExample reads a file of docs/examples/slo.
func sloExample(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testenv.RepoRoot(t), "docs", "examples", "slo", name))
	must(t, err)
	return text
}

// The rules that Sloth made rest within the budget, and fire when it burns fast or slowly.
func TestSLO_BurnRatesFireAndRest(t *testing.T) {
	t.Parallel()
	tests, err := os.ReadFile(filepath.Join("testdata", "slo_test.yaml"))
	must(t, err)
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "rules.yaml"), sloExample(t, "rules.yaml"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "slo_test.yaml"), tests, 0o600))
	testenv.Run(t, promtoolTimeout, dir, testenv.Promtool(t), "check", "rules", "--lint=all", "--lint-fatal", "rules.yaml")
	testenv.Run(t, promtoolTimeout, dir, testenv.Promtool(t), "test", "rules", "slo_test.yaml")
}

// The rules have the queries of the specification with each window, and the metrics exist.
func TestSLO_RulesAreThoseOfTheSpecification(t *testing.T) {
	t.Parallel()
	var spec slothSpec
	must(t, yaml.Unmarshal(sloExample(t, "sloth.yaml"), &spec))
	var rules struct {
		Groups []struct {
			Rules []struct {
				Record, Expr string
				Labels       map[string]string
			}
		}
	}
	must(t, yaml.Unmarshal(sloExample(t, "rules.yaml"), &rules))
	known := documentedMetrics(t)
	windows := []string{"5m", "30m", "1h", "2h", "6h", "1d", "3d"}
	words := func(text string) string { return strings.ReplaceAll(strings.Join(strings.Fields(text), ""), ",", ", ") }
	for _, slo := range spec.SLOs {
		for _, name := range metricsOf(slo.SLI.Events.Errors + slo.SLI.Events.Total) {
			if !slices.Contains(known, name) {
				t.Errorf("%s: docs/reference/metrics.md has no %s", slo.Name, name)
			}
		}
		for _, window := range windows {
			want := words(strings.ReplaceAll("("+slo.SLI.Events.Errors+")/("+slo.SLI.Events.Total+")", "{{.window}}", window))
			found := false
			for _, group := range rules.Groups {
				for _, rule := range group.Rules {
					found = found || rule.Record == "slo:sli_error:ratio_rate"+window && rule.Labels["sloth_slo"] == slo.Name && words(rule.Expr) == want
				}
			}
			if !found {
				t.Errorf("rules.yaml lacks the ratio of %s in %s: run `sloth generate` again", slo.Name, window)
			}
		}
	}
	if len(spec.SLOs) != 2 {
		t.Errorf("there are %d service levels", len(spec.SLOs))
	}
}

// The objects of Pyrra have the targets and the metrics of the specification of Sloth.
func TestSLO_PyrraHasTheSameLevels(t *testing.T) {
	t.Parallel()
	var spec slothSpec
	must(t, yaml.Unmarshal(sloExample(t, "sloth.yaml"), &spec))
	all := kubetest.ParseManifests(t, string(sloExample(t, "pyrra.yaml")))
	for _, slo := range spec.SLOs {
		object := find(t, all, "ServiceLevelObjective", "mediastack-"+slo.Name)
		text, err := yaml.Marshal(object.Object["spec"])
		must(t, err)
		var level struct {
			Target      float64 `json:"target,string"`
			Description string
			Indicator   map[string]map[string]struct{ Metric string }
		}
		must(t, yaml.Unmarshal(text, &level))
		if level.Target != slo.Objective {
			t.Errorf("%s: Pyrra has the target %v, Sloth %v", slo.Name, level.Target, slo.Objective)
		}
		queries := slo.SLI.Events.Errors + slo.SLI.Events.Total
		for _, indicator := range level.Indicator {
			for role, query := range indicator {
				selector, _, _ := strings.Cut(query.Metric, ", le=")
				if !strings.Contains(queries, strings.TrimSuffix(selector, "}")) {
					t.Errorf("%s: the queries of Sloth do not have %s of Pyrra: %s", slo.Name, role, query.Metric)
				}
			}
		}
	}
}
