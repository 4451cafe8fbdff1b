package api

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// ItemList is the document of a list.
type ItemList []MediaItem

// AppendJSON appends the items as encoding/json encodes them without escapes for HTML, which takes
// longer: it encodes ids and times twice.
func (l ItemList) AppendJSON(dst []byte) []byte { return l.appendFields(dst, allFields) }

func (l ItemList) appendFields(dst []byte, fields Selection) []byte {
	dst = append(dst, '[')
	start := len(dst)
	for i := range l {
		if i > 0 {
			dst = append(dst, ',')
		}
		if i == 1 { // the others are about as long as the first one
			dst = slices.Grow(dst, (len(l)-1)*(len(dst)-start)*9/8)
		}
		dst = l[i].appendFields(dst, fields)
	}
	return append(dst, ']')
}

// AppendJSON appends the item.
func (m *MediaItem) AppendJSON(dst []byte) []byte { return m.appendFields(dst, allFields) }

// appendFields appends the item with a part of its members. Each is appended with a comma before it;
// the first comma becomes the brace.
func (m *MediaItem) appendFields(dst []byte, fields Selection) []byte {
	start := len(dst)
	if fields&fieldMediaID != 0 {
		dst = append(AppendUUID(append(dst, `,"mediaId":"`...), m.MediaId), '"')
	}
	text := func(field Selection, name, value string) {
		if fields&field != 0 {
			dst = appendText(append(dst, name...), value)
		}
	}
	at := func(field Selection, name string, value *time.Time) {
		if fields&field != 0 && value != nil {
			dst = appendTime(append(dst, name...), *value)
		}
	}
	known := func(field Selection, name string, value int) {
		if fields&field != 0 && value != 0 {
			dst = strconv.AppendInt(append(dst, name...), int64(value), 10)
		}
	}
	text(fieldOriginalFileName, `,"originalFileName":`, m.OriginalFileName)
	text(fieldMimeType, `,"mimeType":`, m.MimeType)
	if fields&fieldSize != 0 {
		dst = strconv.AppendInt(append(dst, `,"size":`...), m.Size, 10)
	}
	text(fieldAccess, `,"access":`, string(m.Access))
	text(fieldFile, `,"file":`, m.File)
	text(fieldThumbnail, `,"thumbnail":`, m.Thumbnail)
	text(fieldCaption, `,"caption":`, m.Caption)
	text(fieldGroup, `,"group":`, m.Group)
	if fields&fieldTemp != 0 && m.Temp {
		dst = append(dst, `,"temp":true`...)
	}
	if m.Original != "" {
		text(fieldOriginal, `,"original":`, m.Original)
	}
	at(fieldCreatedAt, `,"createdAt":`, &m.CreatedAt)
	at(fieldSealedAt, `,"sealedAt":`, m.SealedAt)
	at(fieldExpiresAt, `,"expiresAt":`, m.ExpiresAt)
	text(fieldSha256, `,"sha256":`, m.Sha256)
	known(fieldWidth, `,"width":`, m.Width)
	known(fieldHeight, `,"height":`, m.Height)
	if fields&fieldPlaceholder != 0 && len(m.Placeholder) > 0 {
		dst = append(base64.StdEncoding.AppendEncode(append(dst, `,"placeholder":"`...), m.Placeholder), '"')
	}
	if m.DominantColor != "" {
		text(fieldDominantColor, `,"dominantColor":`, m.DominantColor)
	}
	if fields&fieldDuration != 0 && m.Duration != 0 {
		dst = strconv.AppendFloat(append(dst, `,"duration":`...), m.Duration, 'f', -1, 64)
	}
	known(fieldPages, `,"pages":`, m.Pages)
	if fields&fieldMetadata != 0 {
		dst = appendMetadata(append(dst, `,"metadata":`...), m.Metadata)
	}
	if m.CapturedAt != "" {
		text(fieldCapturedAt, `,"capturedAt":`, m.CapturedAt)
	}
	if fields&fieldCapture != 0 && m.Capture != nil {
		dst = m.Capture.append(append(dst, `,"capture":`...))
	}
	if m.Ref != "" {
		text(fieldRef, `,"ref":`, m.Ref)
	}
	if fields&fieldFocus != 0 && m.Focus != nil {
		dst = m.Focus.append(append(dst, `,"focus":`...))
	}
	if m.State != "" {
		text(fieldState, `,"state":`, m.State)
	}
	if fields&fieldPresets != 0 {
		dst = appendPictures(append(dst, `,"presets":`...), m.Presets)
	}
	if len(dst) == start {
		return append(dst, "{}"...)
	}
	dst[start] = '{'
	return append(dst, '}')
}

// appendMetadata appends the pairs, in the order of their keys.
func appendMetadata(dst []byte, metadata Metadata) []byte {
	if metadata == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, '{')
	if len(metadata) > 0 {
		for i, key := range slices.Sorted(maps.Keys(metadata)) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendText(append(appendText(dst, key), ':'), metadata[key])
		}
	}
	return append(dst, '}')
}

// append appends what the file says, which is something.
func (c Capture) append(dst []byte) []byte {
	start := len(dst)
	text := func(name, value string) {
		if value != "" {
			dst = appendText(append(dst, name...), value)
		}
	}
	text(`,"camera":`, c.Camera)
	text(`,"lens":`, c.Lens)
	text(`,"title":`, c.Title)
	if c.Rating != 0 {
		dst = strconv.AppendInt(append(dst, `,"rating":`...), int64(c.Rating), 10)
	}
	if c.Location != nil {
		dst = strconv.AppendFloat(append(dst, `,"location":{"latitude":`...), c.Location.Latitude, 'f', -1, 64)
		dst = append(strconv.AppendFloat(append(dst, `,"longitude":`...), c.Location.Longitude, 'f', -1, 64), '}')
	}
	text(`,"contentCredentials":`, c.ContentCredentials)
	dst[start] = '{'
	return append(dst, '}')
}

// append appends the point, whose fractions are thousandths.
func (f Focus) append(dst []byte) []byte {
	dst = strconv.AppendFloat(append(dst, `{"x":`...), f.X, 'f', -1, 64)
	dst = strconv.AppendFloat(append(dst, `,"y":`...), f.Y, 'f', -1, 64)
	return append(dst, '}')
}

// appendPictures appends the pictures, in the order of their names.
func appendPictures(dst []byte, pictures map[string]Picture) []byte {
	known := func(name string, value int) {
		if value != 0 {
			dst = strconv.AppendInt(append(dst, name...), int64(value), 10)
		}
	}
	dst = append(dst, '{')
	for i, name := range slices.Sorted(maps.Keys(pictures)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		picture := pictures[name]
		dst = append(appendText(dst, name), `:{"url":`...)
		dst = appendText(dst, picture.Url)
		known(`,"width":`, picture.Width)
		known(`,"height":`, picture.Height)
		dst = append(dst, `,"densities":[`...)
		for j, density := range picture.Densities {
			if j > 0 {
				dst = append(dst, ',')
			}
			dst = strconv.AppendInt(append(dst, `{"density":`...), int64(density.Density), 10)
			dst = appendText(append(dst, `,"url":`...), density.Url)
			known(`,"width":`, density.Width)
			known(`,"height":`, density.Height)
			dst = append(dst, '}')
		}
		dst = appendText(append(dst, `],"srcset":`...), picture.Srcset)
		dst = append(dst, '}')
	}
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
