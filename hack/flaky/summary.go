package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"mediastack.dev/hack/testevents"
)

// failed reports whether a round had failures.
func failed(all []round) bool {
	return slices.ContainsFunc(all, func(r round) bool { return len(r.failures) > 0 })
}

// printSummary prints the tests that ever failed, those that failed most often first.
func printSummary(out io.Writer, first, last int, all []round) {
	fmt.Fprintf(out, "\n%d of %d rounds ran", len(all), last-first+1)
	if first > 1 {
		fmt.Fprintf(out, ", from round %d on", first)
	}
	fmt.Fprint(out, ".")
	if !failed(all) {
		fmt.Fprint(out, " No test failed.\n")
		return
	}
	var order []testevents.Failure
	rounds := map[testevents.Failure][]round{}
	for _, one := range all {
		for _, failure := range one.failures {
			in := rounds[failure]
			if len(in) == 0 {
				order = append(order, failure)
			}
			// A test that failed when it ran again, too, failed once.
			if len(in) == 0 || in[len(in)-1].number != one.number {
				rounds[failure] = append(in, one)
			}
		}
	}
	slices.SortStableFunc(order, func(a, b testevents.Failure) int { return len(rounds[b]) - len(rounds[a]) })
	fmt.Fprint(out, " These failed:\n")
	for _, failure := range order {
		var in, logs []string
		for _, one := range rounds[failure] {
			in = append(in, fmt.Sprintf("%d (%s)", one.number, one.kind()))
			logs = append(logs, "  "+one.log+"\n")
		}
		fmt.Fprintf(out, "%s: %d of %d rounds: %s\n%s", failure, len(in), len(all), strings.Join(in, ", "), strings.Join(logs, ""))
	}
}
