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
	"strings"
	"unicode/utf8"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/httpapi"
)

// maxBody bounds the JSON body of a request, in bytes.
const maxBody = 64 << 10

// unknownFieldPrefix begins the error of encoding/json for a field that the target lacks.
const unknownFieldPrefix = "json: unknown field "

var null = []byte("null")

// readJSON reads an optional JSON object; an empty body leaves target unchanged, and so does
// every field that the object lacks. It rejects unknown fields: a misspelt group would bind a
// signature, or a list, to no group. It rejects null, which a client may mean as "not set" or as
// "none".
func readJSON(w http.ResponseWriter, r *http.Request, target any) error {
	text, err := readBody(w, r)
	if err != nil || len(text) == 0 {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err = decoder.Decode(target); err == nil {
		if _, more := decoder.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("data after the object")
		}
	}
	var mismatch *json.UnmarshalTypeError
	switch {
	case err == nil:
		return checkFields(r, text, target)
	case strings.HasPrefix(err.Error(), unknownFieldPrefix):
		return fault.Wrap(err, fault.Invalid, "unknown field %s", strings.TrimPrefix(err.Error(), unknownFieldPrefix))
	case errors.As(err, &mismatch) && mismatch.Field != "":
		return fault.Wrap(err, fault.Invalid, "%s must be %s", mismatch.Field, jsonTypeName(mismatch))
	}
	return fault.Wrap(err, fault.Invalid, "the body must be a JSON object")
}

// readNoFields reads a body that must be empty or an object without fields: a field that is
// silently ignored would seem to have been applied.
func readNoFields(w http.ResponseWriter, r *http.Request) error { return readJSON(w, r, &struct{}{}) }

// checkFields rejects an object with a field that is null, that the query has as well, or
// whose name differs from a field's in case, which encoding/json ignores.
func checkFields(r *http.Request, text []byte, target any) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return fault.Wrap(err, fault.Invalid, "the body must be a JSON object")
	}
	query := r.URL.Query()
	known := fieldsOf(target)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(known, name) {
			return fault.New(fault.Invalid, "unknown field %q", httpapi.Truncate(name))
		}
		if bytes.Equal(fields[name], null) {
			return fault.New(fault.Invalid, "%s must not be null: leave it out", name)
		}
		if query.Has(name) {
			return fault.New(fault.Invalid, "%s must be sent once, in the query or in the body", name)
		}
	}
	return nil
}

// fieldsOf returns the names of the JSON fields of a struct, given a pointer to it.
func fieldsOf(target any) []string {
	kind := reflect.TypeOf(target).Elem()
	names := make([]string, kind.NumField())
	for i := range names {
		names[i], _, _ = strings.Cut(kind.Field(i).Tag.Get("json"), ",")
	}
	return names
}

// jsonTypeName returns the expected type of a field, for the error text.
func jsonTypeName(mismatch *json.UnmarshalTypeError) string {
	switch mismatch.Type.Kind().String() {
	case "int":
		return "an integer"
	case "string":
		return "a string"
	}
	return "of another type"
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
