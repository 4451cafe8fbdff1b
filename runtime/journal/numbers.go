package journal

import (
	"encoding/base64"
	"encoding/binary"
)

// numbersText is base64 that has one text for each content.
var numbersText = base64.RawURLEncoding.Strict()

// encodeNumbers returns a text of a version and of numbers that are not negative.
func encodeNumbers(version byte, numbers ...int64) string {
	raw := append(make([]byte, 0, 1+8*len(numbers)), version)
	for _, number := range numbers {
		raw = binary.BigEndian.AppendUint64(raw, uint64(number)) //nolint:gosec // G115: the bits are read again
	}
	return numbersText.EncodeToString(raw)
}

// decodeNumbers reads what encodeNumbers returns into numbers, and reports whether the text is one of this version and of so many.
func decodeNumbers(text string, version byte, numbers []int64) bool {
	if len(text) != numbersText.EncodedLen(1+8*len(numbers)) {
		return false
	}
	raw, err := numbersText.DecodeString(text)
	if err != nil || raw[0] != version {
		return false
	}
	for i := range numbers {
		if numbers[i] = int64(binary.BigEndian.Uint64(raw[1+8*i:])); numbers[i] < 0 { //nolint:gosec // G115: checked
			return false
		}
	}
	return true
}
