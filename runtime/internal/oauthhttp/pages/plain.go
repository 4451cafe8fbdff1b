package pages

import (
	"strings"
	"unicode"
)

// maxShown is how much of a name or an address is shown, in characters.
const maxShown = 80

// maxMarks is how many marks one character may carry: enough for every script, too
// few to paint over the lines above.
const maxMarks = 3

// Visible reports whether a text holds a character that is seen by itself. Letters and
// symbols that are blank, such as HANGUL FILLER, are not, and neither is a mark alone.
func Visible(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool {
		return unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S) && r != brailleBlank && r != nullNotehead && r != unicode.ReplacementChar &&
			!unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
	})
}

// Symbols without ink.
const (
	brailleBlank = '\u2800'
	nullNotehead = '\U0001D159'
)

// plain makes the words of a stranger fit for a page: one line, not too long, and
// nothing in it that is invisible or turns the direction of what follows.
func plain(text string) string { return clean(text, maxShown) }

// host is plain for a host or a scheme. It is never cut: its end says whose it is.
func host(text string) string { return clean(text, len(text)) }

func clean(text string, most int) string {
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
			if marks++; marks > maxMarks {
				continue
			}
		default:
			marks = 0
		}
		if length >= most {
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
