package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"mediastack.dev/hack/testevents"
)

const (
	// stagesFile is written by .ci/run. Its first line has facts, and each other one a stage.
	stagesFile = "stages.tsv"
	// everything is the name of its last line, which a run that succeeded writes.
	everything = "everything"
)

// suite is a run of .ci/run.
type suite struct {
	cores     int
	process   time.Duration // from the start to the end of a process that does nothing
	goVersion string
	kind      string // cold or warm
	stages    []stage
	total     *stage // nil if the run failed or has not ended
	tests     []stageTests
}

// stage is one step of the run.
type stage struct {
	name                  string
	elapsed, user, system time.Duration
}

func (s stage) processor() time.Duration { return s.user + s.system }

// stageTests are the tests of one stage.
type stageTests struct {
	stage string
	*testevents.Run
}

// readSuite reads what .ci/run left in a folder.
func readSuite(dir string) (*suite, error) {
	path := filepath.Join(dir, stagesFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: .ci/run writes it", err)
	}
	read, err := parseStages(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no events of tests (*.json): .ci/run writes them", dir)
	}
	for _, file := range files {
		events, err := testevents.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if len(events.Packages) == 0 {
			return nil, fmt.Errorf("%s has no events", file)
		}
		read.tests = append(read.tests, stageTests{strings.TrimSuffix(filepath.Base(file), ".json"), events})
	}
	return read, nil
}

// parseStages reads the lines of stagesFile.
func parseStages(text string) (*suite, error) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	read := &suite{}
	if err := read.parseFacts(lines[0]); err != nil {
		return nil, fmt.Errorf("line 1: %w", err)
	}
	for number, line := range lines[1:] {
		one, err := parseStage(line)
		if err == nil && read.total != nil {
			err = fmt.Errorf("%q comes after %q", one.name, everything)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number+2, err)
		}
		if one.name == everything {
			read.total = &one
		} else {
			read.stages = append(read.stages, one)
		}
	}
	if len(read.stages) == 0 {
		return nil, errors.New("there are no stages")
	}
	return read, nil
}

// parseFacts reads the first line: cores, microseconds of a process, version of Go, and the kind of the run.
func (s *suite) parseFacts(line string) error {
	facts := map[string]string{}
	for _, field := range strings.Split(line, "\t") {
		name, value, _ := strings.Cut(field, "=")
		facts[name] = value
	}
	var err error
	if s.cores, err = strconv.Atoi(facts["cores"]); err != nil || s.cores < 1 {
		return fmt.Errorf("cores=%q is no number of cores", facts["cores"])
	}
	process, err := strconv.Atoi(facts["process"])
	if err != nil || process < 1 {
		return fmt.Errorf("process=%q is no number of microseconds", facts["process"])
	}
	s.process = time.Duration(process) * time.Microsecond
	if s.goVersion = facts["go"]; s.goVersion == "" {
		return errors.New("go= is missing")
	}
	if s.kind = facts["kind"]; s.kind != "cold" && s.kind != "warm" {
		return fmt.Errorf("kind=%q is neither cold nor warm", s.kind)
	}
	return nil
}

// parseStage reads the line of a stage: its name, and seconds elapsed, of user and of system.
func parseStage(line string) (stage, error) {
	fields := strings.Split(line, "\t")
	if len(fields) != 4 || fields[0] == "" {
		return stage{}, fmt.Errorf("%q is no stage: name, elapsed, user and system seconds, with a tab between them", line)
	}
	var times [3]time.Duration
	for i, field := range fields[1:] {
		seconds, err := strconv.ParseFloat(field, 64)
		if err != nil || seconds < 0 || math.IsInf(seconds, 0) || math.IsNaN(seconds) {
			return stage{}, fmt.Errorf("%q is no number of seconds", field)
		}
		times[i] = time.Duration(math.Round(seconds*1000)) * time.Millisecond
	}
	return stage{fields[0], times[0], times[1], times[2]}, nil
}
