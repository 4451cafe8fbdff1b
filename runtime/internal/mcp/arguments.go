package mcp

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/media"
)

// arguments are the arguments of a call. err is the first error; the use cases check ranges.
type arguments struct {
	fields map[string]json.RawMessage
	// sources are the tools that ids of items are from, for the caller.
	sources string
	err     error
}

// readArguments decodes the arguments of a call. It rejects unknown and missing ones: a misspelt
// argument that is silently ignored would seem to have been applied. null means absent, and so does
// an optional argument that is an empty string.
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
			if httpapi.IsNull(a.fields[name]) || httpapi.Absent(a.fields[name]) && !slices.Contains(of.input.Required, name) {
				delete(a.fields, name)
			}
			continue
		}
		known := strings.Join(of.input.Properties.names(), ", ")
		if known == "" {
			known = "none"
		}
		a.err = fault.New(fault.Invalid, "unknown argument %q; %s allows: %s", httpapi.Truncate(name), of.name(), known)
		return a
	}
	for _, name := range of.input.Required {
		if _, ok := a.fields[name]; !ok {
			a.err = fault.New(fault.Invalid, "%s is missing: %s needs %s", name, of.name(), strings.Join(of.input.Required, ", "))
			return a
		}
	}
	return a
}

var null = []byte("null")

// read decodes an argument, if it is there.
func read[T any](a *arguments, name, kind string) *T {
	text, ok := a.fields[name]
	if !ok || a.err != nil {
		return nil
	}
	var value T
	if err := json.Unmarshal(text, &value); err != nil {
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

// texts returns an object of strings, or nil if the argument is absent.
func (a *arguments) texts(name string) map[string]string {
	text, ok := a.fields[name]
	if !ok || a.err != nil {
		return nil
	}
	texts, err := httpapi.ReadStrings(name, text)
	a.err = err
	return texts
}

// access returns public or private, or "" if the argument is missing.
func (a *arguments) access(name string) media.Access {
	value := media.Access(a.text(name))
	if _, sent := a.fields[name]; sent && a.err == nil && value != media.Public && value != media.Private {
		a.err = fault.New(fault.Invalid, "%s must be %s or %s", name, media.Public, media.Private)
	}
	return value
}

func (a *arguments) boolean(name string) *bool { return read[bool](a, name, "true or false") }

func (a *arguments) integer(name string) *int {
	value, ok := a.fields[name]
	if !ok || a.err != nil {
		return nil
	}
	number, ok := httpapi.Integer(value)
	if !ok {
		a.err = fault.New(fault.Invalid, "%s must be an integer", name)
		return nil
	}
	return &number
}

// integer64 is integer for sizes in bytes.
func (a *arguments) integer64(name string) *int64 {
	value, ok := a.fields[name]
	if !ok || a.err != nil {
		return nil
	}
	number, ok := httpapi.Integer64(value)
	if !ok {
		a.err = fault.New(fault.Invalid, "%s must be an integer", name)
		return nil
	}
	return &number
}

func (a *arguments) id(name string) uuid.UUID { return a.idFrom(name, a.sources) }

func (a *arguments) jobID(name string) uuid.UUID {
	return a.idFrom(name, string(account.UploadMediaFromURL))
}

// idFrom returns an id that the caller has from tools.
func (a *arguments) idFrom(name, tools string) uuid.UUID {
	text := a.text(name)
	id, err := uuid.Parse(text)
	if a.err == nil && (err != nil || len(text) != 36) {
		if tools != "" {
			tools = " from " + tools
		}
		a.err = fault.New(fault.Invalid, "%s must be an id%s, such as 0197f2a4-7c1e-7d3a-9b2e-5f6a7b8c9d0e", name, tools)
	}
	return id
}
