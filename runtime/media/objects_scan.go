package media

import (
	"encoding/hex"
	"encoding/json"
)

// ScanBytes reads objects from the JSON of the database. It is a pgtype.BytesScanner: the driver calls
// it with its own memory, which is valid during the call only. The result is that of encoding/json,
// which is called for what scanObjects does not read.
func (o *Objects) ScanBytes(text []byte) error {
	*o = nil
	if text == nil { // NULL
		return nil
	}
	if objects, ok := scanObjects(text); ok {
		*o = objects
		return nil
	}
	return json.Unmarshal(text, (*[]Object)(o))
}

// usualObjects is how many objects most images have, and sha256Size is the size of a hash.
const (
	usualObjects = 3
	sha256Size   = 32
)

// scanObjects reads an array of objects in the form in which PostgreSQL prints jsonb: with a space
// after each colon and comma only. It returns false for every other form, for other fields and other
// types of values, and for text with an escape, a control character or a byte that is not ASCII.
func scanObjects(text []byte) (Objects, bool) {
	s := objectScanner{rest: text}
	objects := make(Objects, 0, usualObjects)
	if !s.skip("[") {
		return nil, false
	}
	for more := !s.skip("]"); more; more = !s.skip("]") {
		if len(objects) > 0 && !s.skip(", ") {
			return nil, false
		}
		object, ok := s.object()
		if !ok {
			return nil, false
		}
		objects = append(objects, object)
	}
	return objects, len(s.rest) == 0
}

// objectScanner reads JSON from the beginning of rest.
type objectScanner struct {
	rest []byte
	// hashes is the memory of the hashes: one allocation for all objects.
	hashes []byte
}

// skip skips a token, and reports whether it was there.
func (s *objectScanner) skip(token string) bool {
	if len(s.rest) < len(token) || string(s.rest[:len(token)]) != token {
		return false
	}
	s.rest = s.rest[len(token):]
	return true
}

// object reads {"name": value, ...}.
func (s *objectScanner) object() (object Object, ok bool) {
	if !s.skip("{") {
		return object, false
	}
	for first := true; !s.skip("}"); first = false {
		if !first && !s.skip(", ") {
			return object, false
		}
		name, ok := s.text()
		if !ok || !s.skip(": ") || !s.field(&object, name) {
			return object, false
		}
	}
	return object, true
}

// field reads the value of a field.
func (s *objectScanner) field(object *Object, name []byte) bool {
	if string(name) == "bytes" {
		var ok bool
		object.Bytes, ok = s.number()
		return ok
	}
	value, ok := s.text()
	if !ok {
		return false
	}
	switch string(name) {
	case "variant":
		object.Variant = Variant(known(value))
	case "key":
		object.Key = string(value)
	case "mimeType":
		object.MimeType = known(value)
	case "sha256":
		object.SHA256, ok = s.hash(value)
	default:
		return false
	}
	return ok
}

// text reads a string, and returns what is between its quotes.
func (s *objectScanner) text() ([]byte, bool) {
	if !s.skip(`"`) {
		return nil, false
	}
	for i, c := range s.rest {
		switch {
		case c == '"':
			value := s.rest[:i]
			s.rest = s.rest[i+1:]
			return value, true
		case c < ' ' || c > '~' || c == '\\':
			return nil, false
		}
	}
	return nil, false
}

// maxDigits is the length of numbers that are in the range of int64, whatever their digits.
const maxDigits = 18

// number reads an integer without a sign, a fraction or an exponent. JSON has no leading zeros.
func (s *objectScanner) number() (n int64, ok bool) {
	digits := 0
	for digits < len(s.rest) && digits <= maxDigits && s.rest[digits] >= '0' && s.rest[digits] <= '9' {
		n = 10*n + int64(s.rest[digits]-'0')
		digits++
	}
	if digits == 0 || digits > maxDigits || s.rest[0] == '0' && digits > 1 {
		return 0, false
	}
	s.rest = s.rest[digits:]
	return n, true
}

// hash decodes hexadecimal digits.
func (s *objectScanner) hash(digits []byte) (SHA256, bool) {
	if s.hashes == nil {
		s.hashes = make([]byte, 0, usualObjects*sha256Size)
	}
	start := len(s.hashes)
	hashes, err := hex.AppendDecode(s.hashes, digits)
	if err != nil {
		return nil, false
	}
	s.hashes = hashes
	return SHA256(hashes[start:len(hashes):len(hashes)]), true
}

// known returns text as a string, without an allocation for the values that most objects have.
func known(text []byte) string {
	switch string(text) {
	case string(Original):
		return string(Original)
	case string(WebP):
		return string(WebP)
	case string(Thumbnail):
		return string(Thumbnail)
	case "image/webp":
		return "image/webp"
	case "image/jpeg":
		return "image/jpeg"
	case "image/png":
		return "image/png"
	}
	return string(text)
}
