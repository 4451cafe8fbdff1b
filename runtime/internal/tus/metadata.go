package tus

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/upload"
)

// maxDeclaredType bounds the declared type, in bytes.
const maxDeclaredType = 255

// Keys of metadata, by the field that they fill. If a client sends several names of one
// field, the first one counts.
var (
	nameKeys = []string{"filename", "fileName", "name"}
	typeKeys = []string{"filetype", "mimeType"}
)

// readMetadata parses Upload-Metadata. Unknown keys are ignored; package media bounds the
// fields.
func readMetadata(values []string) (media.Fields, error) {
	pairs, err := parseMetadata(values)
	if err != nil {
		return media.Fields{}, err
	}
	itemMetadata, err := httpapi.ReadMetadata(pairs["metadata"])
	if err != nil {
		return media.Fields{}, err
	}
	first := func(keys []string) string {
		for _, key := range keys {
			if pairs[key] != "" {
				return pairs[key]
			}
		}
		return ""
	}
	fields := media.Fields{FileName: first(nameKeys), MimeType: first(typeKeys),
		Access: media.Access(pairs["access"]), Caption: pairs["caption"], Group: pairs["group"], Metadata: itemMetadata}
	if len(fields.MimeType) > maxDeclaredType || !utf8.ValidString(fields.MimeType) || strings.ContainsRune(fields.MimeType, 0) {
		return media.Fields{}, fault.New(fault.Invalid, "filetype must be a media type of at most %d bytes", maxDeclaredType)
	}
	return fields, nil
}

// parseMetadata splits the header into pairs of a key and its value in base64, separated by
// commas. A value may be missing.
func parseMetadata(values []string) (map[string]string, error) {
	switch {
	case len(values) == 0 || len(values) == 1 && values[0] == "":
		return nil, nil
	case len(values) > 1:
		return nil, fault.New(fault.Invalid, "Upload-Metadata must be sent once")
	case len(values[0]) > upload.MaxMetadata:
		return nil, fault.New(fault.TooLarge, "Upload-Metadata must be at most %d bytes", upload.MaxMetadata)
	}
	pairs := map[string]string{}
	for pair := range strings.SplitSeq(values[0], ",") {
		key, encoded, _ := strings.Cut(strings.TrimSpace(pair), " ")
		if key == "" || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return nil, fault.New(fault.Invalid, "a key of Upload-Metadata is not in ASCII, or is empty")
		}
		value, err := base64.StdEncoding.Strict().DecodeString(encoded)
		if err != nil {
			return nil, fault.New(fault.Invalid, "the value of %q in Upload-Metadata is not in base64", httpapi.Truncate(key))
		}
		if _, twice := pairs[key]; twice {
			return nil, fault.New(fault.Invalid, "%q is in Upload-Metadata twice", httpapi.Truncate(key))
		}
		pairs[key] = string(value)
	}
	return pairs, nil
}
