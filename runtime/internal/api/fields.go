package api

import (
	"slices"
	"strings"

	"mediastack.dev/runtime/fault"
)

// Selection is a set of members of the document of an item.
type Selection uint32

// The members, in their order in the document.
const (
	fieldMediaID Selection = 1 << iota
	fieldOriginalFileName
	fieldMimeType
	fieldSize
	fieldAccess
	fieldFile
	fieldThumbnail
	fieldCaption
	fieldGroup
	fieldTemp
	fieldOriginal
	fieldCreatedAt
	fieldSealedAt
	fieldExpiresAt
	fieldSha256
	fieldWidth
	fieldHeight
	fieldPlaceholder
	fieldDominantColor
	fieldDuration
	fieldPages
	fieldMetadata
	fieldCapturedAt
	fieldCapture
	fieldRef
	fieldFocus
	fieldState
	fieldEnd
	allFields = fieldEnd - 1
	// fieldPresets is only in documents that name it.
	fieldPresets = fieldEnd
)

// fieldNames are the names of the members, in the order of the constants.
var fieldNames = []string{"mediaId", "originalFileName", "mimeType", "size", "access", "file", "thumbnail", "caption", "group", "temp", "original",
	"createdAt", "sealedAt", "expiresAt", "sha256", "width", "height", "placeholder", "dominantColor", "duration", "pages", "metadata", "capturedAt", "capture", "ref", "focus", "state", "presets"}

// everything is the name of all members but presets, for documents that have those, too.
const everything = "*"

// ParseSelection reads the parameter fields: names of members, separated by commas. An empty text and "*" are
// all but presets. An unknown name is Invalid.
func ParseSelection(text string) (Selection, error) {
	if text == "" {
		return allFields, nil
	}
	var selected Selection
	for name := range strings.SplitSeq(text, ",") {
		if name == everything {
			selected |= allFields
			continue
		}
		at := slices.Index(fieldNames, name)
		if at < 0 {
			return 0, fault.New(fault.Invalid, "fields must be * or of %s, separated by commas; %.40q is not among them", strings.Join(fieldNames, ", "), name)
		}
		selected |= 1 << at
	}
	return selected, nil
}

// addSelection adds the schema of the documents that the parameter fields makes: of an item, any of its members.
func addSelection(schemas map[string]any) {
	item, _ := schemas["MediaItem"].(map[string]any)
	selected, _ := schemas["SelectedMediaItem"].(map[string]any)
	selected["properties"], selected["additionalProperties"] = item["properties"], item["additionalProperties"]
}

// SelectedItem is the document of an item with a part of its members.
type SelectedItem struct {
	Item   *MediaItem
	Fields Selection
}

// AppendJSON appends the item.
func (s SelectedItem) AppendJSON(dst []byte) []byte { return s.Item.appendFields(dst, s.Fields) }

// SelectedItems is the document of a list with a part of the members of its items.
type SelectedItems struct {
	Items  ItemList
	Fields Selection
}

// AppendJSON appends the items.
func (s SelectedItems) AppendJSON(dst []byte) []byte { return s.Items.appendFields(dst, s.Fields) }
