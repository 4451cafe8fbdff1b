package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mediastack.dev/hack/testenv/check"
)

var must = check.NoError

const (
	stages = "cores=2\tprocess=1940\tgo=go1.26.8\tkind=warm\n" +
		"verify\t30\t20.125\t4.375\n" +
		"test\t60.04\t70\t10\n" +
		"everything\t100\t95\t15\n"
	document = "# Page\n<!-- suite-times cold -->\nnot measured yet\n<!-- /suite-times cold -->\n" +
		"between\n<!-- suite-times warm -->\nnot measured yet\n<!-- /suite-times warm -->\nafter\n"
)

// events are those of one package, with tests that all take a while.
func events(pkg string, tests ...string) string {
	var text strings.Builder
	for i, test := range tests {
		fmt.Fprintf(&text, `{"Action":"run","Package":%q,"Test":%q}`+"\n", pkg, test)
		fmt.Fprintf(&text, `{"Action":"pass","Package":%q,"Test":%q,"Elapsed":%d}`+"\n", pkg, test, i+1)
	}
	fmt.Fprintf(&text, `{"Action":"pass","Package":%q,"Elapsed":%d}`+"\n", pkg, 10*len(tests))
	return text.String()
}

// unstable is a package with a test that failed and passed, one that was skipped, and a parallel subtest.
const unstable = `{"Action":"run","Package":"mediastack.dev/b","Test":"TestUnstable"}
{"Action":"fail","Package":"mediastack.dev/b","Test":"TestUnstable","Elapsed":1}
{"Action":"run","Package":"mediastack.dev/b","Test":"TestGroup"}
{"Action":"run","Package":"mediastack.dev/b","Test":"TestGroup/serial"}
{"Action":"pass","Package":"mediastack.dev/b","Test":"TestGroup/serial","Elapsed":90}
{"Action":"run","Package":"mediastack.dev/b","Test":"TestGroup/parallel"}
{"Action":"pause","Package":"mediastack.dev/b","Test":"TestGroup/parallel"}
{"Action":"cont","Package":"mediastack.dev/b","Test":"TestGroup/parallel"}
{"Action":"pass","Package":"mediastack.dev/b","Test":"TestGroup/parallel","Elapsed":40}
{"Action":"pass","Package":"mediastack.dev/b","Test":"TestGroup","Elapsed":91}
{"Action":"skip","Package":"mediastack.dev/b","Test":"TestSkipped","Elapsed":0}
{"Action":"fail","Package":"mediastack.dev/b","Elapsed":50}
{"Action":"run","Package":"mediastack.dev/b","Test":"TestUnstable"}
{"Action":"pass","Package":"mediastack.dev/b","Test":"TestUnstable","Elapsed":2}
{"Action":"pass","Package":"mediastack.dev/b","Elapsed":3}
{"Action":"skip","Package":"mediastack.dev/none","Elapsed":0}
`

// folder makes a folder of files.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	return dir
}

func TestSuite_PrintsWhereTheTimeWent(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		stagesFile:       stages,
		"test.json":      events("mediastack.dev/a", "TestA", "TestB") + unstable,
		"test-race.json": events("mediastack.dev/a", "TestA"),
	})
	var out strings.Builder
	must(t, run([]string{"--dir", dir}, &out, io.Discard))
	const want = `A warm run on 2 cores with go1.26.8, where a process that does nothing takes 1.9 ms:

| stage | elapsed, s | processor time, s | share of elapsed |
|---|--:|--:|--:|
| verify | 30.0 | 24.5 | 30 % |
| test | 60.0 | 80.0 | 60 % |
| **everything** | 100.0 | 110.0 (95.0 user, 15.0 system) | 100 % |

Tests, with subtests. Packages run beside each other, so the sum of their times is longer than their stage:

| stage | packages | tests | skipped | failed | sum of the packages, s |
|---|--:|--:|--:|--:|--:|
| test-race | 1 | 1 | 0 | 0 | 10.0 |
| test | 2 | 7 | 1 | 1 | 73.0 |
| **all** | 3 | 8 | 1 | 1 | 83.0 |

The slowest 20 packages:

| package | stage | elapsed, s | tests |
|---|---|--:|--:|
| ±b± | test | 53.0 | 5 |
| ±a± | test | 20.0 | 2 |
| ±a± | test-race | 10.0 | 1 |

The slowest 20 tests. The time is that of ±go test±: that of a parallel test begins when it may continue, and has the time in which it waited for a processor. Subtests have rows of their own if they are parallel; the others are part of their parents:

| test | package | stage | elapsed, s | parallel |
|---|---|---|--:|---|
| ±TestGroup± | ±b± | test | 91.0 |  |
| ±TestGroup/parallel± | ±b± | test | 40.0 | yes |
| ±TestUnstable± | ±b± | test | 3.0 |  |
| ±TestB± | ±a± | test | 2.0 |  |
| ±TestA± | ±a± | test-race | 1.0 |  |
| ±TestA± | ±a± | test | 1.0 |  |
| ±TestSkipped± | ±b± | test | 0.0 |  |

Tests that failed and passed when they ran again:

- ±TestUnstable± in ±b± (test)
`
	if got := strings.ReplaceAll(out.String(), "`", "±"); got != want {
		t.Errorf("it prints\n%s\ninstead of\n%s", got, want)
	}
}

