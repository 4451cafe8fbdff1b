package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"
	"unicode"

	"sigs.k8s.io/yaml"
)

// scope is a kind of text in which a word may be retired.
type scope string

// The scopes of words.yaml. A file that is not Go is prose as a whole.
const (
	identifiers scope = "identifiers" // names that Go code declares
	prose       scope = "prose"       // comments, string literals, documents and all other files
)

// wordList is the content of words.yaml.
type wordList struct {
	// Extensions are those of the files that are checked; "" stands for none.
	Extensions []string `json:"extensions"`
	// Exclude are the folders, or files, that are not checked.
	Exclude []string  `json:"exclude"`
	Retired []retired `json:"retired"`
}

// retired is a group of words with one replacement.
type retired struct {
	Words   []string `json:"words"`   // compared without case, with each part of a name
	Phrases []string `json:"phrases"` // regular expressions, for prose only
	Say     string   `json:"say"`
	In      []scope  `json:"in"`     // both scopes if empty
	Unless  string   `json:"unless"` // a regular expression: lines that it matches may keep the word

	phrases []*regexp.Regexp
	unless  *regexp.Regexp
}

func readWordList(path string) (*wordList, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	list := &wordList{}
	if err := yaml.UnmarshalStrict(content, list); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for i := range list.Retired {
		if err := list.Retired[i].compile(); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return list, nil
}

func (r *retired) compile() error {
	if r.Say == "" {
		return fmt.Errorf("no replacement for %q", r.Words)
	}
	for _, in := range r.In {
		if in != identifiers && in != prose {
			return fmt.Errorf("unknown scope %q", in)
		}
	}
	for _, phrase := range r.Phrases {
		compiled, err := regexp.Compile(`(?i)\b(?:` + phrase + `)\b`)
		if err != nil {
			return err
		}
		r.phrases = append(r.phrases, compiled)
	}
	if r.Unless == "" {
		return nil
	}
	unless, err := regexp.Compile(r.Unless)
	r.unless = unless
	return err
}

func (r *retired) appliesTo(s scope) bool {
	if len(r.In) == 0 {
		return true
	}
	for _, in := range r.In {
		if in == s {
			return true
		}
	}
	return false
}

// excludes reports whether path, or a folder above it, is excluded.
func (l *wordList) excludes(path string) bool {
	for _, excluded := range l.Exclude {
		if path == excluded || strings.HasPrefix(path, excluded+"/") {
			return true
		}
	}
	return false
}

// violation is a retired word, or a rule that is broken, at a line of a file. Lines count from 1.
type violation struct {
	line    int
	message string
}

// checkText returns the violations in text, whose first line is number line of the file.
func (l *wordList) checkText(s scope, line int, text []byte) []violation {
	var found []violation
	for offset, content := range bytes.Split(text, []byte("\n")) {
		words := splitWords(string(content))
		for i := range l.Retired {
			r := &l.Retired[i]
			if !r.appliesTo(s) || r.unless != nil && r.unless.Match(content) {
				continue
			}
			for _, word := range r.matches(s, string(content), words) {
				found = append(found, violation{line + offset, fmt.Sprintf("%q: write %s", word, r.Say)})
			}
		}
	}
	return found
}

// matches returns the retired words and phrases of one line.
func (r *retired) matches(s scope, line string, words map[string]bool) []string {
	var found []string
	for _, word := range r.Words {
		if words[word] {
			found = append(found, word)
		}
	}
	if s == prose {
		for _, phrase := range r.phrases {
			if match := phrase.FindString(line); match != "" {
				found = append(found, match)
			}
		}
	}
	return found
}

// splitWords returns the words of a line in lower case. A name in camel case is split into its parts
// and kept as a whole, too.
func splitWords(line string) map[string]bool {
	words := map[string]bool{}
	for _, run := range strings.FieldsFunc(line, func(r rune) bool { return !unicode.IsLetter(r) }) {
		words[strings.ToLower(run)] = true
		for _, part := range splitCamel(run) {
			words[strings.ToLower(part)] = true
		}
	}
	return words
}

// splitCamel splits fooBarURLBaz into foo, Bar, URL and Baz.
func splitCamel(name string) []string {
	var parts []string
	runes := []rune(name)
	start := 0
	for i := 1; i < len(runes); i++ {
		lowerToUpper := unicode.IsLower(runes[i-1]) && unicode.IsUpper(runes[i])
		endOfInitials := i+1 < len(runes) && unicode.IsUpper(runes[i-1]) && unicode.IsUpper(runes[i]) && unicode.IsLower(runes[i+1])
		if lowerToUpper || endOfInitials {
			parts = append(parts, string(runes[start:i]))
			start = i
		}
	}
	return append(parts, string(runes[start:]))
}
