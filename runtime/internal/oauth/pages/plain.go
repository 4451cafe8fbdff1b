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
