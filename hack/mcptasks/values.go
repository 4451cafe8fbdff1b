package mcptasks

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// values are what ${name} stands for.
type values map[string]string

// reference matches a value in a plan: the result of a call before.
var reference = regexp.MustCompile(`^\$(\d+)\.[A-Za-z0-9_.\[\]]+$`)

var variable = regexp.MustCompile(`\$\{([A-Za-z0-9_]+)\}`)

// expand replaces ${name} in the texts of a value. It reports the names that are not known.
func (v values) expand(in any) (out any, err error) {
	switch value := in.(type) {
	case string:
		out := variable.ReplaceAllStringFunc(value, func(match string) string {
			text, ok := v[match[2:len(match)-1]]
			if !ok && err == nil {
				err = fmt.Errorf("%s is not known", match)
			}
			return text
		})
		return out, err
	case []any:
		list := make([]any, len(value))
		for i, one := range value {
			if list[i], err = v.expand(one); err != nil {
				return nil, err
			}
		}
		return list, nil
	case map[string]any:
		object := make(map[string]any, len(value))
		for name, one := range value {
			if object[name], err = v.expand(one); err != nil {
				return nil, err
			}
		}
		return object, nil
	}
	return in, nil
}

// quoted returns the values as parts of regular expressions.
func (v values) quoted() values {
	quoted := make(values, len(v))
	for name, text := range v {
		quoted[name] = regexp.QuoteMeta(text)
	}
	return quoted
}

// matches reports whether an argument is as expected. In a plan, an id is a reference to a call before.
func (v values) matches(want any, got any, sent, plan bool) bool {
	if rule, ok := want.(map[string]any); ok && len(rule) == 1 {
		for name, operand := range rule {
			switch name {
			case "$absent":
				return !sent || got == nil || got == ""
			case "$matches":
				pattern, err := v.quoted().expand(operand)
				if err != nil {
					return false
				}
				text, _ := got.(string)
				found, err := regexp.MatchString("(?is)"+fmt.Sprint(pattern), text)
				return sent && err == nil && found
			case "$oneOf":
				return slices.ContainsFunc(operand.([]any), func(one any) bool { return v.matches(one, got, sent, plan) })
			case "$set":
				return v.sameSet(operand.([]any), got, plan)
			}
		}
	}
	if !sent {
		return false
	}
	if text, ok := want.(string); ok && plan && variable.MatchString(text) {
		said, _ := got.(string)
		return reference.MatchString(said) || v.equal(want, got)
	}
	if object, ok := want.(map[string]any); ok {
		other, ok := got.(map[string]any)
		if !ok || len(other) != len(object) {
			return false
		}
		for name, one := range object {
			value, sent := other[name]
			if !v.matches(one, value, sent, plan) {
				return false
			}
		}
		return true
	}
	if list, ok := want.([]any); ok {
		other, ok := got.([]any)
		if !ok || len(other) != len(list) {
			return false
		}
		for i, one := range list {
			if !v.matches(one, other[i], true, plan) {
				return false
			}
		}
		return true
	}
	return v.equal(want, got)
}

func (v values) equal(want, got any) bool {
	expanded, err := v.expand(want)
	return err == nil && reflect.DeepEqual(plain(expanded), plain(got))
}

// sameSet compares lists whose order says nothing.
func (v values) sameSet(want []any, got any, plan bool) bool {
	list, ok := got.([]any)
	if !ok || len(list) != len(want) {
		return false
	}
	left := slices.Clone(list)
	for _, one := range want {
		at := slices.IndexFunc(left, func(other any) bool { return v.matches(one, other, true, plan) })
		if at < 0 {
			return false
		}
		left = slices.Delete(left, at, at+1)
	}
	return true
}

// plain returns a value as it is in JSON: numbers of YAML are integers.
func plain(value any) any {
	text, err := json.Marshal(value)
	if err != nil {
		return value
	}
	var out any
	if json.Unmarshal(text, &out) != nil {
		return value
	}
	return out
}

// at returns a value of a document by a path such as mediaItems.0.mediaId.
func at(document json.RawMessage, path string) (any, bool) {
	var value any
	if json.Unmarshal(document, &value) != nil {
		return nil, false
	}
	for part := range strings.SplitSeq(path, ".") {
		switch inner := value.(type) {
		case map[string]any:
			next, ok := inner[part]
			if !ok {
				return nil, false
			}
			value = next
		case []any:
			n, err := strconv.Atoi(part)
			if err != nil || n < 0 || n >= len(inner) {
				return nil, false
			}
			value = inner[n]
		default:
			return nil, false
		}
	}
	return value, true
}

// save records the values of a result that later calls need. In a plan there are none: see matches.
func (v values) save(call Call, result json.RawMessage, plan bool) (values, error) {
	if len(call.Save) == 0 {
		return v, nil
	}
	known := values{}
	maps.Copy(known, v)
	for name, path := range call.Save {
		value, ok := at(result, path)
		if !ok && !plan {
			return nil, fmt.Errorf("the result of %s has no %s: %s", call.Tool, path, result)
		}
		known[name] = fmt.Sprint(value)
	}
	return known, nil
}

// concrete returns the arguments with which a call is carried out.
func (c Call) concrete(known values) (map[string]any, error) {
	made := map[string]any{}
	for name, value := range c.Arguments {
		if rule, ok := value.(map[string]any); ok && len(rule) == 1 {
			if list, ok := rule["$set"]; ok {
				made[name] = list
				continue
			}
			if _, special := rule["$absent"]; special || rule["$matches"] != nil || rule["$oneOf"] != nil {
				continue
			}
		}
		made[name] = value
	}
	maps.Copy(made, c.Example)
	expanded, err := known.expand(made)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Tool, err)
	}
	return expanded.(map[string]any), nil
}
