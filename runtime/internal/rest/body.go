package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/httpapi"
)

// maxBody bounds the JSON body of a request, in bytes.
const maxBody = 64 << 10

// readJSON reads an optional JSON object into the fields of a struct; an empty body leaves target
// unchanged, and so does every field that is absent. It rejects unknown fields: a misspelt group
// would bind a signature, or a list, to no group.
func readJSON(w http.ResponseWriter, r *http.Request, target any) error {
	text, err := readBody(w, r)
	if err != nil || len(text) == 0 {
		return err
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal(text, &values); err != nil {
		return fault.Wrap(err, fault.Invalid, "the body must be a JSON object")
	}
	query, fields := r.URL.Query(), fieldsOf(target)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		field, known := fields[name]
		switch {
		case !known:
			return fault.New(fault.Invalid, "unknown field %q", httpapi.Truncate(name))
		case httpapi.Absent(values[name]):
			continue
		case query.Has(name):
			return fault.New(fault.Invalid, "%s must be sent once, in the query or in the body", name)
		}
		if err := readField(field, name, values[name]); err != nil {
			return err
		}
	}
	return nil
}

// readNoFields reads a body that must be empty or an object without fields: a field that is
// silently ignored would seem to have been applied.
func readNoFields(w http.ResponseWriter, r *http.Request) error { return readJSON(w, r, &struct{}{}) }

// fieldsOf returns the fields of a struct by their JSON names, given a pointer to it.
func fieldsOf(target any) map[string]reflect.Value {
	value := reflect.ValueOf(target).Elem()
	fields := map[string]reflect.Value{}
	for i := range value.NumField() {
		name, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ",")
		fields[name] = value.Field(i)
	}
	return fields
}

// kinds are the values of optional fields, for errors.
var kinds = map[reflect.Kind]string{reflect.String: "a string", reflect.Int: "an integer", reflect.Int64: "an integer", reflect.Bool: "true or false",
	reflect.Slice: "a list of strings"}

// readField sets an optional field, which is a pointer to a value of one of kinds.
func readField(field reflect.Value, name string, value json.RawMessage) error {
	if meta, ok := field.Interface().(*map[string]string); ok && meta != nil && name == "meta" {
		return readMeta(*meta, name, value)
	}
	kind := kinds[field.Type().Elem().Kind()]
	if field.Type().Elem().Kind() == reflect.Map {
		if _, err := httpapi.ReadStrings(name, value); err != nil {
			return err
		}
	}
	switch field.Type().Elem().Kind() { //nolint:exhaustive // other values are as JSON has them
	case reflect.Int:
		if number, ok := httpapi.Integer(value); ok {
			value = strconv.AppendInt(nil, int64(number), 10)
		}
	case reflect.Int64:
		if number, ok := httpapi.Integer64(value); ok {
			value = strconv.AppendInt(nil, number, 10)
		}
	}
	if err := json.Unmarshal(value, field.Addr().Interface()); err != nil {
		return fault.New(fault.Invalid, "%s must be %s", name, kind)
	}
	return nil
}

// readMeta adds the filters by metadata of a body to those of the query.
func readMeta(meta map[string]string, name string, value json.RawMessage) error {
	sent, err := httpapi.ReadStrings(name, value)
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(sent)) {
		if _, twice := meta[key]; twice {
			return fault.New(fault.Invalid, "%s.%s must be sent once, in the query or in the body", name, httpapi.Truncate(key))
		}
		meta[key] = sent[key]
	}
	return nil
}

// readBody returns the JSON object in the body, or nothing if the body is empty. It rejects an
// object with a duplicate field.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	return readBodyOf(w, r, maxBody)
}

// readBodyOf is readBody for a body of up to limit bytes.
func readBodyOf(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	httpapi.ReadDocument(r.Context(), true)
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var tooLong *http.MaxBytesError
	var known *fault.Error
	switch {
	case errors.As(err, &known): // the credential was revoked while the body arrived
		return nil, err
	case errors.As(err, &tooLong):
		return nil, fault.Wrap(err, fault.TooLarge, "the body must be at most %d bytes", limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fault.Wrap(err, fault.Invalid, "the body did not arrive in time")
	case err != nil:
		return nil, fault.Wrap(err, fault.Invalid, "unexpected end of request body")
	}
	if text = bytes.Trim(text, " \t\r\n"); len(text) > 0 && text[0] != '{' {
		return nil, fault.New(fault.Invalid, "the body must be a JSON object")
	}
	if !utf8.Valid(text) { // encoding/json would replace the invalid bytes
		return nil, fault.New(fault.Invalid, "the body must be UTF-8")
	}
	if httpapi.HasLoneSurrogate(text) {
		return nil, fault.New(fault.Invalid, "the body has an escape of half a character, such as \\ud800 without the other half")
	}
	return text, httpapi.RejectDuplicateFields(text, httpapi.IgnoreCase)
}
