// Command suitetimes is the program behind `make suite-times`: it tells where the time of a run of .ci/run went, from
// the times of the stages and the events of the tests that the run left in .mediastack/ci. .ci/run calls it, too, for the
// tests that failed and passed when they ran again.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"mediastack.dev/hack/setup"
	"mediastack.dev/hack/testevents"
)

const usage = `usage: suitetimes [--dir DIR] [--write FILE]
       suitetimes --reruns EVENTS...

The first form prints where the time of a run of .ci/run went, as tables in Markdown, or writes them into a file between
its lines <!-- suite-times KIND --> and <!-- /suite-times KIND -->. KIND is cold or warm, as the run was.
The second form prints a warning for each test that failed and passed when it ran again. EVENTS are files that
gotestsum --jsonfile wrote.

`

func main() {
	err := run(os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "suitetimes:", err)
		os.Exit(1)
	}
}

// errUsage is a mistake in the arguments that was printed already.
var errUsage = errors.New("wrong usage")

func run(args []string, out, messages io.Writer) error {
	flags := flag.NewFlagSet("suitetimes", flag.ContinueOnError)
	flags.SetOutput(messages)
	flags.Usage = func() {
		fmt.Fprint(messages, usage)
		flags.PrintDefaults()
	}
	dir := flags.String("dir", "", "`folder` with stages.tsv and the events of the tests (default .mediastack/ci in the checkout)")
	write := flags.String("write", "", "`file` to write the tables into, instead of printing them")
	reruns := flags.Bool("reruns", false, "print a warning for each test that failed and passed when it ran again, in the files that follow")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return err
	} else if err != nil {
		return errUsage
	}
	if *reruns != (flags.NArg() > 0) || *reruns && (*dir != "" || *write != "") {
		flags.Usage()
		return errUsage
	}
	if *reruns {
		return warn(flags.Args(), out)
	}
	return report(*dir, *write, out)
}

// warn prints a line for each test that failed and then passed.
func warn(files []string, out io.Writer) error {
	for _, file := range files {
		events, err := testevents.ReadFile(file)
		if err != nil {
			return err
		}
		for _, test := range events.Unstable() {
			fmt.Fprintf(out, "ci: WARNING: %s %s failed and passed when run again: it is unstable and must be repaired\n", test.Package, test.Name)
		}
	}
	return nil
}

// report prints the tables of a run, or writes them into a file.
func report(dir, write string, out io.Writer) error {
	if dir == "" {
		root, err := setup.RepoRoot()
		if err != nil {
			return err
		}
		dir = filepath.Join(root, ".mediastack", "ci")
	}
	suite, err := readSuite(dir)
	if err != nil {
		return err
	}
	if write == "" {
		_, err := io.WriteString(out, suite.markdown())
		return err
	}
	if suite.total == nil {
		return fmt.Errorf("%s has no line %q: the run failed or has not ended, so its tables are not written", filepath.Join(dir, stagesFile), everything)
	}
	document, err := os.ReadFile(write)
	if err != nil {
		return err
	}
	filled, err := fill(string(document), suite.kind, suite.markdown())
	if err != nil {
		return fmt.Errorf("%s: %w", write, err)
	}
	if err := os.WriteFile(write, []byte(filled), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(out, "suitetimes: the tables of a %s run are in %s\n", suite.kind, write)
	return nil
}
