package mcp

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/redact"
)

// arguments are what a tool was called with. The first thing that is wrong is kept in
// err; ranges are for the use cases to judge.
type arguments struct {
	fields map[string]json.RawMessage
	err    error
}

// readArguments refuses what the tool does not know, and misses what it needs: an
// argument that is misspelt must not seem to have been taken.
func readArguments(of tool, text json.RawMessage) *arguments {
	a := &arguments{}
	if text = bytes.TrimSpace(text); len(text) > 0 && !bytes.Equal(text, null) {
		if err := json.Unmarshal(text, &a.fields); err != nil {
			a.err = fault.Wrap(err, fault.Invalid, "the arguments must be a JSON object")
			return a
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.fields)) {
		if of.input.Properties.has(name) {
			continue
		}
		known := strings.Join(of.input.Properties.names(), ", ")
		if known == "" {
			known = "none"
		}
		a.err = fault.New(fault.Invalid, "there is no argument %q: those of %s are %s", shown(name), of.name, known)
		return a
	}
	for _, name := range of.input.Required {
		if _, ok := a.fields[name]; !ok {
			a.err = fault.New(fault.Invalid, "%s is missing: %s needs %s", name, of.name, strings.Join(of.input.Required, ", "))
			return a
		}
	}
	return a
}

var null = []byte("null")

// shown keeps a client's word in an answer short.
func shown(name string) string {
	name = redact.Text(name) // a credential that is cut is not known for one
	if runes := []rune(name); len(runes) > 40 {
		return string(runes[:40]) + "..."
	}
	return name
}

// read decodes an argument, if it is there.
func read[T any](a *arguments, name, kind string) *T {
	text, ok := a.fields[name]
	if !ok || a.err != nil {
		return nil
	}
	var value T
	if err := json.Unmarshal(text, &value); err != nil || bytes.Equal(text, null) {
		a.err = fault.New(fault.Invalid, "%s must be %s", name, kind)
		return nil
	}
	return &value
}

func (a *arguments) text(name string) string {
	if value := read[string](a, name, "a string"); value != nil {
		return *value
	}
	return ""
}

// access is one of the two, or nothing when it was not sent. An empty one is neither: who
// sends it may mean either.
func (a *arguments) access(name string) media.Access {
	value := media.Access(a.text(name))
	if _, sent := a.fields[name]; sent && a.err == nil && value != media.Public && value != media.Private {
		a.err = fault.New(fault.Invalid, "%s must be %s or %s", name, media.Public, media.Private)
	}
	return value
}

func (a *arguments) boolean(name string) *bool { return read[bool](a, name, "true or false") }

// integer takes 80.0 too: a client's language may know one kind of number only.
func (a *arguments) integer(name string) *int {
	value := read[float64](a, name, "an integer")
	if value == nil {
		return nil
	}
	if *value != math.Trunc(*value) || math.Abs(*value) > math.MaxInt32 {
		a.err = fault.New(fault.Invalid, "%s must be an integer", name)
		return nil
	}
	whole := int(*value)
	return &whole
}

func (a *arguments) id(name string) uuid.UUID {
	text := a.text(name)
	id, err := uuid.Parse(text)
	if a.err == nil && (err != nil || len(text) != 36) {
		a.err = fault.New(fault.Invalid, "%s must be an id as upload_media and list_media give it, such as 0197f2a4-7c1e-7d3a-9b2e-5f6a7b8c9d0e", name)
	}
	return id
}
