package httpapi

import (
	"bytes"
	"encoding/json"
	"strings"

	"mediastack.dev/runtime/fault"
)

// IgnoreCase folds names as encoding/json does when it matches them with fields.
func IgnoreCase(name string) string {
	return strings.ToLower(strings.ToUpper(name)) // upper first: encoding/json matches U+017F with s
}

// ExactCase does not fold names.
func ExactCase(name string) string { return name }

// container is a JSON object or an array that is being read.
type container struct {
	names   map[string]struct{} // nil for an array
	atValue bool                // the next token of an object is a value, not a name
}

// RejectDuplicateFields returns Invalid for a JSON text in which an object, at any depth, has a
// duplicate field: readers differ in which of the two counts. fold returns the form in which names
// are compared. A text that is not JSON passes; its reader rejects it.
func RejectDuplicateFields(text []byte, fold func(name string) string) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var open []*container
	for {
		token, err := decoder.Token()
		if err != nil {
			return nil //nolint:nilerr // the end, or no JSON: see above
		}
		if token == json.Delim('}') || token == json.Delim(']') {
			open = open[:len(open)-1]
			continue
		}
		if len(open) > 0 {
			if err := open[len(open)-1].add(token, fold); err != nil {
				return err
			}
		}
		switch token {
		case json.Delim('{'):
			open = append(open, &container{names: map[string]struct{}{}})
		case json.Delim('['):
			open = append(open, &container{})
		}
	}
}

// add processes the next token: a name or a value.
func (c *container) add(token json.Token, fold func(string) string) error {
	if c.names == nil {
		return nil
	}
	if c.atValue {
		c.atValue = false
		return nil
	}
	c.atValue = true
	name, _ := token.(string) // of a field
	folded := fold(name)
	if _, duplicate := c.names[folded]; duplicate {
		return fault.New(fault.Invalid, "duplicate field %q", Truncate(name))
	}
	c.names[folded] = struct{}{}
	return nil
}
