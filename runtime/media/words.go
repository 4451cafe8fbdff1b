package media

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"mediastack.dev/runtime/fault"
)

// Bounds of a search by words.
const (
	// MaxWordsText is in characters.
	MaxWordsText = 500
	// MaxWords counts those of phrases, too.
	MaxWords = 16
	// MaxWordLength is in characters, of a word without accents.
	MaxWordLength = 64
)

// Words are what a search by words looks for: in the file name, the caption, the group and the metadata of items.
type Words struct {
	// Texts are in the items, and Excluded are in none of them.
	Texts, Excluded []WordText
}

// WordText is a word, or several that follow each other.
type WordText struct {
	// Folded is in lower case without accents, with a space between two words.
	Folded string
	// Whole says that the last word is meant. Otherwise longer words that begin with it match, too.
	Whole bool
	// raw is one word as it was sent, in lower case, of which there may be other forms; empty for what is several words, or in quotation marks.
	raw string
}

// Any reports whether there are any.
func (w Words) Any() bool { return len(w.Texts)+len(w.Excluded) > 0 }

// Pattern returns what the searched text of an item has if it has the words: there each word is between spaces.
func (t WordText) Pattern() string {
	if t.Whole {
		return " " + t.Folded + " "
	}
	return " " + t.Folded
}

// errWordQuote is for a quotation mark of which there is no second one.
var errWordQuote = fault.New(fault.Invalid, "q has an opening quotation mark without a closing one")

// ParseWords reads the words of a search: `sunset beach` finds items with words that begin with both, in any order; `"golden gate"` with these two
// words, one after the other; and a minus before a word or a phrase excludes the items that have it. Other characters separate words.
// An empty text is no search.
func ParseWords(text string) (Words, error) {
	if text == "" {
		return Words{}, nil
	}
	if len(text) > MaxWordsText*utf8.UTFMax || utf8.RuneCountInString(text) > MaxWordsText {
		return Words{}, fault.New(fault.Invalid, "q must be at most %d characters", MaxWordsText)
	}
	if err := CheckText("q", text, MaxWordsText*utf8.UTFMax, "\n\r\t"); err != nil {
		return Words{}, err
	}
	var words Words
	count := 0
	for rest := strings.TrimLeftFunc(text, unicode.IsSpace); rest != ""; rest = strings.TrimLeftFunc(rest, unicode.IsSpace) {
		var part string
		var excluded, whole bool
		var err error
		if part, rest, excluded, whole, err = nextPart(rest); err != nil {
			return Words{}, err
		}
		found := WordText{Folded: foldWords(part), Whole: whole}
		if found.Folded == "" {
			continue
		}
		for word := range strings.SplitSeq(found.Folded, " ") {
			if utf8.RuneCountInString(word) > MaxWordLength {
				return Words{}, fault.New(fault.Invalid, "a word of q must be at most %d characters", MaxWordLength)
			}
			count++
		}
		if count > MaxWords {
			return Words{}, fault.New(fault.Invalid, "q must have at most %d words", MaxWords)
		}
		if raw := rawWord(part); !whole && foldWords(raw) == found.Folded && !strings.Contains(found.Folded, " ") {
			found.raw = raw
		}
		if excluded {
			words.Excluded = append(words.Excluded, found)
		} else {
			words.Texts = append(words.Texts, found)
		}
	}
	if !words.Any() {
		return Words{}, fault.New(fault.Invalid, "q must have a letter or a digit")
	}
	return words, nil
}

// rawWord returns a word in lower case, without what is around it.
func rawWord(part string) string {
	return strings.ToLower(norm.NFC.String(strings.TrimFunc(part, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })))
}

// quotes are the quotation marks that begin and end a phrase: keyboards of phones write the others.
const quotes = `"“”„`

// nextPart returns the first word or phrase of a text, and the text after it.
func nextPart(text string) (part, rest string, excluded, whole bool, err error) {
	text, excluded = strings.CutPrefix(text, "-")
	quote, size := utf8.DecodeRuneInString(text)
	if text == "" || !strings.ContainsRune(quotes, quote) {
		end := strings.IndexFunc(text, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(quotes, r) })
		if end < 0 {
			end = len(text)
		}
		return text[:end], text[end:], excluded, false, nil
	}
	part, rest, whole = cutAny(text[size:], quotes)
	if !whole {
		return "", "", false, false, errWordQuote
	}
	return part, rest, excluded, true, nil
}

// cutAny cuts a text at the first of some characters.
func cutAny(text, characters string) (before, after string, found bool) {
	at := strings.IndexAny(text, characters)
	if at < 0 {
		return text, "", false
	}
	_, size := utf8.DecodeRuneInString(text[at:])
	return text[:at], text[at+size:], true
}

// String returns a text that ParseWords reads as these words.
func (w Words) String() string {
	var all []string
	for _, text := range w.Texts {
		all = append(all, text.String())
	}
	for _, text := range w.Excluded {
		all = append(all, "-"+text.String())
	}
	return strings.Join(all, " ")
}

// String returns a text that ParseWords reads as this one.
func (t WordText) String() string {
	switch {
	case t.Whole:
		return `"` + t.Folded + `"`
	case t.raw != "":
		return t.raw
	}
	return strings.ReplaceAll(t.Folded, " ", "_")
}

// text returns words that have the same form whatever their text was, for the binding of cursors.
func (w Words) text() string {
	var all []string
	for _, text := range w.Texts {
		all = append(all, "+"+text.Pattern())
	}
	for _, text := range w.Excluded {
		all = append(all, "-"+text.Pattern())
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), "\n")
}

// minStem is how many characters a stem has at least: very many words begin with a shorter one.
const minStem = 3

// raws returns the words that may have other forms.
func (w Words) raws() (all []string) {
	for _, text := range slices.Concat(w.Texts, w.Excluded) {
		if text.raw != "" {
			all = append(all, text.raw)
		}
	}
	return all
}

// withStems returns the words with those of raws in the place of their forms: what they have in common with their stems.
func (w Words) withStems(stems []string) Words {
	replaced := func(texts []WordText) []WordText {
		texts = slices.Clone(texts)
		for i := range texts {
			if text := &texts[i]; text.raw != "" {
				if common := commonPrefix(text.Folded, foldWords(stems[0])); utf8.RuneCountInString(common) >= minStem {
					text.Folded = common
				}
				stems = stems[1:]
			}
		}
		return texts
	}
	texts := replaced(w.Texts)
	return Words{Texts: texts, Excluded: replaced(w.Excluded)}
}

// commonPrefix returns the characters that two texts begin with.
func commonPrefix(a, b string) string {
	for i, r := range a {
		if other, size := utf8.DecodeRuneInString(b); size == 0 || other != r {
			return a[:i]
		} else {
			b = b[size:]
		}
	}
	return a
}
