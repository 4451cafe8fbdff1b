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

// indexWord is a word by which the index finds items.
type indexWord struct {
	// term is what a tsquery has after what begins the words of the app.
	term string
	// pattern matches the searched texts that have it.
	pattern string
	length  int
	prefix  bool
}

// indexWords returns words that all items which match a search have.
func indexWords(words media.Words) []indexWord {
	var all []indexWord
	for _, text := range words.Texts {
		parts := strings.Split(text.Folded, " ")
		for i, word := range parts {
			one := indexWord{term: word + "'", pattern: "% " + word + " %", length: utf8.RuneCountInString(word)}
			if i == len(parts)-1 && !text.Whole {
				one.term, one.pattern, one.prefix = word+"':*", "% "+word+"%", true
			}
			all = append(all, one)
		}
	}
	// The longest words are the rarest, and a whole one has one list.
	slices.SortStableFunc(all, func(a, b indexWord) int { return b.length - a.length })
	var chosen []indexWord
	for _, one := range all {
		short := one.prefix && one.length < minIndexPrefix
		if short && len(chosen) > 0 || slices.ContainsFunc(chosen, func(other indexWord) bool { return other.term == one.term }) {
			continue
		}
		if chosen = append(chosen, one); len(chosen) == maxIndexWords {
			break
		}
	}
	return chosen
}

// countWords returns the statement that counts the items that have each of the words, among the next ones of the list.
func (s search) countWords(words []indexWord, examined int) (sql string, args []any) {
	all := s.args(examined, 0)
	where, order := s.rows(&all)
	patterns := make([]string, len(words))
	for i, one := range words {
		patterns[i] = one.pattern
	}
	return strings.Join([]string{
		"-- name: CountWords :one",
		"WITH examined AS MATERIALIZED (SELECT " + countedColumns + " AS unused FROM item WHERE " + where + " ORDER BY " + order + " LIMIT (SELECT $9::bigint)),",
		"listed AS MATERIALIZED (SELECT " + searchedText + " AS searched FROM examined, LATERAL (SELECT " + matchSQL + " AS matches) AS m WHERE matches IS NOT NULL)",
		"SELECT array_agg((SELECT count(*) FROM listed WHERE searched LIKE pattern) ORDER BY n), (SELECT count(*) FROM listed),",
		"    (SELECT coalesce(sum(public_items + private_items), 0)::bigint FROM app_total WHERE app_id = $1) FROM unnest(" + all.add(patterns) + "::text[]) WITH ORDINALITY AS w (pattern, n)",
	}, "\n"), all
}

// byWordsSQL reads columns of items by their words.
func (s search) byWordsSQL(columns string, words []indexWord, args *arguments) string {
	terms := make([]string, len(words))
	for i, one := range words {
		terms[i] = one.term
	}
	within := ""
	if s.part { // which the index of lists tells without a look at the items
		within = "\n    AND app_id = $1 AND sealed_at IS NOT NULL AND id >= $7::uuid AND id < $8::uuid"
	}
	return `SELECT ` + columns + ` FROM item WHERE (sealed_at IS NULL) IS FALSE` + within + `
    AND item_words(app_id, ` + searchedText + `)
        @@ (SELECT string_agg('''' || to_hex(uuid_hash_extended($1, 0)) || word, ' & ')::tsquery FROM unnest(` + args.add(terms) + `::text[]) AS t (word)) LIMIT $9::bigint + 1`
}

// byWords returns the statement that sorts the items that have words of the search.
func (s search) byWords(words []indexWord, examined, wanted int) (sql string, args []any) {
	args = s.args(examined, wanted)
	from := s.byWordsSQL(foundColumns, words, (*arguments)(&args))
	return s.gathered("FindItemsByWords", from, args)
}

// countByWords returns the statement that counts among the items that have words of the search.
func (s search) countByWords(words []indexWord, examined int) (sql string, args []any) {
	all := s.args(examined, 0)
	from := s.byWordsSQL(countedColumns, words, &all)
	return s.counted("CountMatchesByWords", from, all)
}
