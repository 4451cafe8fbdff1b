package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/testenv/check"
)

var must = check.NoError

// Baselines are this program, started again: here, the test.
func TestMain(m *testing.M) {
	runBaseline()
	os.Exit(m.Run())
}

// tiny are options with which a whole run takes seconds. What it measures means nothing.
func tiny(t *testing.T) options {
	t.Helper()
	dir, err := servers.MakeDataDir("", "bench-test-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return options{Clients: 4, Rounds: 1, Length: 90 * time.Millisecond, Items: 3000, Active: 5, Rate: 100, DatabaseMemory: 128, Calls: 5, Photos: 2, Megapixels: 0.02, Deletes: 20, Events: 2000, Gated: 10, Drafts: 200, Idle: 200 * time.Millisecond,
		Pace: 100, Uploads: 4, UploadBytes: 20_000_000, EagerItems: 60, EagerRate: 1000, Accounts: 10, ResumableBytes: 20 << 20, LogLevel: "info", Dir: dir, volatile: true, quiet: 300 * time.Millisecond}
}

func TestBenchmarks_MeasureAndReport(t *testing.T) {
	t.Parallel()
	env, err := startEnvironment(t.Context(), tiny(t), countedStatements)
	must(t, err)
	defer env.close()
	for _, one := range benchmarks {
		t.Run(one.name, func(t *testing.T) {
			var out bytes.Buffer
			found := newReport(&out, &out)
			err := one.run(t.Context(), &bench{options: env.options, report: found, env: env, name: one.name})
			if errors.Is(err, errNoMemoryGroup) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatalf("%v\n%s\n%s", err, env.warnings(), out.String())
			}
			targets := 0
			for _, figure := range found.results {
				if !(figure.Value > 0) || math.IsInf(figure.Value, 0) || figure.Min > figure.Value || figure.Max < figure.Value {
					t.Errorf("%s: %+v", figure.Case, figure)
				}
				if figure.Target != nil {
					targets++
				}
			}
			if targets == 0 {
				t.Error("no figure has a target")
			}
			found.summary()
			if text := out.String(); !strings.Contains(text, "== summary") {
				t.Error(text)
			}
		})
	}
}

func TestReport_WritesJSON(t *testing.T) {
	t.Parallel()
	found := newReport(&bytes.Buffer{}, &bytes.Buffer{})
	found.add(result{Benchmark: "a", Case: "wants more", Target: minimum(0.9)}, 0.95, 0.7, 0.8)
	found.add(result{Benchmark: "a", Case: "wants less", Target: maximum(1.5)}, 1.2, 1.6)
	found.add(result{Benchmark: "a", Case: "wants nothing"}, 3)
	path := filepath.Join(t.TempDir(), "results.json")
	must(t, found.write(path, options{Items: 7}))
	content, err := os.ReadFile(path)
	must(t, err)
	var read struct {
		Options struct{ Items int }
		Results []result
	}
	must(t, json.Unmarshal(content, &read))
	if read.Options.Items != 7 || len(read.Results) != 3 {
		t.Fatalf("%s", content)
	}
	more, less, nothing := read.Results[0], read.Results[1], read.Results[2]
	if more.Value != 0.8 || more.Min != 0.7 || more.Max != 0.95 || *more.Met || more.targetText() != "MISSED" {
		t.Errorf("%+v", more)
	}
	if math.Abs(less.Value-1.4) > 1e-9 || !*less.Met || less.targetText() != "met" {
		t.Errorf("%+v", less)
	}
	if nothing.Met != nil || nothing.targetText() != "-" {
		t.Errorf("%+v", nothing)
	}
}

func TestOptions_RejectInvalidValues(t *testing.T) {
	t.Parallel()
	good := tiny(t)
	must(t, good.validate())
	for name, spoil := range map[string]func(*options){
		"an unknown benchmark": func(o *options) { o.Names = []string{"upload", "nonsense"} },
		"no clients":           func(o *options) { o.Clients = 0 },
		"no length":            func(o *options) { o.Length = 0 },
		"too few items":        func(o *options) { o.Items = 999 },
		"fewer than none":      func(o *options) { o.Creations = -1 },
		"no pixels":            func(o *options) { o.Megapixels = 0 },
	} {
		bad := good
		spoil(&bad)
		if bad.validate() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
