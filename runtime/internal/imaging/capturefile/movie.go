package capturefile

import (
	"encoding/binary"
	"iter"
	"strconv"
	"strings"
	"time"

	"mediastack.dev/runtime/capture"
)

// maxBoxes bounds how many boxes are looked at of one that has them, and maxKeys how many keys.
const (
	maxBoxes = 4096
	maxKeys  = 256
)

// manifestUUID is that of the box that has a manifest store of C2PA.
const manifestUUID = "\xd8\xfe\xc3\xd6\x1b\x0e\x48\x3c\x92\x97\x58\x28\x87\x7e\xc4\x81"

// boxes returns the kinds and the bodies of the boxes in the body of another one, or in a file. Of one that is cut off, there is what is known.
func boxes(data []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for range maxBoxes {
			if len(data) < 8 {
				return
			}
			size, head := uint64(binary.BigEndian.Uint32(data)), uint64(8)
			kind := string(data[4:8])
			switch {
			case size == 0: // to the end
				size = uint64(len(data))
			case size == 1 && len(data) >= 16:
				size, head = binary.BigEndian.Uint64(data[8:]), 16
			}
			if size < head {
				return
			}
			end := min(size, uint64(len(data)))
			if !yield(kind, data[head:end]) || size > uint64(len(data)) {
				return
			}
			data = data[size:]
		}
	}
}

// boxesHaveManifest reports whether a file has a box with a manifest store of C2PA: its type is not that of other uses of it.
func boxesHaveManifest(file []byte) bool {
	for kind, body := range boxes(file) {
		const purpose = 16 + 4 // the identifier, the version and the flags
		if kind == "uuid" && len(body) >= purpose+9 && string(body[:16]) == manifestUUID && string(body[purpose:purpose+9]) == "manifest\x00" {
			return true
		}
	}
	return false
}

// movie is what the boxes of a movie say, the texts of the keys of QuickTime and of MP4 by their names.
type movie struct {
	created string
	keys    map[string]string
}

func readMovie(file []byte) capture.Capture {
	m := movie{keys: map[string]string{}}
	for kind, body := range boxes(file) {
		if kind == "moov" {
			m.readMoov(body)
			break
		}
	}
	c := m.capture()
	c.ContentCredentials = boxesHaveManifest(file)
	return c
}

func (m movie) capture() capture.Capture {
	const apple = "com.apple.quicktime."
	c := capture.Capture{
		At: first(isoTime(m.keys[apple+"creationdate"]), isoTime(m.keys["\xa9day"]), m.created),
		Camera: first(camera(m.keys[apple+"make"], m.keys[apple+"model"]), camera(m.keys["com.android.manufacturer"], m.keys["com.android.model"]),
			camera(m.keys["\xa9mak"], m.keys["\xa9mod"])),
		Title: first(m.keys[apple+"title"], m.keys[apple+"displayname"], m.keys["\xa9nam"]),
	}
	for _, key := range []string{apple + "location.ISO6709", "\xa9xyz"} {
		if c.Location == nil {
			c.Location = parsePoint(m.keys[key])
		}
	}
	return c
}

func (m *movie) readMoov(moov []byte) {
	for kind, body := range boxes(moov) {
		switch kind {
		case "mvhd":
			m.created = movieCreated(body)
		case "meta":
			m.readMeta(body)
		case "udta":
			for kind, body := range boxes(body) {
				switch {
				case kind == "meta":
					m.readMeta(body)
				case strings.HasPrefix(kind, "\xa9"):
					m.set(kind, quickTimeText(body))
				}
			}
		}
	}
}

// set sets a text. Of several the first counts.
func (m *movie) set(key, text string) {
	if _, there := m.keys[key]; !there && text != "" {
		m.keys[key] = text
	}
}

// quickTimeText returns the first of the texts in a box of user data: its length, its language, and the text.
func quickTimeText(body []byte) string {
	if len(body) < 4 {
		return ""
	}
	text := body[4:]
	if length := int(binary.BigEndian.Uint16(body)); length < len(text) {
		text = text[:length]
	}
	return string(untilNUL(text[:min(len(text), maxTagSize)]))
}

