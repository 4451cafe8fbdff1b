package postgres

import (
	"context"
	"strings"

	"mediastack.dev/runtime/media"
)

// What a search by the index of words costs, in microseconds: for each item that begins with a word, of which GIN makes a bitmap before it combines
// anything; for each item of a whole word, of which it reads parts; and for each item that is then read from the table.
const (
	beginningCost = 0.2
	wholeCost     = 0.05
	readCost      = 6
	// maxIndexCost bounds the first two: without the index, the last scan takes a quarter of it.
	maxIndexCost = 15_000
	// So many times the items that may be found may be expected: a sample of rare words is not exact.
	expectedTimes = 1
)

// wordSample is how many items have each word, among those that were examined.
type wordSample struct {
	counts   []int64
	examined int64
	// items is how many the app has.
	items int64
}

// choose returns the words by which the index finds at most so many items at the least cost, as far as the sample tells; nil if there are none.
func (s wordSample) choose(words []indexWord, most int) (chosen []indexWord) {
	least := 0.0
	for set := 1; set < 1<<len(words); set++ {
		var some []indexWord
		expected, cost := float64(s.items), 0.0
		for i, one := range words {
			if set&(1<<i) == 0 {
				continue
			}
			// No word is known to be absent.
			share := min(1, max(float64(s.counts[i]), 0.5)/float64(max(1, s.examined)))
			listed := wholeCost
			if one.prefix {
				listed = beginningCost
			}
			some, expected, cost = append(some, one), expected*share, cost+share*float64(s.items)*listed
		}
		if cost > maxIndexCost || expected > expectedTimes*float64(most) {
			continue
		}
		if cost += expected * readCost; chosen == nil || cost < least {
			chosen, least = some, cost
		}
	}
	return chosen
}

// chooseWords returns the words to look for in the index: none if it would read too much, as far as the next items of the list tell. Of those, found
// match among examined ones; most is how many items may be found.
func (s Items) chooseWords(ctx context.Context, search search, found, examined, most int) ([]indexWord, error) {
	words := indexWords(search.query.Words)
	sample := wordSample{counts: []int64{int64(found)}, examined: int64(examined)}
	if search.isWord() {
		if found == 0 {
			return words, nil
		}
		if err := s.pool.QueryRow(ctx, countAppSQL, search.scope.AppID).Scan(&sample.items); err != nil {
			return nil, err
		}
		return sample.choose(words, most), nil
	}
	sql, args := search.countWords(words, s.searches.firstScan)
	if err := s.pool.QueryRow(ctx, sql, args...).Scan(&sample.counts, &sample.examined, &sample.items); err != nil {
		return nil, err
	}
	return sample.choose(words, most), nil
}

// isWord reports whether an item matches if and only if it has one word.
func (s search) isWord() bool {
	words, rest := s.query.Words, s.query.Search
	rest.Words = media.Words{}
	return len(words.Texts) == 1 && len(words.Excluded) == 0 && !strings.Contains(words.Texts[0].Folded, " ") && !rest.Narrows() && rest.Filter == (media.Filter{}) && rest.Keys == nil
}

// countAppSQL is how many items an app has.
const countAppSQL = `-- name: CountApp :one
SELECT coalesce(sum(public_items + private_items), 0)::bigint FROM app_total WHERE app_id = $1`
