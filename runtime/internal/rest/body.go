package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"unicode/utf8"

	"mediastack.dev/runtime/fault"
)

// bodyLimit bounds the JSON that a request may carry, in bytes.
const bodyLimit = 64 << 10

// readJSON reads an optional JSON object; an empty body leaves target as it is, and
// so does every field that the object lacks. Fields nobody knows are ignored.
func readJSON(w http.ResponseWriter, r *http.Request, target any) error {
	text, err := readBody(w, r)
	if err != nil || len(text) == 0 {
		return err
	}
	err = json.Unmarshal(text, target)
	var mismatch *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &mismatch) && mismatch.Field != "":
		return fault.Wrap(err, fault.Invalid, "%s must be %s", mismatch.Field, kindOf(mismatch))
	}
	return fault.Wrap(err, fault.Invalid, "the body must be a JSON object")
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

// readBody gives the JSON object in the body, or nothing when the body is empty.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyLimit))
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		return nil, fault.Wrap(err, fault.TooLarge, "the body must be at most %d bytes", bodyLimit)
	case err != nil:
		return nil, fault.Wrap(err, fault.Invalid, "the body was cut short")
	}
	if text = bytes.TrimSpace(text); len(text) > 0 && text[0] != '{' {
		return nil, fault.New(fault.Invalid, "the body must be a JSON object")
	}
	if !utf8.Valid(text) { // package json would put other characters in their place
		return nil, fault.New(fault.Invalid, "the body must be UTF-8")
	}
	return text, nil
}
