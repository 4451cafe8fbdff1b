package api

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// ItemList is the document of a list.
type ItemList []MediaItem

// AppendJSON appends the items as encoding/json encodes them without escapes for HTML, which takes
// longer: it encodes ids and times twice.
func (l ItemList) AppendJSON(dst []byte) []byte {
	dst = append(dst, '[')
	start := len(dst)
	for i := range l {
		if i > 0 {
			dst = append(dst, ',')
		}
		if i == 1 { // the others are about as long as the first one
			dst = slices.Grow(dst, (len(l)-1)*(len(dst)-start)*9/8)
		}
		dst = l[i].AppendJSON(dst)
	}
	return append(dst, ']')
}

// AppendJSON appends the item.
func (m *MediaItem) AppendJSON(dst []byte) []byte {
	dst = AppendUUID(append(dst, `{"mediaId":"`...), m.MediaId)
	dst = appendText(append(dst, `","originalFileName":`...), m.OriginalFileName)
	dst = appendText(append(dst, `,"mimeType":`...), m.MimeType)
	dst = strconv.AppendInt(append(dst, `,"size":`...), m.Size, 10)
	dst = appendText(append(dst, `,"access":`...), string(m.Access))
	dst = appendText(append(dst, `,"file":`...), m.File)
	dst = appendText(append(dst, `,"thumbnail":`...), m.Thumbnail)
	dst = appendText(append(dst, `,"caption":`...), m.Caption)
	dst = appendText(append(dst, `,"group":`...), m.Group)
	if m.Temp {
		dst = append(dst, `,"temp":true`...)
	}
	if m.Original != "" {
		dst = appendText(append(dst, `,"original":`...), m.Original)
	}
	dst = appendTime(append(dst, `,"createdAt":`...), m.CreatedAt)
	if m.SealedAt != nil {
		dst = appendTime(append(dst, `,"sealedAt":`...), *m.SealedAt)
	}
	if m.ExpiresAt != nil {
		dst = appendTime(append(dst, `,"expiresAt":`...), *m.ExpiresAt)
	}
	dst = appendText(append(dst, `,"sha256":`...), m.Sha256)
	return append(dst, '}')
}

// AppendUUID appends the text of an id.
func AppendUUID(dst []byte, id uuid.UUID) []byte {
	dst = append(hex.AppendEncode(dst, id[:4]), '-')
	dst = append(hex.AppendEncode(dst, id[4:6]), '-')
	dst = append(hex.AppendEncode(dst, id[6:8]), '-')
	dst = append(hex.AppendEncode(dst, id[8:10]), '-')
	return hex.AppendEncode(dst, id[10:])
}

func appendTime(dst []byte, at time.Time) []byte {
	return append(at.AppendFormat(append(dst, '"'), time.RFC3339Nano), '"')
}

// appendText appends a string. encoding/json encodes those that need an escape, or are not ASCII.
func appendText(dst []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return appendEscaped(dst, text)
		}
	}
	return append(append(append(dst, '"'), text...), '"')
}

func appendEscaped(dst []byte, text string) []byte {
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // a string can be encoded, and a buffer takes it
	return append(dst, bytes.TrimSuffix(encoded.Bytes(), []byte("\n"))...)
}