func TestSuite_ListsTheSlowestTwenty(t *testing.T) {
	t.Parallel()
	var tests []string
	for i := 1; i <= 25; i++ {
		tests = append(tests, fmt.Sprintf("Test%02d", i)) // each slower than the one before it
	}
	var all strings.Builder
	for i := range tests {
		all.WriteString(events(fmt.Sprintf("p/%02d", i+1), tests[:i+1]...))
	}
	dir := folder(t, map[string]string{stagesFile: stages, "test.json": all.String()})
	read, err := readSuite(dir)
	must(t, err)
	var packages, slow strings.Builder
	read.writePackages(&packages)
	read.writeTests(&slow)
	if got := strings.Count(packages.String(), "| `p/"); got != 20 {
		t.Errorf("there are %d packages:\n%s", got, packages.String())
	}
	if !strings.Contains(packages.String(), "| `p/25` | test | 250.0 | 25 |\n| `p/24` ") || strings.Contains(packages.String(), "`p/05`") {
		t.Errorf("they are not the slowest packages:\n%s", packages.String())
	}
	if got := strings.Count(slow.String(), "| `Test"); got != 20 {
		t.Errorf("there are %d tests:\n%s", got, slow.String())
	}
	if !strings.Contains(slow.String(), "|\n| `Test25` | `p/25` | test | 25.0 |  |\n| `Test24` | `p/24` ") {
		t.Errorf("they are not the slowest tests:\n%s", slow.String())
	}
	var reruns strings.Builder
	if read.writeReruns(&reruns); reruns.String() != "\nNo test failed and passed when it ran again.\n" {
		t.Errorf("the text on tests that ran again is %q", reruns.String())
	}
}

func TestName_FitsIntoACell(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"mediastack.dev/runtime/media": "`runtime/media`",
		"TestX/a|b`c":                  "`TestX/a\\|b'c`",
		strings.Repeat("ä", 200):       "`" + strings.Repeat("ä", 119) + "…`",
	} {
		if got := name(text); got != want {
			t.Errorf("%q is written as %q instead of %q", text, got, want)
		}
	}
}

func TestReport_FillsTheMarkersOfItsKind(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{stagesFile: stages, "test.json": events("p", "TestA"), "page.md": document})
	page := filepath.Join(dir, "page.md")
	for range 2 { // the second time replaces the tables of the first
		must(t, run([]string{"--dir", dir, "--write", page}, io.Discard, io.Discard))
	}
	written, err := os.ReadFile(page)
	must(t, err)
	read, err := readSuite(dir)
	must(t, err)
	want := strings.Replace(document, "<!-- suite-times warm -->\nnot measured yet\n", "<!-- suite-times warm -->\n"+read.markdown(), 1)
	if string(written) != want {
		t.Errorf("the page is\n%s\ninstead of\n%s", written, want)
	}
}

