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

// bodyLimit bounds the JSON that a request may carry, in bytes.
const bodyLimit = 64 << 10

// unknownField begins the error of package json for a field that the target lacks.
const unknownField = "json: unknown field "

// readJSON reads an optional JSON object; an empty body leaves target as it is, and
// so does every field that the object lacks. A field that nobody knows is refused: a
// misspelt group would bind a signature, or a list, to nothing. So is null, which a
// client may mean as "not set" or as "without".
func (a *API) readJSON(w http.ResponseWriter, r *http.Request, target any) error {
	text, err := a.readBody(w, r)
	if err != nil || len(text) == 0 {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err = decoder.Decode(target); err == nil {
		if _, more := decoder.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("something follows the object")
		}
	}
	var mismatch *json.UnmarshalTypeError
	switch {
	case err == nil:
		return checkFields(r, text, target)
	case strings.HasPrefix(err.Error(), unknownField):
		return fault.Wrap(err, fault.Invalid, "there is no field %s", strings.TrimPrefix(err.Error(), unknownField))
	case errors.As(err, &mismatch) && mismatch.Field != "":
		return fault.Wrap(err, fault.Invalid, "%s must be %s", mismatch.Field, kindOf(mismatch))
	}
	return fault.Wrap(err, fault.Invalid, "the body must be a JSON object")
}

// checkFields rejects an object with a field that is null, that the query has as well, or
// whose name is a field's in another case, which package json takes for the same.
func checkFields(r *http.Request, text []byte, target any) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return fault.Wrap(err, fault.Invalid, "the body must be a JSON object")
	}
	query := slices.Collect(maps.Keys(r.URL.Query()))
	known := fieldsOf(target)
	for _, name := range sorted(fields) {
		if !slices.Contains(known, name) {
			return fault.New(fault.Invalid, "there is no field %q", shown(name))
		}
		if bytes.Equal(fields[name], null) {
			return fault.New(fault.Invalid, "%s must not be null: leave it out", shown(name))
		}
		if slices.Contains(query, name) {
			return fault.New(fault.Invalid, "%s must be sent once, in the query or in the body", shown(name))
		}
	}
	return nil
}

// fieldsOf returns the names of the JSON fields of what a pointer points to, a struct.
func fieldsOf(target any) []string {
	kind := reflect.TypeOf(target).Elem()
	names := make([]string, kind.NumField())
	for i := range names {
		names[i], _, _ = strings.Cut(kind.Field(i).Tag.Get("json"), ",")
	}
	return names
}

// withoutFields calls next when the body is empty or an object without fields. Any other
// body is refused, so that a misspelt request does not seem to have been understood.
func (a *API) withoutFields(w http.ResponseWriter, r *http.Request, next func()) {
	if err := a.readJSON(w, r, &struct{}{}); err != nil {
		httpapi.WriteError(w, r, err)
		return
	}
	next()
}

// kindOf says in a client's words what a field should have been.
func kindOf(mismatch *json.UnmarshalTypeError) string {
	switch mismatch.Type.Kind().String() {
	case "int":
		return "an integer"
	case "string":
		return "a string"
	}
	return "of another type"
}

// readBody returns the JSON object in the body, or nothing when the body is empty. An object
// that has a field twice is rejected.
func (a *API) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyLimit))
	var tooLong *http.MaxBytesError
	var known *fault.Error
	switch {
	case errors.As(err, &known): // the credential ended while the body came
		return nil, err
	case errors.As(err, &tooLong):
		return nil, fault.Wrap(err, fault.TooLarge, "the body must be at most %d bytes", bodyLimit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fault.Wrap(err, fault.Invalid, "the body did not arrive in time")
	case err != nil:
		return nil, fault.Wrap(err, fault.Invalid, "the body was cut short")
	}
	if text = bytes.TrimSpace(text); len(text) > 0 && text[0] != '{' {
		return nil, fault.New(fault.Invalid, "the body must be a JSON object")
	}
	if !utf8.Valid(text) { // package json would put other characters in their place
		return nil, fault.New(fault.Invalid, "the body must be UTF-8")
	}
	return text, checkDuplicates(text)
}
