package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mediastack.dev/hack/testenv/check"
)

var must = check.NoError

// program is the source of a small program, with each way to register a metric, by path.
var program = map[string]string{
	"runtime/limit/limit.go": `package limit
func (l *Limiter) Register(registry prometheus.Registerer, name, what string) error {
	return registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name + "_limit", Help: what + ": all."}, l.limit))
}
`,
	"runtime/media/media.go": `package media
var both = []string{"account", "name"}
var usedDesc = describe("mediastack_used_bytes", "Bytes in use.", both...)
var runsDesc = describe("mediastack_runs_total", "Runs.")
var moreDesc = prometheus.NewDesc("mediastack_more_total", "More.", append([]string{"class"}, both...), nil)
func describe(name, help string, labels ...string) *prometheus.Desc { return prometheus.NewDesc(name, help, labels, nil) }
func register(registry prometheus.Registerer, limiter *limit.Limiter) {
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	counters("mediastack_logins_total", "Logins: ok|error.", "outcome")
	limiter.Register(registry, "mediastack_uploads", "Uploads")
	prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "mediastack_seconds", Help: "Time.", Buckets: []float64{1}}, []string{"route"})
	prometheus.NewGauge(prometheus.GaugeOpts{Name: "mediastack_build_info", Help: "1.", ConstLabels: prometheus.Labels{"version": version}})
	prometheus.NewGauge(prometheus.GaugeOpts{Subsystem: "workqueue", Name: "depth", Help: "Of a library."})
	listen("mediastack_channel")
}
func listen(channel string) {}
`,
	"controllers/main.go": `package main
var info = prometheus.NewGauge(prometheus.GaugeOpts{Name: "mediastack_build_info", Help: "1.", ConstLabels: prometheus.Labels{"version": version}})
`,
}

const wanted = "| `mediastack_build_info` | gauge | `version` | 1 |\n" +
	"| `mediastack_logins_total` | counter | `outcome` | Logins: ok\\|error |\n" +
	"| `mediastack_more_total` | counter | `class`, `account`, `name` | More |\n" +
	"| `mediastack_runs_total` | counter | | Runs |\n" +
	"| `mediastack_seconds` | histogram | `route` | Time |\n" +
	"| `mediastack_uploads_limit` | gauge | | Uploads: all |\n" +
	"| `mediastack_used_bytes` | gauge | `account`, `name` | Bytes in use |\n"

// tree writes the program, with a change in one of its files.
func tree(t *testing.T, file, old, changed string) (root string) {
	t.Helper()
	root = t.TempDir()
	for name, text := range program {
		if name == file {
			if !strings.Contains(text, old) {
				t.Fatalf("%s has no %s", file, old)
			}
			text = strings.Replace(text, old, changed, 1)
		}
		must(t, os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755))
		must(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	return root
}

func TestTables_HaveWhatTheSourceRegisters(t *testing.T) {
	t.Parallel()
	found, err := read(tree(t, "", "", ""))
	must(t, err)
	all := tables(found)
	marker := "<!-- metrics mediastack_build_info mediastack_logins_total mediastack_more_total mediastack_runs_total mediastack_seconds mediastack_uploads_* mediastack_* -->\n"
	page, names, err := all.Fill(marker + "old\n<!-- /metrics -->\n")
	must(t, err)
	if want := marker + all.Head + wanted + "<!-- /metrics -->\n"; page != want {
		t.Errorf("the page is\n%s\ninstead of\n%s", page, want)
	}
	if len(names) != 7 {
		t.Errorf("there are %d metrics instead of 7", len(names))
	}
}

func TestRead_MistakesAreNamed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ file, old, changed, want string }{
		"two help texts":         {"controllers/main.go", `"1."`, `"One."`, "mediastack_build_info has two descriptions"},
		"two lists of labels":    {"controllers/main.go", `{"version": version}`, `{"commit": version}`, "mediastack_build_info has two descriptions"},
		"a help text in a value": {"runtime/media/media.go", `"Time."`, `text`, "the help text of mediastack_seconds is no constant text"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := read(tree(t, test.file, test.old, test.changed)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, not %q", err, test.want)
			}
		})
	}
}

// A test finds a help text that was changed without `make generate`, too.
func TestPages_OfTheRepositoryAreUpToDate(t *testing.T) {
	t.Parallel()
	found, err := read("../..")
	must(t, err)
	outdated, rows, err := tables(found).Outdated("../../docs/reference")
	must(t, err)
	if len(outdated) > 0 {
		t.Errorf("%q are out of date: run `make generate`", outdated)
	}
	if rows != len(found) || rows < 120 {
		t.Errorf("the tables have %d of %d metrics", rows, len(found))
	}
}
