package mcptasks

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// Transcript is what a model did.
type Transcript struct {
	Task string `json:"task"`
	// Plan is set if the calls were not carried out: an argument may be a reference such as $1.mediaId, to the result of the first call.
	Plan    bool     `json:"plan,omitempty"`
	Calls   []Made   `json:"calls"`
	Answers []string `json:"answers"` // one, and one more after Then
	// Known are the ids of the given items, and other values that the task has.
	Known map[string]string `json:"known,omitempty"`
}

// Made is a call that a model made.
type Made struct {
	Tool      string          `json:"tool"`
	Arguments map[string]any  `json:"arguments,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     string          `json:"error,omitempty"`
	// Second is set for a call after Then.
	Second bool `json:"second,omitempty"`
}

// Score says whether a transcript is right.
type Score struct {
	Task string `json:"task"`
	// Wrong says what is; empty = all is right.
	Wrong string `json:"wrong,omitempty"`
	// Calls are those that were made, Expected those of the shortest right way, and Errors those that failed.
	Calls    int `json:"calls"`
	Expected int `json:"expected"`
	Errors   int `json:"errors"`
}

// Right reports whether the transcript is right.
func (s Score) Right() bool { return s.Wrong == "" }

// maxReads is how many calls that only read may come beside the expected ones. A model that reads the whole account for each task costs its user.
const maxReads = 8

// ScoreOf scores a transcript. reads reports whether a tool changes nothing.
func ScoreOf(task Task, transcript Transcript, reads func(tool string) bool) Score {
	score := Score{Task: task.Name, Calls: len(transcript.Calls), Expected: -1}
	for _, call := range transcript.Calls {
		if call.Error != "" {
			score.Errors++
		}
	}
	sequences := task.Sequences()
	nearest, most := "", -1
	known := values(transcript.Known)
	for _, sequence := range sequences {
		if score.Expected < 0 || len(sequence) < score.Expected {
			score.Expected = len(sequence)
		}
		m := matching{calls: sequence, transcript: transcript, reads: reads}
		if m.run(0, 0, values(transcript.Known), 0) {
			nearest, known = "", m.known
			break
		}
		if m.reached > most {
			nearest, most = m.why, m.reached
		}
	}
	score.Wrong = nearest
	if score.Wrong == "" {
		score.Wrong = wrongAnswer(task, transcript, known)
	}
	return score
}

// matching finds the expected calls among those that were made.
type matching struct {
	calls      []Call
	transcript Transcript
	reads      func(tool string) bool
	// reached is how many expected calls were found at most, and why what is missing or wrong then.
	reached int
	why     string
	// known are the values that calls have saved, once all were found.
	known values
}

// run reports whether the calls that are left are right, from an expected call and a made one on.
func (m *matching) run(expected, made int, known values, extra int) bool {
	if made == len(m.transcript.Calls) {
		if expected == len(m.calls) {
			m.known = known
			return true
		}
		m.note(expected, fmt.Sprintf("%s was not called as expected: %s", m.calls[expected].Tool, describe(m.calls[expected])))
		return false
	}
	got := m.transcript.Calls[made]
	if expected < len(m.calls) && m.fits(m.calls[expected], got, known) {
		if next, err := known.save(m.calls[expected], got.Result, m.transcript.Plan); err != nil {
			m.note(expected, err.Error())
		} else if m.run(expected+1, made+1, next, extra) {
			return true
		}
	}
	// A call that failed has changed nothing.
	if m.reads(got.Tool) || got.Error != "" {
		if extra == maxReads {
			m.note(expected, fmt.Sprintf("%d calls come beside the expected ones", extra+1))
			return false
		}
		return m.run(expected, made+1, known, extra+1)
	}
	text, _ := json.Marshal(got.Arguments) // which was read from JSON
	m.note(expected, fmt.Sprintf("the call %d is not expected there: %s %s", made+1, got.Tool, text))
	return false
}

func (m *matching) note(reached int, why string) {
	if reached >= m.reached || m.why == "" {
		m.reached, m.why = reached, why
	}
}

func (m *matching) fits(want Call, got Made, known values) bool {
	if want.Tool != got.Tool || want.Second != got.Second || (want.Fails != "") != (got.Error != "") && !m.transcript.Plan {
		return false
	}
	for name, value := range want.Arguments {
		argument, sent := got.Arguments[name]
		if !known.matches(value, argument, sent, m.transcript.Plan) {
			return false
		}
	}
	return true
}

func describe(call Call) string {
	text, err := json.Marshal(call.Arguments)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// question matches an answer that asks: a question, or a request to the user.
var question = regexp.MustCompile(`(?i)\?|\b(please|let me know|could you|can you|confirm|tell me)\b`)

// wrongAnswer returns what is wrong in the last answer.
func wrongAnswer(task Task, transcript Transcript, known values) string {
	if len(transcript.Answers) == 0 || strings.TrimSpace(transcript.Answers[len(transcript.Answers)-1]) == "" {
		return "it says nothing at the end"
	}
	answer := transcript.Answers[len(transcript.Answers)-1]
	if task.Answer.Asks && !question.MatchString(answer) {
		return "it does not ask the user: " + answer
	}
	for _, pattern := range task.Answer.Says {
		if !answerMatches(pattern, answer, transcript.Plan, known) {
			return fmt.Sprintf("the answer lacks %q: %s", pattern, answer)
		}
	}
	for _, pattern := range task.Answer.NotSays {
		if answerMatches(pattern, answer, transcript.Plan, known) {
			return fmt.Sprintf("the answer has %q: %s", pattern, answer)
		}
	}
	return ""
}

func answerMatches(pattern, answer string, plan bool, known values) bool {
	if plan && variable.MatchString(pattern) {
		return true // nothing was called, so the model cannot know it
	}
	expanded, err := known.quoted().expand(pattern)
	if err != nil {
		return false
	}
	found, err := regexp.MatchString("(?is)"+expanded.(string), answer)
	return err == nil && found
}
