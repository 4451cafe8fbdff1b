package pages

import (
	"strings"
	"unicode"
)

// maxDisplayLength bounds the names and e-mail addresses on a page, in characters.
const maxDisplayLength = 80

// maxCombiningMarks bounds the combining marks of one character: every script needs fewer,
// and more of them would overlap other lines.
const maxCombiningMarks = 3

// HasVisible reports whether a text has a visible character. Blank characters and symbols, such
// as HANGUL FILLER, and lone combining marks are not visible.
func HasVisible(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool {
		return unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S) && r != brailleBlank && r != nullNotehead && r != unicode.ReplacementChar &&
			!unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
	})
}

// Symbols with an empty glyph.
const (
	brailleBlank = '\u2800'
	nullNotehead = '\U0001D159'
)

// sanitize prepares untrusted text for a page: one line of bounded length, without
// invisible characters and without characters that change the text direction.
func sanitize(text string) string { return sanitizeN(text, maxDisplayLength) }

// nameEnd is how many characters of the end of a long file name a page shows.
const nameEnd = 24

// sanitizeFileName is sanitize for the name of a file, of which it keeps the end, too: files of one series differ
// there, and what kind of file it is stands there.
func sanitizeFileName(name string) string {
	name = sanitizeN(name, len(name))
	characters := []rune(name)
	if len(characters) <= maxDisplayLength {
		return name
	}
	end := characters[len(characters)-nameEnd:]
	for len(end) > 0 && unicode.Is(unicode.M, end[0]) { // a mark of the character before
		end = end[1:]
	}
	return strings.TrimRight(string(characters[:maxDisplayLength-nameEnd]), " ") + "…" + string(end)
}

// maxTextLength bounds the captions on a page, in characters.
const maxTextLength = 300

// sanitizeText sanitizes a text that may be longer than a name.
func sanitizeText(text string) string { return sanitizeN(text, maxTextLength) }

// sanitizeHost sanitizes a host or a scheme. It never truncates, because the end of a host
// name identifies its owner.
func sanitizeHost(text string) string { return sanitizeN(text, len(text)) }

// sanitizeN returns text without control, format and unassigned characters, with single
// spaces, and truncated to maxLength characters.
func sanitizeN(text string, maxLength int) string {
	var out strings.Builder
	length, marks, gap := 0, 0, false
	for _, r := range text {
		switch {
		case unicode.IsSpace(r):
			gap = true
			continue
		case r == unicode.ReplacementChar, unicode.In(r, unicode.C), !unicode.IsGraphic(r):
			continue
		case unicode.Is(unicode.M, r):
			if marks++; marks > maxCombiningMarks {
				continue
			}
		default:
			marks = 0
		}
		if length >= maxLength {
			out.WriteRune('…')
			break
		}
		if gap && out.Len() > 0 {
			out.WriteByte(' ')
			length++
		}
		gap = false
		out.WriteRune(r)
		length++
	}
	return out.String()
}
