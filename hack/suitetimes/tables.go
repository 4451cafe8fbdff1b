package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"mediastack.dev/hack/testevents"
)

const (
	// slowest is the number of packages, and of tests, that have a row.
	slowest = 20
	// module begins the names of most packages, and is left out.
	module = "mediastack.dev/"
	// maxName is the length of the longest name in a cell, in characters.
	maxName = 120
)

// markdown returns all tables.
func (s *suite) markdown() string {
	var text strings.Builder
	s.writeStages(&text)
	s.writeTotals(&text)
	s.writePackages(&text)
	s.writeTests(&text)
	s.writeReruns(&text)
	return text.String()
}

// writeStages writes the table of stages, whose shares are of the whole run.
func (s *suite) writeStages(text *strings.Builder) {
	total := s.total
	if total == nil {
		fmt.Fprint(text, "The run failed or has not ended: these are the stages until then.\n\n")
		total = &stage{name: "sum"}
		for _, one := range s.stages {
			total.elapsed += one.elapsed
			total.user += one.user
			total.system += one.system
		}
	}
	fmt.Fprintf(text, "A %s run on %d cores with %s, where a process that does nothing takes %.1f ms:\n\n", s.kind, s.cores, s.goVersion, s.process.Seconds()*1000)
	fmt.Fprint(text, "| stage | elapsed, s | processor time, s | share of elapsed |\n|---|--:|--:|--:|\n")
	for _, one := range s.stages {
		fmt.Fprintf(text, "| %s | %s | %s | %s |\n", cell(one.name), seconds(one.elapsed), seconds(one.processor()), share(one.elapsed, total.elapsed))
	}
	fmt.Fprintf(text, "| **%s** | %s | %s (%s user, %s system) | 100 %% |\n",
		total.name, seconds(total.elapsed), seconds(total.processor()), seconds(total.user), seconds(total.system))
}

// writeTotals writes how much the stages with tests ran.
func (s *suite) writeTotals(text *strings.Builder) {
	fmt.Fprint(text, "\nTests, with subtests. Packages run beside each other, so the sum of their times is longer than their stage:\n\n")
	fmt.Fprint(text, "| stage | packages | tests | skipped | failed | sum of the packages, s |\n|---|--:|--:|--:|--:|--:|\n")
	var sum counts
	for _, tests := range s.tests {
		of := count(tests.Packages...)
		sum = sum.plus(of)
		of.write(text, cell(tests.stage))
	}
	sum.write(text, "**all**")
}

// counts are the totals of some packages.
type counts struct {
	packages, tests, skipped, failed int // failed in any of its runs
	elapsed                          time.Duration
}

// count adds packages up. Packages without tests are left out.
func count(packages ...*testevents.Package) counts {
	var sum counts
	for _, pkg := range packages {
		if len(pkg.Tests) == 0 {
			continue
		}
		sum.packages++
		sum.elapsed += pkg.Elapsed
		sum.tests += len(pkg.Tests)
		for _, test := range pkg.Tests {
			if test.Outcome == testevents.Skipped {
				sum.skipped++
			}
			if test.Failed > 0 || test.Outcome == "" {
				sum.failed++
			}
		}
	}
	return sum
}

func (c counts) plus(other counts) counts {
	return counts{c.packages + other.packages, c.tests + other.tests, c.skipped + other.skipped, c.failed + other.failed, c.elapsed + other.elapsed}
}

func (c counts) write(text *strings.Builder, name string) {
	fmt.Fprintf(text, "| %s | %d | %d | %d | %d | %s |\n", name, c.packages, c.tests, c.skipped, c.failed, seconds(c.elapsed))
}

// writePackages writes the packages that took longest. One that two stages run has two rows.
func (s *suite) writePackages(text *strings.Builder) {
	type row struct {
		stage string
		*testevents.Package
	}
	var rows []row
	for _, tests := range s.tests {
		for _, pkg := range tests.Packages {
			if len(pkg.Tests) > 0 {
				rows = append(rows, row{tests.stage, pkg})
			}
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(b.Elapsed, a.Elapsed), strings.Compare(a.Name, b.Name))
	})
	fmt.Fprintf(text, "\nThe slowest %d packages:\n\n", slowest)
	fmt.Fprint(text, "| package | stage | elapsed, s | tests |\n|---|---|--:|--:|\n")
	for _, one := range rows[:min(slowest, len(rows))] {
		fmt.Fprintf(text, "| %s | %s | %s | %d |\n", name(one.Name), cell(one.stage), seconds(one.Elapsed), len(one.Tests))
	}
}

// writeTests writes the tests that took longest. The time of a subtest is part of its parent's, so only those that are
// parallel, whose time is not, have rows of their own.
func (s *suite) writeTests(text *strings.Builder) {
	type row struct {
		stage string
		*testevents.Test
	}
	var rows []row
	for _, tests := range s.tests {
		for _, pkg := range tests.Packages {
			for _, test := range pkg.Tests {
				if test.Parallel || !test.IsSubtest() {
					rows = append(rows, row{tests.stage, test})
				}
			}
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(b.Elapsed, a.Elapsed), strings.Compare(a.Package, b.Package), strings.Compare(a.Name, b.Name))
	})
	fmt.Fprintf(text, "\nThe slowest %d tests. The time is that of `go test`: that of a parallel test begins when it may continue, and has the time "+
		"in which it waited for a processor. Subtests have rows of their own if they are parallel; the others are part of their parents:\n\n", slowest)
	fmt.Fprint(text, "| test | package | stage | elapsed, s | parallel |\n|---|---|---|--:|---|\n")
	for _, one := range rows[:min(slowest, len(rows))] {
		parallel := ""
		if one.Parallel {
			parallel = "yes"
		}
		fmt.Fprintf(text, "| %s | %s | %s | %s | %s |\n", name(one.Name), name(one.Package), cell(one.stage), seconds(one.Elapsed), parallel)
	}
}

// writeReruns writes the tests that failed and passed when they ran again.
func (s *suite) writeReruns(text *strings.Builder) {
	var rows []string
	for _, tests := range s.tests {
		for _, test := range tests.Unstable() {
			rows = append(rows, fmt.Sprintf("- %s in %s (%s)\n", name(test.Name), name(test.Package), cell(tests.stage)))
		}
	}
	if len(rows) == 0 {
		fmt.Fprint(text, "\nNo test failed and passed when it ran again.\n")
		return
	}
	fmt.Fprintf(text, "\nTests that failed and passed when they ran again:\n\n%s", strings.Join(rows, ""))
}

// seconds prints a time with one decimal.
func seconds(d time.Duration) string { return fmt.Sprintf("%.1f", d.Seconds()) }

// share prints a part of a whole in percent.
func share(part, whole time.Duration) string {
	if whole <= 0 {
		return ""
	}
	return fmt.Sprintf("%.0f %%", 100*part.Seconds()/whole.Seconds())
}

// name prints the name of a package or test as code.
func name(of string) string {
	of = strings.TrimPrefix(of, module)
	if runes := []rune(of); len(runes) > maxName {
		of = string(runes[:maxName-1]) + "…"
	}
	return "`" + cell(strings.ReplaceAll(of, "`", "'")) + "`"
}

// cell escapes what would end a cell.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
