package testevents_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/testevents"
)

// read reads events that have no mistake.
func read(t *testing.T, text string) *testevents.Run {
	t.Helper()
	run, err := testevents.Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func failures(run *testevents.Run) []string {
	var names []string
	for _, failure := range run.Failures {
		names = append(names, failure.String())
	}
	return names
}

func unstable(run *testevents.Run) []string {
	var names []string
	for _, test := range run.Unstable() {
		names = append(names, test.Package+" "+test.Name)
	}
	return names
}

func expect(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q instead of %q", what, got, want)
	}
}

// What gotestsum writes if a subtest fails, and passes when it runs again.
const rerun = `{"Action":"start","Package":"p/a"}
{"Action":"run","Package":"p/a","Test":"TestX"}
{"Action":"output","Package":"p/a","Test":"TestX","Output":"=== RUN   TestX\n"}
{"Action":"run","Package":"p/a","Test":"TestX/sub"}
{"Action":"fail","Package":"p/a","Test":"TestX/sub","Elapsed":1.5}
{"Action":"fail","Package":"p/a","Test":"TestX","Elapsed":2}
{"Action":"run","Package":"p/a","Test":"TestBroken"}
{"Action":"fail","Package":"p/a","Test":"TestBroken","Elapsed":0.25}
{"Action":"run","Package":"p/a","Test":"TestParallel"}
{"Action":"pause","Package":"p/a","Test":"TestParallel"}
{"Action":"cont","Package":"p/a","Test":"TestParallel"}
{"Action":"pass","Package":"p/a","Test":"TestParallel","Elapsed":3}
{"Action":"run","Package":"p/a","Test":"TestSkipped"}
{"Action":"skip","Package":"p/a","Test":"TestSkipped","Elapsed":0}
{"Action":"output","Package":"p/a","Output":"FAIL\n"}
{"Action":"fail","Package":"p/a","Elapsed":6}
{"Action":"start","Package":"p/a"}
{"Action":"run","Package":"p/a","Test":"TestX"}
{"Action":"run","Package":"p/a","Test":"TestX/sub"}
{"Action":"pass","Package":"p/a","Test":"TestX/sub","Elapsed":1}
{"Action":"pass","Package":"p/a","Test":"TestX","Elapsed":1}
{"Action":"pass","Package":"p/a","Elapsed":1.5}
{"Action":"start","Package":"p/a"}
{"Action":"run","Package":"p/a","Test":"TestBroken"}
{"Action":"fail","Package":"p/a","Test":"TestBroken","Elapsed":0.25}
{"Action":"fail","Package":"p/a","Elapsed":0.5}
`

func TestRead_SumsTheRunsOfATest(t *testing.T) {
	t.Parallel()
	run := read(t, rerun)
	if len(run.Packages) != 1 || run.Packages[0].Name != "p/a" || run.Packages[0].Elapsed != 8*time.Second {
		t.Fatalf("the packages are %+v", run.Packages)
	}
	want := []testevents.Test{
		{Package: "p/a", Name: "TestX", Elapsed: 3 * time.Second, Runs: 2, Failed: 1, Outcome: testevents.Passed},
		{Package: "p/a", Name: "TestX/sub", Elapsed: 2500 * time.Millisecond, Runs: 2, Failed: 1, Outcome: testevents.Passed},
		{Package: "p/a", Name: "TestBroken", Elapsed: 500 * time.Millisecond, Runs: 2, Failed: 2, Outcome: testevents.Failed},
		{Package: "p/a", Name: "TestParallel", Elapsed: 3 * time.Second, Parallel: true, Runs: 1, Outcome: testevents.Passed},
		{Package: "p/a", Name: "TestSkipped", Runs: 1, Outcome: testevents.Skipped},
	}
	var got []testevents.Test
	for _, test := range run.Packages[0].Tests {
		got = append(got, *test)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the tests are\n%+v instead of\n%+v", got, want)
	}
	if run.Packages[0].Tests[0].IsSubtest() || !run.Packages[0].Tests[1].IsSubtest() {
		t.Error("TestX is a subtest, or TestX/sub is none")
	}
}

func TestRead_NamesTheInnermostFailedTests(t *testing.T) {
	t.Parallel()
	run := read(t, rerun)
	expect(t, "failures", failures(run), []string{"p/a TestX/sub failed", "p/a TestBroken failed", "p/a TestBroken failed"})
	expect(t, "unstable tests", unstable(run), []string{"p/a TestX/sub"})
}

func TestRead_NamesFailuresWithoutAFailedTest(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		events string
		want   []string
	}{
		"a build error": {`{"ImportPath":"p/b [p/b.test]","Action":"build-output","Output":"undefined: x\n"}
{"ImportPath":"p/b [p/b.test]","Action":"build-fail"}
{"Action":"start","Package":"p/b"}
{"Action":"fail","Package":"p/b","Elapsed":0,"FailedBuild":"p/b [p/b.test]"}`,
			[]string{"p/b does not build"}},
		"a timeout, while one test runs and another one waits for it": {`{"Action":"run","Package":"p/b","Test":"TestWaits"}
{"Action":"pause","Package":"p/b","Test":"TestWaits"}
{"Action":"run","Package":"p/b","Test":"TestHangs"}
{"Action":"run","Package":"p/b","Test":"TestHangs/sub"}
{"Action":"fail","Package":"p/b","Elapsed":2}`,
			[]string{"p/b TestHangs/sub did not end (panic, timeout or exit)"}},
		"a program that exits after its tests": {`{"Action":"run","Package":"p/b","Test":"TestX"}
{"Action":"pass","Package":"p/b","Test":"TestX","Elapsed":2}
{"Action":"fail","Package":"p/b","Elapsed":2}`,
			[]string{"p/b failed outside its tests"}},
		"an end of the events after a failed test": {`{"Action":"run","Package":"p/b","Test":"TestX"}
{"Action":"fail","Package":"p/b","Test":"TestX","Elapsed":2}`,
			[]string{"p/b TestX failed"}},
		"success": {`{"Action":"run","Package":"p/b","Test":"TestX"}
{"Action":"pass","Package":"p/b","Test":"TestX","Elapsed":2}
{"Action":"pass","Package":"p/b","Elapsed":2}
{"Action":"start","Package":"p/none"}
{"Action":"skip","Package":"p/none","Elapsed":0}`,
			nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expect(t, "failures", failures(read(t, test.events)), test.want)
		})
	}
}

func TestRead_KeepsWhatComesBeforeALineThatIsNoEvent(t *testing.T) {
	t.Parallel()
	const before = `{"Action":"run","Package":"p","Test":"TestX"}
{"Action":"fail","Package":"p","Test":"TestX"}
`
	for _, wrong := range []string{`{"Action":"pa`, `no JSON`, `{"Package":"p"}`, `[]`, "\n"} {
		run, err := testevents.Read(strings.NewReader(before + wrong))
		if err == nil || !strings.Contains(err.Error(), "line 3 ") {
			t.Errorf("%q: the error is %v", wrong, err)
		}
		expect(t, "failures", failures(run), []string{"p TestX failed"})
	}
}

func TestReadFile_NamesTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.json")
	if _, err := testevents.ReadFile(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("the error for a missing file is %v", err)
	}
	if err := os.WriteFile(path, []byte("no JSON"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := testevents.ReadFile(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("the error for a malformed file is %v", err)
	}
}
