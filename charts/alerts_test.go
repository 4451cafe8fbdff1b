package charts_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"mediastack.dev/hack/testenv"
)

// promtoolTimeout is for one run of promtool, which takes two seconds.
const promtoolTimeout = 4 * time.Minute

// alert is an alert of the chart.
type alert struct {
	Alert       string
	Expr        string
	Labels      map[string]string
	Annotations map[string]string
}

// alertRules returns the alerts of the rendered PrometheusRule, and its specification, which is a file
// of rules.
func alertRules(t *testing.T, args ...string) (alerts []alert, file []byte) {
	t.Helper()
	rule := find(t, objects(t, append([]string{"--set=monitoring.rules=true"}, args...)...), "PrometheusRule", "mediastack")
	spec, found, err := unstructured.NestedMap(rule.Object, "spec")
	must(t, err)
	if !found {
		t.Fatal("the PrometheusRule has no spec")
	}
	file, err = yaml.Marshal(spec)
	must(t, err)
	var parsed struct{ Groups []struct{ Rules []alert } }
	must(t, yaml.Unmarshal(file, &parsed))
	for _, group := range parsed.Groups {
		alerts = append(alerts, group.Rules...)
	}
	return alerts, file
}

// alertTests is charts/testdata/alerts_test.yaml, as far as the tests read it.
type alertTests struct {
	Tests []struct {
		Name        string
		InputSeries []struct{ Series string } `json:"input_series"`
		Expressions []struct {
			Expr       string
			ExpSamples []struct{ Labels string } `json:"exp_samples"`
		} `json:"promql_expr_test"`
	}
}

func TestAlerts_FireAndRest(t *testing.T) {
	t.Parallel()
	alerts, rules := alertRules(t)
	text, err := os.ReadFile(filepath.Join("testdata", "alerts_test.yaml"))
	must(t, err)
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "rules.yaml"), rules, 0o600))
	testenv.Run(t, promtoolTimeout, dir, testenv.Promtool(t), "check", "rules", "--lint=all", "--lint-fatal", "rules.yaml")
	testenv.Run(t, promtoolTimeout, dir, testenv.Promtool(t), append([]string{"test", "rules"}, splitTests(t, dir, rules, text)...)...)

	var tests alertTests
	must(t, yaml.Unmarshal(text, &tests))
	for _, one := range alerts {
		if !tests.fires(one.Alert) {
			t.Errorf("testdata/alerts_test.yaml does not test that %s is silent at first, and then fires", one.Alert)
		}
		for _, metric := range metricsOf(one.Expr) {
			if !tests.healthy(metric) {
				t.Errorf("the test of the healthy case has no series of %s, which %s uses", metric, one.Alert)
			}
		}
	}
	if len(alerts) < 25 {
		t.Errorf("there are %d alerts only", len(alerts))
	}
}

