package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"mediastack.dev/hack/test/zeroloss/tenant"
)

// row is one operation.
type row struct {
	name    string
	planned bool
	took    time.Duration
	within  time.Duration // how long requests may fail after the loss of a node; without a bound if it is zero
	lost    *loss         // a node; nil if none was
	tenant.Result
}

// report is the table, and what it is judged by.
type report struct {
	rate     float64
	begun    time.Time
	rows     []row
	rest     tenant.Result // between the operations
	problems []string
}

// add adds an operation, and says what failed.
func (r *report) add(one row) {
	r.rows = append(r.rows, one)
	fmt.Fprintf(os.Stderr, "%s %s: %.1f s, %d sent, %d retried, %d waited, %d failed, longest %s; %d items verified, %d missing\n", time.Now().UTC().Format("15:04:05"), one.name,
		one.took.Seconds(), one.Sent, one.Retried, one.Waited, one.Failed, one.LongestPause.Round(time.Millisecond), one.Verified, one.Missing)
	for _, text := range append(one.Failures, one.Problems...) {
		fmt.Fprintln(os.Stderr, "  "+text)
	}
	if one.lost != nil {
		fmt.Fprintln(os.Stderr, "  "+one.lost.describe(one.Result))
	}
	for _, text := range one.Problems {
		r.problems = append(r.problems, one.name+": "+text)
	}
}

// between adds what happened between two operations.
func (r *report) between(result tenant.Result) {
	r.rest.Sent += result.Sent
	r.rest.Retried += result.Retried
	r.rest.Waited += result.Waited
	r.rest.Failed += result.Failed
	r.rest.LongestPause = max(r.rest.LongestPause, result.LongestPause)
	for _, text := range result.Failures {
		fmt.Fprintln(os.Stderr, "  between operations: "+text)
	}
}

// conclude adds the comparison of everything at the end.
func (r *report) conclude(result tenant.Result) {
	r.between(result)
	r.rest.Verified, r.rest.VerifiedBytes = result.Verified, result.VerifiedBytes
	r.rest.Missing, r.rest.MissingBytes = result.Missing, result.MissingBytes
	for _, text := range result.Problems {
		r.problems = append(r.problems, "at the end: "+text)
	}
}

// write writes the table, in Markdown.
func (r *report) write(out io.Writer) {
	fmt.Fprintf(out, "%s, %s, %g requests per second, %s in all.\n\n", r.begun.UTC().Format(time.DateOnly), machine(), r.rate, time.Since(r.begun).Round(time.Second))
	fmt.Fprintln(out, "| operation | planned | seconds | requests | retried | waited | failed | longest pause | acknowledged bytes verified | missing |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|---|---|---|")
	for _, one := range append(r.rows, row{name: "between the operations; everything at the end", planned: true, Result: r.rest}) {
		planned, took := "no", fmt.Sprintf("%.1f", one.took.Seconds())
		if one.planned {
			planned = "yes"
		}
		if one.took == 0 {
			took = ""
		}
		fmt.Fprintf(out, "| %s | %s | %s | %d | %d | %d | %d | %.1f s | %d | %d |\n", one.name, planned, took,
			one.Sent, one.Retried, one.Waited, one.Failed, one.LongestPause.Seconds(), one.VerifiedBytes, one.MissingBytes)
	}
	for _, one := range r.rows {
		if one.lost != nil {
			fmt.Fprintf(out, "\n- %s: %s", one.name, one.lost.describe(one.Result))
		}
	}
	for _, problem := range r.problems {
		fmt.Fprintf(out, "\n- %s", problem)
	}
	fmt.Fprintln(out)
}

// decision fails when a planned operation lost a request, or any operation a byte, or when requests failed
// longer after the loss of a node than they may.
func (r *report) decision() error {
	var broken []error
	for _, one := range append(r.rows, row{name: "between the operations", planned: true, Result: r.rest}) {
		if one.planned && one.Failed > 0 {
			broken = append(broken, fmt.Errorf("%s: clients saw %d requests failing", one.name, one.Failed))
		}
		if one.within > 0 && one.lost != nil && one.lost.failedAfter(one.within, one.Result) > 0 {
			broken = append(broken, fmt.Errorf("%s: requests failed for more than %s: %s", one.name, one.within, one.lost.describe(one.Result)))
		}
		if one.Missing > 0 {
			broken = append(broken, fmt.Errorf("%s: %d acknowledged items (%d bytes) are missing", one.name, one.Missing, one.MissingBytes))
		}
	}
	if len(r.problems) > 0 {
		broken = append(broken, fmt.Errorf("what the service has is not what was acknowledged, in %d cases", len(r.problems)))
	}
	return errors.Join(broken...)
}
