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

// readField sets an optional field, which is a pointer to an integer or to a string.
func readField(field reflect.Value, name string, value json.RawMessage) error {
	kind := "a string"
	if field.Type().Elem().Kind() == reflect.Int {
		kind = "an integer"
		if number, ok := httpapi.Integer(value); ok {
			value = strconv.AppendInt(nil, int64(number), 10)
		}
	}
	if err := json.Unmarshal(value, field.Addr().Interface()); err != nil {
		return fault.New(fault.Invalid, "%s must be %s", name, kind)
	}
	return nil
}

// readBody returns the JSON object in the body, or nothing if the body is empty. It rejects an
// object with a duplicate field.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLong *http.MaxBytesError
	var known *fault.Error
	switch {
	case errors.As(err, &known): // the credential was revoked while the body arrived
		return nil, err
	case errors.As(err, &tooLong):
		return nil, fault.Wrap(err, fault.TooLarge, "the body must be at most %d bytes", maxBody)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fault.Wrap(err, fault.Invalid, "the body did not arrive in time")
	case err != nil:
		return nil, fault.Wrap(err, fault.Invalid, "unexpected end of request body")
	}
	if text = bytes.TrimSpace(text); len(text) > 0 && text[0] != '{' {
		return nil, fault.New(fault.Invalid, "the body must be a JSON object")
	}
	if !utf8.Valid(text) { // encoding/json would replace the invalid bytes
		return nil, fault.New(fault.Invalid, "the body must be UTF-8")
	}
	return text, httpapi.RejectDuplicateFields(text, httpapi.IgnoreCase)
}
