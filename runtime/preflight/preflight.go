// Package preflight is the report of `mediastack-runtime preflight`: what of the stores works, and
// what is missing. The packages of the stores add to it.
package preflight

import (
	"fmt"

	"mediastack.dev/runtime/redact"
)

// Outcome is what a check found.
type Outcome string

// The outcomes. Only Missing fails the report.
const (
	Works   Outcome = "works"
	Missing Outcome = "missing"
	Note    Outcome = "note"
)

// Finding is the result of one check.
type Finding struct {
	Outcome Outcome
	// Part is what was checked: database, objects, mail, cdn, scanner or address.
	Part string
	Text string
}

// Report collects the findings in the order of the checks. It masks credentials in them.
type Report struct {
	Findings []Finding
}

// Works adds that something works.
func (r *Report) Works(part, format string, args ...any) { r.add(Works, part, format, args) }

// Missing adds that something is missing, and what to do about it.
func (r *Report) Missing(part, format string, args ...any) { r.add(Missing, part, format, args) }

// Note adds what an administrator should know.
func (r *Report) Note(part, format string, args ...any) { r.add(Note, part, format, args) }

func (r *Report) add(outcome Outcome, part, format string, args []any) {
	r.Findings = append(r.Findings, Finding{Outcome: outcome, Part: part, Text: redact.Text(fmt.Sprintf(format, args...))})
}

// Count returns the number of findings with an outcome.
func (r *Report) Count(outcome Outcome) int {
	n := 0
	for _, finding := range r.Findings {
		if finding.Outcome == outcome {
			n++
		}
	}
	return n
}

// Cause returns the innermost error, which names the failure without what led to it; of joined
// errors it takes the last.
func Cause(err error) error {
	for {
		var inner error
		switch outer := err.(type) { //nolint:errorlint // it unwraps
		case interface{ Unwrap() error }:
			inner = outer.Unwrap()
		case interface{ Unwrap() []error }:
			if all := outer.Unwrap(); len(all) > 0 {
				inner = all[len(all)-1]
			}
		}
		if inner == nil {
			return err
		}
		err = inner
	}
}
