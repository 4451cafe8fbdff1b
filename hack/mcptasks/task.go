package mcptasks

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"
)

//go:embed tasks.yaml
var tasksFile []byte

// Task is something that a user asks for in plain words, with the calls that are expected.
type Task struct {
	Name string `yaml:"name"`
	// Toolsets are those that the account has besides core.
	Toolsets []string `yaml:"toolsets"`
	// Approval are the changes that wait for the owner: delete, publish, settings.
	Approval []string `yaml:"approval"`
	// ReadOnly has the account offer tools that change nothing alone.
	ReadOnly bool `yaml:"readOnly"`
	// Given are the items that the account has before.
	Given []Given `yaml:"given"`
	// Task is what the user says. ${today} is the day, and ${name} the id of a given item.
	Task string `yaml:"task"`
	// Then is what happens after the answer of the model, and what the user says then; nil = the task ends.
	Then *Then `yaml:"then"`
	// Calls are expected in this order. Calls that only read may come between them.
	Calls []Call `yaml:"calls"`
	// Alternatives are other calls that are as good as Calls.
	Alternatives [][]Call `yaml:"alternatives"`
	Answer       Answer   `yaml:"answer"`
}

// Given is an item that exists before the task.
type Given struct {
	As      string `yaml:"as"` // the name of its id: ${as}
	File    string `yaml:"file"`
	Caption string `yaml:"caption"`
	Group   string `yaml:"group"`
	Access  string `yaml:"access"`
	// Metadata are its pairs.
	Metadata map[string]string `yaml:"metadata"`
	// Image is the color of an image, as #rrggbb, of Width x Height; without it the file is a text of Bytes.
	Image         string `yaml:"image"`
	Width, Height int
	Bytes         int `yaml:"bytes"`
	// State is sealed, draft or deleted.
	State string `yaml:"state"`
}

// Then is what comes after the first answer.
type Then struct {
	// Upload is where the user uploads a file: a value that a call has saved. Empty = the user uploads nothing.
	Upload string `yaml:"upload"`
	Says   string `yaml:"says"`
}

// Call is an expected call.
type Call struct {
	Tool string `yaml:"tool"`
	// Arguments are those that matter: a value, or an object with one of $matches (a regular expression), $oneOf, $set (a list in any order)
	// and $absent.
	Arguments map[string]any `yaml:"arguments"`
	// Example are the other arguments with which the tests carry the call out, and values for those that are not plain.
	Example map[string]any `yaml:"example"`
	// Save are values of the result that later calls need, by the name: a path such as mediaItems.0.mediaId.
	Save map[string]string `yaml:"save"`
	// Returns are values that the result must have in the tests, by their paths.
	Returns map[string]any `yaml:"returns"`
	// Fails is a part of the error that the call has to have; empty = it succeeds.
	Fails string `yaml:"fails"`
	// Second is set for a call after Then.
	Second bool `yaml:"second"`
	// AnyOrder are calls in any order, in the place of this one.
	AnyOrder []Call `yaml:"anyOrder"`
}

// Answer is what the model has to say at the end.
type Answer struct {
	// Asks is set if the model has to ask the user before it changes something.
	Asks bool `yaml:"asks"`
	// Says and NotSays are regular expressions that the text matches, and does not; the case does not matter.
	Says    []string `yaml:"says"`
	NotSays []string `yaml:"notSays"`
	// Example is an answer that is right.
	Example string `yaml:"example"`
}

// The states of a given item.
const (
	sealed  = "sealed"
	draft   = "draft"
	deleted = "deleted"
)

// Tasks returns the tasks of tasks.yaml.
func Tasks() ([]Task, error) { return ReadTasks(tasksFile) }

// ReadTasks reads tasks, and checks their form.
func ReadTasks(text []byte) ([]Task, error) {
	var tasks []Task
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&tasks); err != nil {
		return nil, fmt.Errorf("tasks: %w", err)
	}
	names := map[string]bool{}
	for _, task := range tasks {
		if err := task.validate(); err != nil {
			return nil, fmt.Errorf("task %q: %w", task.Name, err)
		}
		if names[task.Name] {
			return nil, fmt.Errorf("two tasks are named %q", task.Name)
		}
		names[task.Name] = true
	}
	return tasks, nil
}

func (t Task) validate() error {
	if t.Name == "" || t.Task == "" || t.Answer.Example == "" {
		return errors.New("it needs name, task and answer.example")
	}
	if len(t.Calls) == 0 && len(t.Alternatives) > 0 {
		return errors.New("it has alternatives to no calls")
	}
	for _, pattern := range slices.Concat(t.Answer.Says, t.Answer.NotSays) {
		if _, err := regexp.Compile(pattern); err != nil {
			return err
		}
	}
	for _, given := range t.Given {
		if !slices.Contains([]string{sealed, draft, deleted}, given.State) || given.As == "" || given.File == "" {
			return fmt.Errorf("the given item %q needs as, file, and state: sealed, draft or deleted", given.As)
		}
		if (given.Image != "") != (given.Width > 0 && given.Height > 0) {
			return fmt.Errorf("the image %q needs a color, a width and a height", given.As)
		}
	}
	return nil
}

// Sequences returns the sequences of calls that are right: those of Calls, and the alternatives. A block of any order makes one of each order.
func (t Task) Sequences() [][]Call {
	var all [][]Call
	for _, calls := range append([][]Call{t.Calls}, t.Alternatives...) {
		all = append(all, orders(calls)...)
	}
	return all
}

// orders returns a sequence for each order of the blocks.
func orders(calls []Call) [][]Call {
	made := [][]Call{{}}
	for _, call := range calls {
		parts := [][]Call{{call}}
		if len(call.AnyOrder) > 0 {
			parts = permutations(call.AnyOrder)
		}
		var longer [][]Call
		for _, begin := range made {
			for _, part := range parts {
				longer = append(longer, slices.Concat(begin, part))
			}
		}
		made = longer
	}
	return made
}

func permutations(of []Call) [][]Call {
	if len(of) == 1 {
		return [][]Call{of}
	}
	var all [][]Call
	for i, first := range of {
		for _, rest := range permutations(slices.Concat(of[:i:i], of[i+1:])) {
			all = append(all, append([]Call{first}, rest...))
		}
	}
	return all
}
