package httpapi

import (
	"encoding/json"
	"maps"
	"slices"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
)

// ReadMetadata reads the metadata of an upload: a JSON object of strings. An empty text and null are
// none. Package media bounds the pairs.
func ReadMetadata(text string) (media.Metadata, error) {
	if text == "" || IsNull(json.RawMessage(text)) {
		return media.Metadata{}, nil
	}
	if HasLoneSurrogate([]byte(text)) {
		return nil, fault.New(fault.Invalid, "metadata has an escape of half a character, such as \\ud800 without the other half")
	}
	if err := RejectDuplicateFields([]byte(text), ExactCase); err != nil {
		return nil, err
	}
	return ReadStrings("metadata", json.RawMessage(text))
}

// ReadPairs reads the field name: an object of strings, or null for a key. An Invalid fault names the
// first key with another value.
func ReadPairs(name string, text json.RawMessage) (map[string]*string, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil || members == nil {
		return nil, fault.New(fault.Invalid, `%s must be an object of strings, such as {"album": "2026"}`, name)
	}
	pairs := make(map[string]*string, len(members))
	for _, key := range slices.Sorted(maps.Keys(members)) {
		var value *string
		if err := json.Unmarshal(members[key], &value); err != nil {
			return nil, notString(name, key)
		}
		pairs[key] = value
	}
	return pairs, nil
}

// ReadStrings is ReadPairs for an object without null.
func ReadStrings(name string, text json.RawMessage) (map[string]string, error) {
	pairs, err := ReadPairs(name, text)
	if err != nil {
		return nil, err
	}
	values := make(map[string]string, len(pairs))
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		if pairs[key] == nil {
			return nil, notString(name, key)
		}
		values[key] = *pairs[key]
	}
	return values, nil
}

func notString(name, key string) error {
	return fault.New(fault.Invalid, "%s.%s must be a string", name, Truncate(key))
}

// Or returns names as a list in a sentence: "a, b or c".
func Or(names []string) string {
	list := ""
	for i, name := range names {
		switch {
		case i == 0:
		case i == len(names)-1:
			list += " or "
		default:
			list += ", "
		}
		list += name
	}
	return list
}
