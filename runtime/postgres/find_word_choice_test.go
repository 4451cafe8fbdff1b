package postgres_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres"
)

// The index looks for words that find few items, in as much of the list as a page needs, and for none if it would read too much. The counts are of the
// words in the order of their lengths.
func TestChooseWords_ReadsLittle(t *testing.T) {
	t.Parallel()
	const (
		million, most, reads, lastScan = 1_000_000, 2500, 105, 5000
	)
	for _, tt := range []struct {
		name, words string
		counts      []int64
		items       int64
		reads       int
		want        string
		part        bool
	}{
		{"one word that few have", "sunset", []int64{0}, million, reads, "sunset", false},
		{"one word that is too common to read all", "sunset", []int64{2}, million, reads, "sunset", true},
		{"the same in a list by name", "sunset", []int64{3}, million, 0, "", false},
		{"a common and a rare word", "belonging sun", []int64{300, 0}, million, reads, "sun", false},
		{"two words that together are rare", "belonging sun", []int64{5, 5}, million, reads, "belonging sun", false},
		{"two words that together are common", `"belonging sunset"`, []int64{50, 50}, million, 420, "belonging sunset", true},
		{"two beginnings that very many have", "belonging sunset", []int64{250, 250}, million, reads, "", false},
		{"a small app", "belonging sunset", []int64{50, 50}, 10_000, reads, "belonging sunset", false},
	} {
		terms, part := postgres.ChooseWords(wordsOf(tt.words), tt.counts, 500, tt.items, most, tt.reads, lastScan)
		for i := range terms {
			terms[i] = strings.TrimRight(terms[i], "':*")
		}
		if got := strings.Join(terms, " "); got != tt.want || got != "" && (part < 1) != tt.part {
			t.Errorf("%s: %q in %.3f of the list", tt.name, got, part)
		}
		if len(terms) > 0 && part < 1 && part*float64(tt.items) < 2*lastScan {
			t.Errorf("%s: %.3f of the list is less than the last scan examines", tt.name, part)
		}
	}
}

// A list of which parts are searched by the index has each item once, also if uploads came at no even pace.
func TestSearch_InPartsOfAListEqualsModel(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	postgres.BoundSearches(store, 5, 80, 8, 80)
	scope := provisioned(t, store)
	conn := connect(t, url)
	random := rand.New(rand.NewPCG(54, 1))
	var items []media.Item
	add := func() {
		item := randomItem(random, scope)
		at := began.Add(time.Duration(random.IntN(60)*random.IntN(60)*random.IntN(60)) * time.Millisecond)
		item.ID, item.CreatedAt, item.SealedAt, item.Caption = idOf(random, at), at, &at, pick(random, "plain", "plain golden", "gate golden", "golden gate")
		items = append(items, item)
		insertItems(t, conn, []media.Item{item})
	}
	for range 600 {
		add()
	}
	must(t, check.ErrorOf(conn.Exec(t.Context(), `UPDATE app_total SET private_items = $2 WHERE app_id = $1 AND slot = 0`, scope.AppID, len(items))))
	service, p := serviceOf(t, store), principalOf(scope)
	for range 60 {
		q := media.Query{Order: media.Order{By: media.ByTime, Ascending: random.IntN(2) == 0}, Limit: 1 + random.IntN(7)}
		q.Words = wordsOf(pick(random, "gate", `"golden gate"`, "golden gate", "gate golden -plain", `"gate golden"`))
		if random.IntN(3) == 0 {
			q.From = began.Add(time.Duration(random.IntN(100)) * time.Second)
		}
		var removed []uuid.UUID
		want := inModel(q, items)
		got := readAll(t, service, p, q, func() {
			// An item that was there all the time is in the list once, whatever is deleted meanwhile.
			if len(removed) == 0 && len(items) > 300 {
				at := random.IntN(len(items))
				removed = append(removed, items[at].ID)
				must(t, check.ErrorOf(conn.Exec(context.WithoutCancel(t.Context()), `DELETE FROM item WHERE account_id = $1 AND id = $2`, scope.AccountID, items[at].ID)))
				items = slices.Delete(items, at, at+1)
			}
		})
		gone := func(id uuid.UUID) bool { return slices.Contains(removed, id) }
		if got, want = slices.DeleteFunc(got, gone), slices.DeleteFunc(want, gone); !slices.Equal(got, want) {
			t.Fatalf("%+v: %d items are not those of the model, %d", q, len(got), len(want))
		}
	}
}
