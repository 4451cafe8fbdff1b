package rest

import (
	"bytes"
	"encoding/json"
	"strings"

	"mediastack.dev/runtime/fault"
)

// object is a JSON object, or an array, that is being read.
type object struct {
	names   map[string]struct{} // nil for an array
	atValue bool                // the next token is a value and not a name
}

// checkDuplicates rejects a JSON text in which an object, at any depth, has a field twice:
// package json would take the last one. Case is ignored, as package json does when it
// matches names. A text that is not JSON passes; its reader rejects it.
func checkDuplicates(text []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var open []*object
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
			if err := open[len(open)-1].take(token); err != nil {
				return err
			}
		}
		switch token {
		case json.Delim('{'):
			open = append(open, &object{names: map[string]struct{}{}})
		case json.Delim('['):
			open = append(open, &object{})
		}
	}
}

// take notes the next name or value.
func (o *object) take(token json.Token) error {
	if o.names == nil {
		return nil
	}
	if o.atValue {
		o.atValue = false
		return nil
	}
	o.atValue = true
	name, _ := token.(string)                        // of a field
	folded := strings.ToLower(strings.ToUpper(name)) // upper first: package json takes U+017F for an s
	if _, twice := o.names[folded]; twice {
		return fault.New(fault.Invalid, "the field %q must be sent once", shown(name))
	}
	o.names[folded] = struct{}{}
	return nil
}