// macEpoch is the time 0 of QuickTime, the first second of 1904, in seconds since 1970.
const macEpoch = -2_082_844_800

// movieCreated returns when a movie was made, which is in UTC; empty if its box mvhd does not say it.
func movieCreated(body []byte) string {
	var seconds uint64
	switch {
	case len(body) >= 12 && body[0] == 1:
		seconds = binary.BigEndian.Uint64(body[4:])
	case len(body) >= 8 && body[0] == 0:
		seconds = uint64(binary.BigEndian.Uint32(body[4:]))
	}
	const most = 1 << 34 // beyond the year 2400
	if seconds == 0 || seconds > most {
		return ""
	}
	// A time.Duration would overflow after 292 years.
	return time.Unix(macEpoch+int64(seconds), 0).UTC().Format(time.RFC3339)
}

// readMeta reads a box meta: that of QuickTime has names in a box keys, that of MP4 has boxes by the names. That of MP4 has a version.
func (m *movie) readMeta(meta []byte) {
	if len(meta) >= 8 && string(meta[4:8]) != "hdlr" {
		meta = meta[4:]
	}
	var names []string
	for kind, body := range boxes(meta) {
		switch kind {
		case "keys":
			names = keyNames(body)
		case "ilst":
			for kind, body := range boxes(body) {
				index := binary.BigEndian.Uint32([]byte(kind))
				switch {
				case index >= 1 && index <= uint32(len(names)): //nolint:gosec // at most maxKeys
					m.set(names[index-1], valueText(body))
				case kind[0] == 0xa9:
					m.set(kind, valueText(body))
				}
			}
		}
	}
}

// keyNames returns the names in a box keys.
func keyNames(body []byte) (names []string) {
	if len(body) < 8 {
		return nil
	}
	for kind, name := range boxes(body[8:]) {
		if len(names) == maxKeys {
			break
		}
		if kind != "mdta" || len(name) > 100 {
			name = nil // it has a number nevertheless
		}
		names = append(names, string(name))
	}
	return names
}

// valueText returns the text of the first box data of an entry: its type is 1 for UTF-8.
func valueText(entry []byte) string {
	for kind, body := range boxes(entry) {
		if kind == "data" && len(body) >= 8 && binary.BigEndian.Uint32(body) == 1 {
			return string(untilNUL(body[8:min(len(body), 8+maxTagSize)]))
		}
	}
	return ""
}

// parsePoint reads a point as in ISO 6709: +48.8584+002.2945+035.000/, with degrees, or degrees and minutes, or also seconds; nil for others.
func parsePoint(text string) *capture.Location {
	latitude, rest, ok := coordinate(text, 2)
	if !ok {
		return nil
	}
	longitude, _, ok := coordinate(rest, 3)
	if !ok {
		return nil
	}
	return &capture.Location{Latitude: latitude, Longitude: longitude}
}

// coordinate reads a coordinate whose degrees have so many digits, and returns what follows.
func coordinate(text string, degreeDigits int) (value float64, rest string, ok bool) {
	if text == "" || text[0] != '+' && text[0] != '-' {
		return 0, "", false
	}
	end := 1
	for end < len(text) && (text[end] >= '0' && text[end] <= '9' || text[end] == '.') {
		end++
	}
	number, rest := text[1:end], text[end:]
	whole, _, _ := strings.Cut(number, ".")
	extra := len(whole) - degreeDigits
	if extra != 0 && extra != 2 && extra != 4 {
		return 0, "", false
	}
	// The last part has the fraction.
	for at, unit := 0, 1.0; ; unit *= 60 {
		length := degreeDigits
		if at > 0 {
			length = 2
		}
		part := number[at : at+length]
		if at+length == len(whole) {
			part = number[at:]
		}
		n, err := strconv.ParseFloat(part, 64)
		if err != nil || at > 0 && n >= 60 {
			return 0, "", false
		}
		value += n / unit
		if at += length; at >= len(whole) {
			break
		}
	}
	if text[0] == '-' {
		value = -value
	}
	return value, rest, true
}
