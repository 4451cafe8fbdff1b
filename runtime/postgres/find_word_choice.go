package postgres

import (
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/media"
)

// What a search by the index of words costs, in microseconds: for each item that begins with a word, of which GIN makes a bitmap before it combines
// anything; for each item of a whole word, of which it reads parts; for each item of a range of time; and for each item that is then read from the
// table.
const (
	beginningCost = 0.2
	wholeCost     = 0.05
	rangeCost     = 0.1
	readCost      = 6
	// maxIndexCost bounds those before: without the index, the last scan takes a third of it.
	maxIndexCost = 15_000
	// So many times the items that are wanted are read from a range of time, or many more of a search whose words are not all that it looks for.
	rangeReads     = 5
	rangeReadsMore = 20
	// partTimes is how many times as many items as the last scan examines a part has at least.
	partTimes = 2
	// sortedPart is which part of the items that may be found are expected at most if a part of the list had so few that all are sorted.
	sortedPart = 0.75
)

// wordSample is how many items have each word, among those that were examined.
type wordSample struct {
	counts   []int64
	examined int64
	// items is how many the app has.
	items int64
}

// wordChoice are the words by which the index finds items; none if it would read too much.
type wordChoice struct {
	words []indexWord
	// part is that of the items of the app, the next ones of the list, in which the index finds enough; 1 = all.
	part float64
}

// share is the part of the items that have a word. No word is known to be absent.
func (s wordSample) share(i int) float64 {
	return min(1, max(float64(s.counts[i]), 0.5)/float64(max(1, s.examined)))
}

// choose returns the words, and the part of a list by time, with the least cost, as far as the sample tells. The index may find at most so many items.
// Of a list by time, a page needs about reads items that have all the words; in others, reads is 0.
func (s wordSample) choose(words []indexWord, most, reads, lastScan int) (best wordChoice) {
	all := float64(s.items)
	for i := range words {
		all *= s.share(i)
	}
	least := 0.0
	for set := 1; set < 1<<len(words); set++ {
		one := wordChoice{part: 1}
		index, expected := 0.0, float64(s.items)
		for i, word := range words {
			if set&(1<<i) == 0 {
				continue
			}
			listed := wholeCost
			if word.prefix {
				listed = beginningCost
			}
			one.words, expected, index = append(one.words, word), expected*s.share(i), index+s.share(i)*float64(s.items)*listed
		}
		cost := index + expected*readCost
		if reads > 0 {
			some := float64(reads) * expected / all
			ranged := float64(s.items) * some / expected
			if with := index + ranged*rangeCost + some*readCost; with < cost && some <= float64(most) && ranged > partTimes*float64(lastScan) {
				one.part, cost, index = some/expected, with, index+ranged*rangeCost
			}
		}
		if index > maxIndexCost || expected*one.part > float64(most) {
			continue
		}
		if best.words == nil || cost < least {
			best, least = one, cost
		}
	}
	return best
}

// chooseWords returns the words to look for in the index, as far as the next items of the list tell. Of those, found match among examined ones; most is
// how many items may be found, and reads as in choose.
func (s Items) chooseWords(ctx context.Context, search search, found, examined, most, reads int) (wordChoice, error) {
	words := indexWords(search.query.Words)
	sample := wordSample{counts: []int64{int64(found)}, examined: int64(examined)}
	if search.isWord() {
		if found == 0 {
			return wordChoice{words: words, part: 1}, nil
		}
		if err := s.pool.QueryRow(ctx, countAppSQL, search.scope.AppID).Scan(&sample.items); err != nil {
			return wordChoice{}, err
		}
		return sample.choose(words, most, reads, s.searches.lastScan), nil
	}
	sql, args := search.countWords(words, s.searches.firstScan)
	if err := s.pool.QueryRow(ctx, sql, args...).Scan(&sample.counts, &sample.examined, &sample.items); err != nil {
		return wordChoice{}, err
	}
	return sample.choose(words, most, reads, s.searches.lastScan), nil
}

// isWord reports whether an item matches if and only if it has one word.
func (s search) isWord() bool {
	return len(s.query.Words.Texts) == 1 && s.isWords() && !strings.Contains(s.query.Words.Texts[0].Folded, " ")
}

// isWords reports whether an item matches if and only if it has words, in any order but that of phrases.
func (s search) isWords() bool {
	rest := s.query.Search
	rest.Words = media.Words{}
	return len(s.query.Words.Excluded) == 0 && !rest.Narrows() && rest.Filter == (media.Filter{}) && rest.Keys == nil
}

// rangeReads returns how many items are to be read from a range of time for a page of a list by time; 0 for other lists.
func (s search) rangeReads(wanted int) int {
	switch {
	case !s.byTime():
		return 0
	case s.isWords() && !slices.ContainsFunc(s.query.Words.Texts, func(text media.WordText) bool { return strings.Contains(text.Folded, " ") }):
		return rangeReads * wanted
	}
	return rangeReadsMore * wanted
}

// countAppSQL is how many items an app has, and spanSQL which are the first and the last one, if there are any.
const (
	countAppSQL = `-- name: CountApp :one
SELECT coalesce(sum(public_items + private_items), 0)::bigint FROM app_total WHERE app_id = $1`
	spanSQL = `-- name: AppSpan :one
SELECT coalesce((SELECT id FROM item WHERE app_id = $1 AND sealed_at IS NOT NULL ORDER BY id LIMIT 1), $2),
    coalesce((SELECT id FROM item WHERE app_id = $1 AND sealed_at IS NOT NULL ORDER BY id DESC LIMIT 1), $2)`
)

// nextPart returns the search among the next items of the list, about such a part of those of the app: uploads came at an even pace, as far as the
// first and the last one tell. If they did not, fewer or more items are in it.
func (s Items) nextPart(ctx context.Context, search search, part float64) (search, error) {
	var oldest, newest uuid.UUID
	if err := s.pool.QueryRow(ctx, spanSQL, search.scope.AppID, uuid.Nil).Scan(&oldest, &newest); err != nil {
		return search, err
	}
	first, last := max(idTime(oldest), idTime(search.first)), min(idTime(newest), idTime(search.end))
	long := int64(part * float64(idTime(newest)-idTime(oldest)))
	if search.query.Order.Ascending {
		_, end := media.Search{To: time.UnixMilli(first + long + 1)}.IDs()
		if laterID(search.end, end) == search.end {
			search.end = end
		}
	} else {
		begin, _ := media.Search{From: time.UnixMilli(last - long)}.IDs()
		search.first = laterID(search.first, begin)
	}
	search.part = true
	return search, nil
}

// idTime returns the milliseconds of an id.
func idTime(id uuid.UUID) int64 { return int64(binary.BigEndian.Uint64(id[:]) >> 16) } //nolint:gosec // of 48 bits

// restOf returns the position from which on a list goes on after the part of it that was searched; nil if nothing is left.
func (s search) restOf(part search) *media.Position {
	switch {
	case s.query.Order.Ascending && part.end != s.end:
		return &media.Position{ID: previous(part.end)}
	case !s.query.Order.Ascending && part.first != s.first:
		return &media.Position{ID: part.first}
	}
	return nil
}

// previous returns the id before another one.
func previous(id uuid.UUID) uuid.UUID {
	for i := len(id) - 1; i >= 0; i-- {
		if id[i]--; id[i] != 0xff {
			return id
		}
	}
	return uuid.Nil
}
