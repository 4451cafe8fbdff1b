package httpapi

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// HasLoneSurrogate reports whether a string of a JSON text has an escape of half a character, such as
// \ud800 without the other half. encoding/json would replace it by U+FFFD. A text that is not JSON is
// for its reader to reject.
func HasLoneSurrogate(text []byte) bool {
	for {
		at := bytes.IndexByte(text, '\\')
		if at < 0 || at+1 == len(text) {
			return false
		}
		text = text[at:]
		unit, ok := escapedUnit(text)
		switch {
		case !ok:
			text = text[2:]
		case !utf16.IsSurrogate(unit):
			text = text[6:]
		default:
			low, ok := escapedUnit(text[6:])
			if !ok || utf16.DecodeRune(unit, low) == utf8.RuneError {
				return true
			}
			text = text[12:]
		}
	}
}

// escapedUnit returns the UTF-16 code unit of the escape \uXXXX that a text begins with.
func escapedUnit(text []byte) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(unit), err == nil
}
