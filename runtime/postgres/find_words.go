package postgres

import (
	"slices"
	"strings"
	"unicode/utf8"

	"mediastack.dev/runtime/media"
)

// searchedText is the text of an item that is searched by words (docs/decisions/0052). A row of before the column is folded when it is read.
const searchedText = "coalesce(search_text, item_search_text(file_name, caption, group_label, metadata, NULL))"

// wordsMatch returns the condition of the words of a search, after the others.
func (s search) wordsMatch(args *arguments) string {
	words := s.query.Words
	if !words.Any() {
		return ""
	}
	texts, excluded := args.add(likePatterns(words.Texts)), args.add(likePatterns(words.Excluded))
	matches := func(text string) string {
		return " AND " + text + " LIKE ALL (" + texts + "::text[]) AND " + text + " NOT LIKE ALL (" + excluded + "::text[])"
	}
	if s.query.Keys == nil {
		return matches(searchedText)
	}
	// Only the metadata of these keys is searched: the text with all of it tells cheaply which items cannot match.
	return " AND " + searchedText + " LIKE ALL (" + texts + "::text[])" +
		matches("item_search_text(file_name, caption, group_label, metadata, "+args.add(s.query.Keys)+"::text[])")
}

// likePatterns returns the patterns of texts. Words have no character that has a meaning in a pattern.
func likePatterns(texts []media.WordText) []string {
	patterns := make([]string, len(texts))
	for i, text := range texts {
		patterns[i] = "%" + text.Pattern() + "%"
	}
	return patterns
}

// Words that the index combines. More would read more lists, and leave out hardly more items: the others are compared with those that are found.
const (
	maxIndexWords = 4
	// A shorter beginning of a word is left out if there is a word besides: very many words may begin with it.
	minIndexPrefix = 3
)

// indexWords returns words that all items which match a search have, as a tsquery has them after what begins the words of the app.
func indexWords(words media.Words) []string {
	type candidate struct {
		term   string
		length int
		prefix bool
	}
	var all []candidate
	for _, text := range words.Texts {
		parts := strings.Split(text.Folded, " ")
		for i, word := range parts {
			one := candidate{term: word + "'", length: utf8.RuneCountInString(word)}
			if i == len(parts)-1 && !text.Whole {
				one.term, one.prefix = word+"':*", true
			}
			all = append(all, one)
		}
	}
	// The longest words are the rarest, and a whole one has one list.
	slices.SortStableFunc(all, func(a, b candidate) int { return b.length - a.length })
	var terms []string
	for _, one := range all {
		if short := one.prefix && one.length < minIndexPrefix; short && len(terms) > 0 || slices.Contains(terms, one.term) {
			continue
		}
		if terms = append(terms, one.term); len(terms) == maxIndexWords {
			break
		}
	}
	return terms
}

// byWordsSQL reads columns of items by their words.
func (s search) byWordsSQL(columns string, args *arguments) string {
	return `SELECT ` + columns + ` FROM item WHERE (sealed_at IS NULL) IS FALSE
    AND item_words(app_id, ` + searchedText + `)
        @@ (SELECT string_agg('''' || to_hex(uuid_hash_extended($1, 0)) || word, ' & ')::tsquery FROM unnest(` + args.add(indexWords(s.query.Words)) + `::text[]) AS t (word)) LIMIT $9::bigint + 1`
}

// byWords returns the statement that sorts the items that have the words of the search.
func (s search) byWords(examined, wanted int) (sql string, args []any) {
	args = s.args(examined, wanted)
	from := s.byWordsSQL(foundColumns, (*arguments)(&args))
	return s.gathered("FindItemsByWords", from, args)
}

// countByWords returns the statement that counts among the items that have the words of the search.
func (s search) countByWords(examined int) (sql string, args []any) {
	all := s.args(examined, 0)
	from := s.byWordsSQL(countedColumns, &all)
	return s.counted("CountMatchesByWords", from, all)
}
