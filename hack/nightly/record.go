package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"
)

// result is how a step ended.
type result struct {
	step               string
	passed             bool
	elapsed, processor time.Duration
	commit             string // empty if it was another one when the step ended
	ended              time.Time
}

func (r result) verb() string {
	if r.passed {
		return "passed"
	}
	return "failed"
}

// record is a file with a line for each step that has run, the newest last.
type record struct {
	path    string
	results []result
	cut     bool // the last line has no end: the machine stopped when it was written
}

// readRecord reads a record, which need not exist. A line that is not a whole result is left out.
func readRecord(path string) (record, error) {
	content, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return record{}, err
	}
	r := record{path: path, cut: len(content) > 0 && content[len(content)-1] != '\n'}
	for line := range strings.Lines(string(content)) {
		if one, err := parseResult(strings.TrimSuffix(line, "\n")); err == nil {
			r.results = append(r.results, one)
		}
	}
	return r, nil
}

func (r result) String() string {
	return fmt.Sprintf("%s\t%s\t%s\t%.0f\t%.0f\t%s", r.ended.Format(time.RFC3339), r.step, r.verb(), r.elapsed.Seconds(), r.processor.Seconds(), r.commit)
}

func parseResult(line string) (result, error) {
	fields := strings.Split(line, "\t")
	if len(fields) != 6 {
		return result{}, fmt.Errorf("%d fields", len(fields))
	}
	ended, err := time.Parse(time.RFC3339, fields[0])
	elapsed, elapsedErr := strconv.Atoi(fields[3])
	processor, processorErr := strconv.Atoi(fields[4])
	return result{
		step: fields[1], passed: fields[2] == "passed", commit: fields[5], ended: ended,
		elapsed: time.Duration(elapsed) * time.Second, processor: time.Duration(processor) * time.Second,
	}, errors.Join(err, elapsedErr, processorErr)
}

// add writes a result at once, so what has passed is known after any end of the program.
func (r *record) add(one result) error {
	file, err := os.OpenFile(r.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	text := one.String() + "\n"
	if r.cut {
		text = "\n" + text
	}
	_, err = file.WriteString(text)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	r.results, r.cut = append(r.results, one), false
	return nil
}

// last returns how a step ended last.
func (r record) last(step string) (found result, ok bool) {
	for _, one := range r.results {
		if one.step == step {
			found, ok = one, true
		}
	}
	return found, ok
}

// passedOn reports whether a step passed when it ran last, and did so on a commit without changes beside it.
func (r record) passedOn(step, commit string) bool {
	last, ran := r.last(step)
	return ran && last.passed && last.commit == commit && !strings.HasSuffix(commit, dirty)
}

// estimate returns how long a step took when it passed last, or what it usually takes, and whether it has passed here.
func (r record) estimate(s step) (takes time.Duration, measured bool) {
	takes = s.usual
	for _, one := range r.results {
		if one.step == s.target && one.passed {
			takes, measured = one.elapsed, true
		}
	}
	return takes, measured
}
