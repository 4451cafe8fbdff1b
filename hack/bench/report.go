package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// target is the wanted value of a figure; it is shown, never enforced.
type target struct {
	// Value is compared with the median.
	Value float64 `json:"value"`
	// Below wants less than Value; otherwise at least Value is wanted.
	Below bool `json:"below"`
}

func minimum(value float64) *target { return &target{Value: value} }
func maximum(value float64) *target { return &target{Value: value, Below: true} }

func (a *target) met(value float64) bool { return value < a.Value == a.Below }

func (a *target) String() string {
	if a == nil {
		return "-"
	}
	if a.Below {
		return fmt.Sprintf("< %g", a.Value)
	}
	return fmt.Sprintf(">= %g", a.Value)
}

// result is one figure that has an target, or is worth remembering without one.
type result struct {
	Benchmark string  `json:"benchmark"`
	Case      string  `json:"case"`
	Figure    string  `json:"figure"` // what Value is, in which unit
	Value     float64 `json:"value"`
	Min       float64 `json:"min"`
	Max       float64 `json:"max"`
	Target    *target `json:"target,omitempty"`
	Met       *bool   `json:"met,omitempty"`
	// Inputs are the figures that Value is computed from.
	Inputs map[string]float64 `json:"inputs,omitempty"`
}

// report gathers results. Tables go to out when they are complete, progress to progress.
type report struct {
	out, progress io.Writer
	started       time.Time
	results       []result
}

func newReport(out, progress io.Writer) *report {
	return &report{out: out, progress: progress, started: time.Now()}
}

// say reports how far the run is.
func (r *report) say(format string, args ...any) {
	fmt.Fprintf(r.progress, "[%4.0fs] %s\n", time.Since(r.started).Seconds(), fmt.Sprintf(format, args...))
}

// note prints a line among the tables.
func (r *report) note(format string, args ...any) { fmt.Fprintf(r.out, format+"\n", args...) }

func (r *report) heading(one benchmark) { fmt.Fprintf(r.out, "\n== %s: %s\n", one.name, one.what) }

// add keeps a result; values are those of the rounds, and what counts is their median.
func (r *report) add(one result, values ...float64) result {
	one.Value, one.Min, one.Max = median(values), slices.Min(values), slices.Max(values)
	if one.Target != nil {
		met := one.Target.met(one.Value)
		one.Met = &met
	}
	r.results = append(r.results, one)
	return one
}

// targetText returns "met", "MISSED", or "-" without a target.
func (one result) targetText() string {
	switch {
	case one.Met == nil:
		return "-"
	case *one.Met:
		return "met"
	}
	return "MISSED"
}

// cells are a result's columns in every table: figure, min, max, target.
func (one result) cells() []string {
	return []string{number(one.Value), number(one.Min), number(one.Max), one.Target.String(), one.targetText()}
}

// summary prints everything that was added, once more and together.
func (r *report) summary() {
	if len(r.results) == 0 {
		return
	}
	fmt.Fprintf(r.out, "\n== summary after %s\n", time.Since(r.started).Round(time.Second))
	t := table{{"benchmark", "case", "figure", "median", "min", "max", "target", ""}}
	for _, one := range r.results {
		t.row(append([]string{one.Benchmark, one.Case, one.Figure}, one.cells()...)...)
	}
	t.print(r.out)
}

// write writes the results as JSON.
func (r *report) write(path string, o options) error {
	content, err := json.MarshalIndent(map[string]any{
		"started": r.started.UTC().Truncate(time.Second), "seconds": time.Since(r.started).Seconds(),
		"cores": runtime.NumCPU(), "go": runtime.Version(), "options": o, "results": r.results,
	}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(content, '\n'), 0o644)
}

// table is rows of cells, the heading first.
type table [][]string

func (t *table) row(cells ...string) { *t = append(*t, cells) }

// print aligns the columns.
func (t table) print(out io.Writer) {
	aligned := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range t {
		fmt.Fprintln(aligned, strings.Join(row, "\t"))
	}
	_ = aligned.Flush() // what it writes to is a terminal or a buffer
}

// number shows three digits that count, or all before the point.
func number(value float64) string {
	switch {
	case value >= 100:
		return fmt.Sprintf("%.0f", value)
	case value >= 10:
		return fmt.Sprintf("%.1f", value)
	}
	return fmt.Sprintf("%.2f", value)
}

// milliseconds shows a duration.
func milliseconds(d time.Duration) string { return number(float64(d) / float64(time.Millisecond)) }

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[middle-1] + sorted[middle]) / 2
	}
	return sorted[middle]
}

// comparison measures sides against each other, and makes the two tables of a benchmark: rates with
// their ratios, and CPU time per call by process.
type comparison struct {
	b *bench
	// figure is what the results are.
	figure string
	// show formats a rate for the table; number when nil.
	show func(perSecond float64) string

	processes  []string
	rates, cpu table
}

