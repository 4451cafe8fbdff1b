package httpapi

import (
	"bytes"
	"encoding/json"
	"math"
)

// Absent reports whether the JSON value of an optional argument means that the argument is absent:
// null or the empty string. Many clients send every argument that they know.
func Absent(value json.RawMessage) bool {
	value = bytes.TrimSpace(value)
	return IsNull(value) || bytes.Equal(value, []byte(`""`))
}

// IsNull reports whether a JSON value is null.
func IsNull(value json.RawMessage) bool { return bytes.Equal(bytes.TrimSpace(value), []byte("null")) }

// Integer returns the integer that a JSON number is, and false for any other JSON value, for a
// fraction and for a number over 32 bits. 50.0 and 5e1 are integers, too: JavaScript, for one, has a
// single kind of number.
func Integer(value json.RawMessage) (int, bool) {
	number, ok := Integer64(value)
	if !ok || number < -math.MaxInt32 || number > math.MaxInt32 {
		return 0, false
	}
	return int(number), true
}

// maxExact is the largest integer up to which JavaScript has all integers.
const maxExact = 1<<53 - 1

// Integer64 is Integer for sizes in bytes: numbers of up to 53 bits.
func Integer64(value json.RawMessage) (int64, bool) {
	var number *float64
	if err := json.Unmarshal(value, &number); err != nil || number == nil ||
		*number != math.Trunc(*number) || math.Abs(*number) > maxExact {
		return 0, false
	}
	return int64(*number), true
}