// splitTests writes each test into a file of its own, with a file of the rules that it names, and returns the names of the
// files. promtool evaluates all rules of a test for each of its minutes: all of them in each test take ten times as long.
// A test that names no alert is of all rules.
func splitTests(t *testing.T, dir string, rules, text []byte) (files []string) {
	t.Helper()
	var of struct{ Groups []map[string]any }
	must(t, yaml.Unmarshal(rules, &of))
	var all map[string]any
	must(t, yaml.Unmarshal(text, &all))
	for i, test := range all["tests"].([]any) {
		content, err := yaml.Marshal(test)
		must(t, err)
		named := map[string]bool{}
		for _, name := range alertName.FindAllString(string(content), -1) {
			named[name] = true
		}
		var groups []map[string]any
		for _, group := range of.Groups {
			kept := maps.Clone(group)
			kept["rules"] = slices.DeleteFunc(slices.Clone(group["rules"].([]any)), func(rule any) bool {
				name, _ := rule.(map[string]any)["alert"].(string)
				return len(named) > 0 && !named[name]
			})
			groups = append(groups, kept)
		}
		one := maps.Clone(all)
		one["tests"], one["rule_files"] = []any{test}, []string{fmt.Sprintf("rules-%d.yaml", i)}
		file := fmt.Sprintf("test-%d.yaml", i)
		for name, document := range map[string]any{file: one, fmt.Sprintf("rules-%d.yaml", i): map[string]any{"groups": groups}} {
			content, err := yaml.Marshal(document)
			must(t, err)
			must(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
		}
		files = append(files, file)
	}
	return files
}

// alertName matches the names of the chart's alerts.
var alertName = regexp.MustCompile(`Mediastack\w+`)

// fires reports whether a test expects that an alert does not fire, and then that it does.
func (a alertTests) fires(alert string) bool {
	for _, test := range a.Tests {
		if name, _, _ := strings.Cut(test.Name, " "); name != alert || len(test.Expressions) < 2 {
			continue
		}
		first, last := test.Expressions[0], test.Expressions[len(test.Expressions)-1]
		if strings.Contains(first.Expr, `"`+alert+`"`) && first.Expr == last.Expr && len(first.ExpSamples) == 0 && len(last.ExpSamples) == 1 {
			return true
		}
	}
	return false
}

// healthy reports whether the test in which nothing fires has a metric.
func (a alertTests) healthy(metric string) bool {
	for _, test := range a.Tests {
		for _, series := range test.InputSeries {
			if test.Name == "healthy" && strings.HasPrefix(series.Series, metric+"{") {
				return true
			}
		}
	}
	return false
}

// selector is a metric with its labels in a query. Every query of the project selects by labels.
var selector = regexp.MustCompile(`([a-zA-Z_]\w*)\{`)

// metricsOf returns the metrics that a query selects.
func metricsOf(query string) (names []string) {
	for _, match := range selector.FindAllStringSubmatch(query, -1) {
		names = append(names, match[1])
	}
	return names
}

// runbookSection matches a section of docs/guides/runbooks.md.
var runbookSection = regexp.MustCompile(`(?m)^### (Mediastack\w+)\n((?:[^#\n].*\n|\n)*)`)

// pasted matches a block of commands in a section, searched what one of them looks for in the metrics.
var (
	pasted   = regexp.MustCompile("(?m)^  ```sh example\n((?:  .+\n)*  kubectl (?:.*\n)(?:  .+\n)*?)  ```$")
	searched = regexp.MustCompile(`/metrics \| grep -E '([^']+)'`)
)

// Each alert has a section that says what it means, how to see it, what to do and when it is over.
func TestAlerts_HaveARunbook(t *testing.T) {
	t.Parallel()
	const base = "https://docs.example.org/runbooks"
	page, err := os.ReadFile(filepath.Join(testenv.RepoRoot(t), "docs", "guides", "runbooks.md"))
	must(t, err)
	sections := map[string]string{}
	for _, match := range runbookSection.FindAllStringSubmatch(string(page), -1) {
		sections[match[1]] = "\n" + match[2]
	}
	alerts, _ := alertRules(t)
	known := documentedMetrics(t)
	published, _ := alertRules(t, "--set=monitoring.runbookURL="+base)
	for i, one := range alerts {
		anchor := "#" + strings.ToLower(one.Alert)
		if got := one.Annotations["runbook"]; got != "docs/guides/runbooks.md"+anchor {
			t.Errorf("%s: the annotation runbook is %q", one.Alert, got)
		}
		if got := published[i].Annotations["runbook_url"]; got != base+anchor {
			t.Errorf("%s: the annotation runbook_url is %q", one.Alert, got)
		}
		section, found := sections[one.Alert]
		if found {
			commands := pasted.FindStringSubmatch(section)
			if commands == nil {
				t.Errorf("the section of %s has no command to paste", one.Alert)
				continue
			}
			if out, err := exec.CommandContext(t.Context(), "bash", "-n", "-c", commands[1]).CombinedOutput(); err != nil {
				t.Errorf("the shell does not understand the commands of %s: %s", one.Alert, out)
			}
			for _, match := range searched.FindAllStringSubmatch(commands[1], -1) {
				pattern, err := regexp.Compile(match[1])
				must(t, err)
				if !slices.ContainsFunc(known, pattern.MatchString) {
					t.Errorf("a command of %s looks for %s, which no metric has", one.Alert, match[1])
				}
			}
		}
		for _, part := range []string{"Meaning", "See it", "Do", "Over"} {
			if found && !strings.Contains(section, "\n- **"+part+":** ") {
				t.Errorf("the section of %s has no part %q", one.Alert, part)
			}
		}
		if !found {
			t.Errorf("docs/guides/runbooks.md has no section %s", one.Alert)
		}
		delete(sections, one.Alert)
		if !slices.Contains([]string{"critical", "warning", "info"}, one.Labels["severity"]) || one.Annotations["summary"] == "" || one.Annotations["description"] == "" {
			t.Errorf("%s lacks a severity, a summary or a description", one.Alert)
		}
	}
	for name := range sections {
		t.Errorf("docs/guides/runbooks.md has a section %s, and there is no such alert", name)
	}
}

// documentedMetric is a row of docs/reference/metrics.md.
var documentedMetric = regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (\\w+) \\|")

// notOurs are the metrics of Prometheus, of the library's collectors and of kube-state-metrics.
var notOurs = []string{
	"up", "process_start_time_seconds", "process_cpu_seconds_total", "process_resident_memory_bytes",
	"kube_node_info", "kube_node_labels", "kube_pod_info", "kube_pod_status_ready",
}

// documentedMetrics returns the names of the metrics that may be used.
func documentedMetrics(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(testenv.RepoRoot(t), "docs", "reference", "metrics.md"))
	must(t, err)
	known := slices.Clone(notOurs)
	for _, match := range documentedMetric.FindAllStringSubmatch(string(page), -1) {
		known = append(known, match[1])
		if match[2] == "histogram" {
			known = append(known, match[1]+"_bucket", match[1]+"_sum", match[1]+"_count")
		}
	}
	return known
}

// variable is a variable in a query of the dashboard.
var variable = regexp.MustCompile(`\$\w+`)

// The alerts and the dashboard use the metrics of docs/reference/metrics.md, which tests compare with
// those that the programs export.
func TestMonitoring_UsesMetricsThatExist(t *testing.T) {
	t.Parallel()
	known := documentedMetrics(t)
	used := map[string]string{}
	alerts, _ := alertRules(t)
	for _, one := range alerts {
		for _, name := range metricsOf(one.Expr) {
			used[name] = one.Alert
		}
	}
	text, err := os.ReadFile(filepath.Join(chart(t), "files", "dashboard.json"))
	must(t, err)
	var dashboard struct {
		Templating struct{ List []struct{ Name string } }
		Panels     []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	must(t, json.Unmarshal(text, &dashboard))
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			for _, name := range metricsOf(target.Expr) {
				used[name] = "the panel " + panel.Title
			}
		}
	}
	variables := []string{"$namespace", "$__rate_interval"}
	for _, one := range dashboard.Templating.List {
		variables = append(variables, "$"+one.Name)
	}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			for _, name := range variable.FindAllString(target.Expr, -1) {
				if !slices.Contains(variables, name) {
					t.Errorf("the panel %s uses %s, which the dashboard does not have", panel.Title, name)
				}
			}
		}
	}
	for name, where := range used {
		if !slices.Contains(known, name) {
			t.Errorf("%s uses %s, which docs/reference/metrics.md does not have", where, name)
		}
	}
	if len(used) < 30 {
		t.Errorf("there are %d metrics only", len(used))
	}
}