// compare begins a comparison. what is what a call does, columns head the first cells of the table of
// rates.
func (b *bench) compare(what, figure string, columns []string, processes ...string) *comparison {
	c := &comparison{b: b, figure: figure, processes: b.env.columns(processes...)}
	c.rates.row(slices.Concat(columns, []string{"ratio", "min", "max", "target", ""})...)
	c.cpu.row(slices.Concat([]string{"CPU ms per " + what, "side"}, c.processes, []string{"all"})...)
	return c
}

// pair sets a side against another one.
type pair struct {
	of, against int
	target      *target
	// name is that of the result; cells are the first ones of its row.
	name  string
	cells []string
	// cpu bounds the CPU milliseconds of a call of the side of, by process.
	cpu map[string]*target
}

// measure measures the sides in rounds, and adds a result for each pair.
func (c *comparison) measure(ctx context.Context, what string, l load, sides []side, pairs ...pair) error {
	rounds, err := c.b.measureRounds(ctx, what, l, sides...)
	if err != nil {
		return err
	}
	show := c.show
	if show == nil {
		show = number
	}
	for _, p := range pairs {
		of, against := rates(rounds[p.of]), rates(rounds[p.against])
		found := c.b.add(result{Benchmark: c.b.name, Case: p.name, Figure: c.figure, Target: p.target,
			Inputs: map[string]float64{sides[p.of].name + "PerSecond": median(of), sides[p.against].name + "PerSecond": median(against)}}, ratios(of, against)...)
		for _, process := range slices.Sorted(maps.Keys(p.cpu)) {
			const tick = 0.001 // a short round may use no tick of the kernel's clock
			used := figures(rounds[p.of], func(r round) float64 { return max(tick, r.perCall(process)) })
			c.b.add(result{Benchmark: c.b.name, Case: what + ", " + sides[p.of].name, Figure: "CPU ms, " + process, Target: p.cpu[process]}, used...)
		}
		c.rates.row(slices.Concat(p.cells, []string{show(median(of)), show(median(against))}, found.cells())...)
	}
	for i, s := range sides {
		c.cpu.row(slices.Concat([]string{what, s.name}, c.cpuCells(rounds[i]))...)
	}
	return nil
}

// compareTimes begins a comparison of the times of requests between two sides, whose names head columns.
func (b *bench) compareTimes(usual, other string, processes ...string) *comparison {
	columns := []string{"request"}
	for _, figure := range []string{"p50", "p95", "p99"} {
		columns = append(columns, figure+" ms, "+usual, other)
	}
	return b.compare("request", "ratio of p99", columns, processes...)
}

// measureTimes measures two sides at one pace, and adds the ratio of the p99 of the second one to that of the first one. The
// table has the times of all rounds together, and the ratios of the rounds.
func (c *comparison) measureTimes(ctx context.Context, what string, l load, sides []side, wanted *target) error {
	rounds, err := c.b.measureRounds(ctx, what, l, sides...)
	if err != nil {
		return err
	}
	p99 := func(r round) float64 { return float64(max(1, r.percentile(0.99))) }
	all := make([]round, len(sides))
	for i := range sides {
		for _, one := range rounds[i] {
			all[i].times = append(all[i].times, one.times...)
		}
		slices.Sort(all[i].times)
		c.cpu.row(slices.Concat([]string{what, sides[i].name}, c.cpuCells(rounds[i]))...)
	}
	inputs := map[string]float64{}
	cells := []string{what}
	for _, part := range []float64{0.5, 0.95, 0.99} {
		for i, s := range sides {
			cells = append(cells, milliseconds(all[i].percentile(part)))
			inputs[fmt.Sprintf("%s, p%g ms", s.name, 100*part)] = float64(all[i].percentile(part)) / float64(time.Millisecond)
		}
	}
	found := c.b.add(result{Benchmark: c.b.name, Case: what, Figure: c.figure, Target: wanted, Inputs: inputs},
		ratios(figures(rounds[1], p99), figures(rounds[0], p99))...)
	c.rates.row(slices.Concat(cells, found.cells())...)
	return nil
}

// cpuCells shows the CPU milliseconds per call of each process, and their sum: the medians of the rounds.
func (c *comparison) cpuCells(rounds []round) []string {
	var cells []string
	for _, name := range c.processes {
		cells = append(cells, fmt.Sprintf("%.2f", median(figures(rounds, func(r round) float64 { return r.perCall(name) }))))
	}
	return append(cells, fmt.Sprintf("%.2f", median(figures(rounds, func(r round) float64 {
		sum := 0.0
		for _, name := range c.processes {
			if name != workers { // which the runtime's time includes
				sum += r.perCall(name)
			}
		}
		return sum
	}))))
}

// print prints both tables.
func (c *comparison) print() {
	c.rates.print(c.b.out)
	c.b.note("")
	c.cpu.print(c.b.out)
}