func TestReport_NamesWhatIsMissingOrMalformed(t *testing.T) {
	t.Parallel()
	good := events("p", "TestA")
	facts, rest, _ := strings.Cut(stages, "\n")
	for name, test := range map[string]struct {
		stages, events, page string
		want                 string
	}{
		"no stages":                  {"", good, document, "no such file"},
		"no events":                  {stages, "", document, "has no events of tests (*.json)"},
		"events that are none":       {stages, "{}", document, "test.json: line 1 is no event"},
		"no package":                 {stages, `{"Action":"build-fail"}`, document, "test.json has no events"},
		"no page":                    {stages, good, "", "no such file"},
		"no cores":                   {strings.Replace(stages, "cores=2", "cores=x", 1), good, document, `line 1: cores="x"`},
		"no time of a process":       {strings.Replace(stages, "process=1940", "process=0", 1), good, document, `line 1: process="0"`},
		"no version of Go":           {strings.Replace(stages, "go=", "", 1), good, document, "line 1: go= is missing"},
		"another kind":               {strings.Replace(stages, "warm", "hot", 1), good, document, `line 1: kind="hot" is neither cold nor warm`},
		"facts alone":                {facts + "\n", good, document, "there are no stages"},
		"a stage without its times":  {facts + "\nverify\t1\t2\n" + rest, good, document, "line 2: "},
		"a time that is no number":   {strings.Replace(stages, "20.125", "20,125", 1), good, document, `line 2: "20,125" is no number of seconds`},
		"a negative time":            {strings.Replace(stages, "70", "-70", 1), good, document, `line 3: "-70" is no number of seconds`},
		"a stage after the end":      {stages + "late\t1\t1\t1\n", good, document, `line 5: "late" comes after "everything"`},
		"a run that failed":          {strings.Replace(stages, "everything\t100\t95\t15\n", "", 1), good, document, `has no line "everything"`},
		"no marker":                  {stages, good, strings.Replace(document, "<!-- suite-times warm -->\n", "", 1), `the line "<!-- suite-times warm -->" is in it 0 times`},
		"no marker of the end":       {stages, good, strings.Replace(document, "<!-- /suite-times warm -->\n", "", 1), `the line "<!-- /suite-times warm -->" is in it 0 times`},
		"two markers":                {stages, good, document + "<!-- suite-times warm -->\n", "is in it 2 times"},
		"markers in the wrong order": {stages, good, "<!-- /suite-times warm -->\n<!-- suite-times warm -->\n", "is before"},
		"a marker of another kind between them": {stages, good,
			"<!-- suite-times warm -->\n<!-- suite-times cold -->\n<!-- /suite-times warm -->\n", "a marker of another kind"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{stagesFile: test.stages, "test.json": test.events, "page.md": test.page}
			for file, content := range files {
				if content == "" {
					delete(files, file)
				}
			}
			dir := folder(t, files)
			page := filepath.Join(dir, "page.md")
			err := run([]string{"--dir", dir, "--write", page}, io.Discard, io.Discard)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v instead of %q", err, test.want)
			}
			if content, _ := os.ReadFile(page); string(content) != test.page {
				t.Errorf("the page was changed to\n%s", content)
			}
		})
	}
}

func TestReport_PrintsARunThatFailed(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{stagesFile: strings.Replace(stages, "everything\t100\t95\t15\n", "", 1), "test.json": events("p", "TestA")})
	var out strings.Builder
	must(t, run([]string{"--dir", dir}, &out, io.Discard))
	for _, want := range []string{"The run failed or has not ended", "| **sum** | 90.0 | 104.5 (90.1 user, 14.4 system) | 100 % |\n", "| verify | 30.0 | 24.5 | 33 % |\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

func TestWarn_NamesTestsThatFailedAndPassed(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"test.json": unstable, "test-race.json": events("p", "TestA"), "wrong.json": "no JSON"})
	var out strings.Builder
	must(t, run([]string{"--reruns", filepath.Join(dir, "test-race.json"), filepath.Join(dir, "test.json")}, &out, io.Discard))
	const want = "ci: WARNING: mediastack.dev/b TestUnstable failed and passed when run again: it is unstable and must be repaired\n"
	if out.String() != want {
		t.Errorf("it prints %q instead of %q", out.String(), want)
	}
	for _, file := range []string{"wrong.json", "missing.json"} {
		if err := run([]string{"--reruns", filepath.Join(dir, file)}, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("the error for %s is %v", file, err)
		}
	}
}

func TestRun_ExplainsItsArguments(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--reruns"}, {"file"}, {"--reruns", "--dir", "x", "file"}, {"--reruns", "--write", "x", "file"}, {"--unknown"}, {"--help"}} {
		var messages strings.Builder
		err := run(args, io.Discard, &messages)
		want := errUsage
		if args[0] == "--help" {
			want = flag.ErrHelp
		}
		if !errors.Is(err, want) || !strings.Contains(messages.String(), "usage: suitetimes ") {
			t.Errorf("%q: the error is %v, and it prints\n%s", args, err, messages.String())
		}
	}
}
