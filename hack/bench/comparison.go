package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// comparison measures sides against each other, and makes the two tables of a benchmark: rates with
// their ratios, and CPU time per call by process.
type comparison struct {
	b *bench
	// figure is what the results are.
	figure string
	// show formats a rate for the table; number when nil.
	show func(perSecond float64) string
	// last makes the last cell of a row; nil = none.
	last func(rounds []round) string

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
		row := slices.Concat(p.cells, []string{show(median(of)), show(median(against))}, found.cells())
		if c.last != nil {
			row = append(row, c.last(rounds[p.of]))
		}
		c.rates.row(row...)
	}
	for i, s := range sides {
		c.cpu.row(slices.Concat([]string{what, s.name}, c.cpuCells(rounds[i]))...)
	}
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
