// Package testevents reads the events that `go test -json` and `gotestsum --jsonfile` write. The reports of
// hack/suitetimes and the rounds of hack/flaky come from it.
package testevents

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// Run is what the events of one file tell: a run of tests, and the repetitions of the tests that failed in it.
type Run struct {
	// Packages are in the order in which they were started.
	Packages []*Package
	// Failures are in the order in which they happened. A test that failed because of its subtests is left out, and
	// a test that failed twice is in it twice.
	Failures []Failure

	byName map[string]*Package
}

// Package is a package with tests, or one without any.
type Package struct {
	Name string
	// Elapsed is the time from start to end of the package's program, summed over its runs.
	Elapsed time.Duration
	// Tests are in the order in which they were started. Subtests are among them.
	Tests []*Test

	byName   map[string]*Test
	failures []Failure // those of the run that has not ended
}

// Test is a test or a subtest.
type Test struct {
	Package string
	Name    string // with a subtest's parents: TestParent/child
	// Elapsed is the time that go test reports, summed over the test's runs: without waits in t.Parallel, and
	// without subtests that are parallel.
	Elapsed time.Duration
	// Parallel is true if the test called t.Parallel.
	Parallel bool
	// Runs and Failed count how often the test ended, and how often it failed.
	Runs, Failed int
	// Outcome is that of the last run: Passed, Skipped, Failed, or empty if it did not end.
	Outcome Outcome

	running bool
}

// Outcome is how a test or package ended.
type Outcome string

// The outcomes, which are also the actions of the events.
const (
	Passed  Outcome = "pass"
	Skipped Outcome = "skip"
	Failed  Outcome = "fail"
)

// Failure is a test that failed, or a package that failed without one: then Test is empty.
type Failure struct {
	Package, Test string
	Reason        string
}

// The reasons of failures.
const (
	ReasonFailed  = "failed"
	ReasonUnended = "did not end (panic, timeout or exit)"
	ReasonBuild   = "does not build"
	ReasonOutside = "failed outside its tests"
)

// subtestDivider is between the name of a test and that of its subtest.
const subtestDivider = "/"

// String names the test and what happened.
func (f Failure) String() string {
	return strings.Join(strings.Fields(f.Package+" "+f.Test+" "+f.Reason), " ")
}

// event is one line.
type event struct {
	Action      string
	Package     string
	Test        string
	Elapsed     float64 // seconds
	FailedBuild string
}

// ReadFile reads a file of events. With an error it returns what came before.
func ReadFile(path string) (*Run, error) {
	file, err := os.Open(path)
	if err != nil {
		return &Run{}, err
	}
	defer file.Close()
	run, err := Read(file)
	if err != nil {
		return run, fmt.Errorf("%s: %w", path, err)
	}
	return run, nil
}

// Read reads events until the end. With an error it returns what came before.
func Read(from io.Reader) (*Run, error) {
	run := &Run{byName: map[string]*Package{}}
	defer run.finish()
	lines := bufio.NewReader(from)
	for number := 1; ; number++ {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var one event
			if wrong := json.Unmarshal(line, &one); wrong != nil {
				return run, fmt.Errorf("line %d is no event of go test -json: %w", number, wrong)
			}
			if one.Action == "" {
				return run, fmt.Errorf("line %d is no event of go test -json: it has no action", number)
			}
			run.add(one)
		}
		if errors.Is(err, io.EOF) {
			return run, nil
		}
		if err != nil {
			return run, err
		}
	}
}

// add takes an event in. Those of builds have no package; the package that could not be built has its own.
func (r *Run) add(one event) {
	if one.Package == "" {
		return
	}
	pkg := r.pkg(one.Package)
	if one.Test == "" {
		r.endPackage(pkg, one)
		return
	}
	test := pkg.test(one.Test)
	switch one.Action {
	case "run", "cont":
		test.running = true
	case "pause":
		test.running, test.Parallel = false, true
	case string(Passed), string(Skipped), string(Failed):
		test.running = false
		test.Runs++
		test.Elapsed += duration(one.Elapsed)
		test.Outcome = Outcome(one.Action)
		if test.Outcome == Failed {
			test.Failed++
			pkg.fail(test.Name, ReasonFailed)
		}
	}
}

// endPackage takes the end of a package in. Tests that still ran then did not end.
func (r *Run) endPackage(pkg *Package, one event) {
	switch Outcome(one.Action) {
	case Failed:
		for _, test := range pkg.Tests {
			if test.running {
				test.Outcome = ""
			}
		}
		// The innermost of them first, so that fail leaves out its parents.
		for i := len(pkg.Tests) - 1; i >= 0; i-- {
			if pkg.Tests[i].running {
				pkg.fail(pkg.Tests[i].Name, ReasonUnended)
			}
		}
		if one.FailedBuild != "" {
			pkg.failures = append(pkg.failures, Failure{Package: pkg.Name, Reason: ReasonBuild})
		} else if len(pkg.failures) == 0 {
			pkg.failures = append(pkg.failures, Failure{Package: pkg.Name, Reason: ReasonOutside})
		}
	case Passed, Skipped:
	default:
		return
	}
	for _, test := range pkg.Tests {
		test.running = false
	}
	pkg.Elapsed += duration(one.Elapsed)
	r.Failures = append(r.Failures, pkg.failures...)
	pkg.failures = nil
}

// fail adds a failure of a test, unless it only repeats that of a subtest, which ends first.
func (p *Package) fail(test, reason string) {
	for _, failure := range p.failures {
		if strings.HasPrefix(failure.Test, test+subtestDivider) {
			return
		}
	}
	p.failures = append(p.failures, Failure{p.Name, test, reason})
}

// finish takes in that no more events come: the failures of packages that did not end count, too.
func (r *Run) finish() {
	for _, pkg := range r.Packages {
		r.Failures = append(r.Failures, pkg.failures...)
		pkg.failures = nil
	}
}

// Unstable returns the tests that failed and passed when they ran again, without those whose subtests did.
func (r *Run) Unstable() []*Test {
	var unstable []*Test
	for _, pkg := range r.Packages {
		for _, test := range pkg.Tests {
			if test.recovered() && !pkg.hasSubtest(test.Name, (*Test).recovered) {
				unstable = append(unstable, test)
			}
		}
	}
	return unstable
}

func (t *Test) recovered() bool { return t.Failed > 0 && t.Outcome == Passed }

// IsSubtest reports whether the test is one of another test.
func (t *Test) IsSubtest() bool { return strings.Contains(t.Name, subtestDivider) }

func (p *Package) hasSubtest(name string, of func(*Test) bool) bool {
	for _, test := range p.Tests {
		if strings.HasPrefix(test.Name, name+subtestDivider) && of(test) {
			return true
		}
	}
	return false
}

func (r *Run) pkg(name string) *Package {
	pkg, ok := r.byName[name]
	if !ok {
		pkg = &Package{Name: name, byName: map[string]*Test{}}
		r.byName[name] = pkg
		r.Packages = append(r.Packages, pkg)
	}
	return pkg
}

func (p *Package) test(name string) *Test {
	test, ok := p.byName[name]
	if !ok {
		test = &Test{Package: p.Name, Name: name}
		p.byName[name] = test
		p.Tests = append(p.Tests, test)
	}
	return test
}

func duration(seconds float64) time.Duration {
	return time.Duration(seconds * float64(time.Second))
}
