package media_test

import (
	"slices"
	"strings"
	"testing"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
)

func TestParseWords_ReadsWordsAndPhrases(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                           "",
		"Sunset  beach":              "[ sunset][ beach]",
		`"Golden Gate" -fog`:         "[ golden gate ][- fog]",
		`“Golden Gate” -„San Diego”`: "[ golden gate ][- san diego ]",
		"Café ÉCOLE straße ŁÓDŹ":     "[ cafe][ ecole][ strasse][ lodz]",
		"ЖИЗНЬ Ελλάδος":              "[ жизнь][ ελλαδοσ]",
		"e-mail IMG_0123.JPG it's":   "[ e mail][ img 0123 jpg][ it s]",
		"東京 ﾀﾜｰ":                     "[ 東 京][ タ ワ ー]",
		"sun* (AND) %_\\ OR & !":     "[ sun][ and][ or]",
		`a"b c"d`:                    "[ a][ b c ][ d]",
		"-a -- -":                    "[- a]",
		"ﬁne ½ ① \u202eabc":          "[ fine][ 1 2][ 1][ abc]",
		"👍🏽":                         "[ 👍]",
	} {
		words, err := media.ParseWords(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		got := ""
		for _, one := range words.Texts {
			got += "[" + one.Pattern() + "]"
		}
		for _, one := range words.Excluded {
			got += "[-" + one.Pattern() + "]"
		}
		if got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// A search has a bound, whatever is sent, and each error says what is wrong.
func TestParseWords_RejectsWhatIsTooMuch(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		strings.Repeat("word ", 10_000):      "q must be at most 500 characters",
		strings.Repeat("\ufdfa", 500):        "q must have at most 16 words",
		strings.Repeat("a ", 17):             "q must have at most 16 words",
		`"` + strings.Repeat("a ", 17) + `"`: "q must have at most 16 words",
		strings.Repeat("a", 65):              "a word of q must be at most 64 characters",
		`"open`:                              "q has an opening quotation mark without a closing one",
		`a -“open`:                           "q has an opening quotation mark without a closing one",
		"* & | ! ( ) : % _ ' \\ -":           "q must have a letter or a digit",
		`""`:                                 "q must have a letter or a digit",
		"a\x00b":                             "q must not contain control characters",
		"a\xffb":                             "q must be UTF-8",
		strings.Repeat("\xff", 3000):         "q must be at most 500 characters",
	} {
		if words, err := media.ParseWords(text); !fault.Is(err, fault.Invalid) || !strings.HasSuffix(err.Error(), says) {
			t.Errorf("%.40q: %+v, %v; want %s", text, words, err, says)
		}
	}
}

// The text of words, which links have, is read as the same words: otherwise the cursor of a page would be that of another list.
func FuzzParseWords(f *testing.F) {
	for _, text := range []string{`"Golden Gate" -fog`, "e-mail", "東京", `-"a b" c`, "ﷺ", "İSTANBUL", "ǅ"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		words, err := media.ParseWords(text)
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		count := 0
		for _, one := range slices.Concat(words.Texts, words.Excluded) {
			count += len(strings.Fields(one.Folded))
			if strings.ContainsAny(one.Folded, `%_\'":&|!*`) || one.Folded != strings.Join(strings.Fields(one.Folded), " ") {
				t.Errorf("%q: %q is no words", text, one.Folded)
			}
		}
		if count > media.MaxWords {
			t.Errorf("%q: %d words", text, count)
		}
		if !words.Any() {
			return
		}
		again, err := media.ParseWords(words.String())
		if err != nil && !strings.Contains(err.Error(), "500 characters") {
			t.Fatalf("%q: %q: %v", text, words.String(), err)
		}
		patterns := func(texts []media.WordText) (all []string) {
			for _, one := range texts {
				all = append(all, one.Pattern())
			}
			return all
		}
		if err == nil && (!slices.Equal(patterns(words.Texts), patterns(again.Texts)) || !slices.Equal(patterns(words.Excluded), patterns(again.Excluded))) {
			t.Errorf("%q: %+v becomes %+v", text, words, again)
		}
	})
}

func TestTraitsText_ParsesBackAndRejects(t *testing.T) {
	t.Parallel()
	number := func(n int64) *int64 { return &n }
	traits, err := media.TraitsText{Has: "caption,group", MinBytes: number(1), MaxBytes: number(1), MaxWidth: number(7), MinHeight: number(0), Orientation: "portrait", Color: "1E6FB9"}.Parse()
	must(t, err)
	want := map[string]string{"has": "caption,group", "minBytes": "1", "maxBytes": "1", "maxWidth": "7", "minHeight": "0", "orientation": "portrait", "color": "#1e6fb9"}
	for name, value := range traits.Parameters() {
		if want[name] != value {
			t.Errorf("%s is %s, want %s", name, value, want[name])
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("%v are missing", want)
	}
	for says, text := range map[string]media.TraitsText{
		"has must be caption, group, or both with a comma":      {Has: "metadata"},
		"lacks must be caption, group, or both with a comma":    {Lacks: "caption, group"},
		"has and lacks cannot both be group":                    {Has: "group", Lacks: "caption,group"},
		"minWidth must be 0 or more":                            {MinWidth: number(-1)},
		"minBytes must not be more than maxBytes":               {MinBytes: number(2), MaxBytes: number(1)},
		"orientation must be landscape, portrait or square":     {Orientation: "wide"},
		"color must be six hexadecimal digits after #, such as": {Color: "#12345"},
		"color must be six hexadecimal digits after #, such a":  {Color: "+12345"},
	} {
		if _, err := text.Parse(); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want %s", text, err, says)
		}
	}
}
