package media

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"unicode/utf8"

	"mediastack.dev/runtime/fault"
)

// Bounds of the metadata of an item.
const (
	MaxMetadataPairs = 24
	MaxMetadataKey   = 64
	// MaxMetadataValue is in characters.
	MaxMetadataValue = 512
)

// metadataKey is the form of a key, of up to MaxMetadataKey characters.
var metadataKey = regexp.MustCompile(`^[a-z][a-z0-9._-]{0,63}$`)

// Metadata are the pairs that a client attaches to an item. They are stored and shown as they are.
type Metadata map[string]string

// MarshalJSON returns an object, an empty one for no metadata.
func (m Metadata) MarshalJSON() ([]byte, error) {
	if m == nil {
		return []byte("{}"), nil
	}
	return json.Marshal(map[string]string(m))
}

// ScanBytes reads metadata from the JSON of the database. It is a pgtype.BytesScanner.
func (m *Metadata) ScanBytes(text []byte) error {
	*m = nil
	if len(text) == 0 || string(text) == "{}" {
		return nil
	}
	return json.Unmarshal(text, (*map[string]string)(m))
}

// Validate returns an Invalid fault that names the first pair out of bounds, in the order of the keys.
func (m Metadata) Validate() error {
	if len(m) > MaxMetadataPairs {
		return fault.New(fault.Invalid, "metadata must have at most %d pairs", MaxMetadataPairs)
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if err := CheckMetadataKey(key); err != nil {
			return err
		}
		if utf8.RuneCountInString(m[key]) > MaxMetadataValue {
			return fault.New(fault.Invalid, "metadata.%s must be at most %d characters", key, MaxMetadataValue)
		}
		if err := CheckText("metadata."+key, m[key], 4*MaxMetadataValue, "\n\r\t"); err != nil {
			return err
		}
	}
	return nil
}

// CheckMetadataKey returns an Invalid fault for a key that metadata cannot have.
func CheckMetadataKey(key string) error {
	if !metadataKey.MatchString(key) {
		return fault.New(fault.Invalid, "a metadata key must have 1 to %d characters of a-z, 0-9, '.', '_' and '-', and begin with a letter, unlike %.100q", MaxMetadataKey, key)
	}
	return nil
}
