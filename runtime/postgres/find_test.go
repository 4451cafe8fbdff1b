package postgres_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/alecthomas/kong"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres"
)

// began is when the uploads of the items of the model began.
var began = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// idOf returns an id of an upload that began at a time.
func idOf(random *rand.Rand, at time.Time) uuid.UUID {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[8:], random.Uint64())
	binary.BigEndian.PutUint64(id[:], uint64(at.UnixMilli())<<16|uint64(random.IntN(1<<12))|0x8000)
	id[8] = id[8]&0x3f | 0x80
	return id
}

func pick[T any](random *rand.Rand, values ...T) T { return values[random.IntN(len(values))] }

// randomItem returns an item with few different values, so that searches match some items and orders
// have equal keys.
func randomItem(random *rand.Rand, scope media.Scope) media.Item {
	at := began.Add(time.Duration(random.IntN(500)) * 400 * time.Microsecond)
	id := idOf(random, at)
	kind := pick(random, "image/jpeg", "image/png", "application/pdf", "video/mp4")
	objects := media.Objects{{Variant: media.Original, Key: media.ObjectKey(id, media.Original), Bytes: int64(random.IntN(12)), MimeType: kind}}
	if kind == "image/png" && random.IntN(2) == 0 {
		objects = append(objects, media.Object{Variant: media.Thumbnail, Bytes: 3, MimeType: "image/jpeg"}, media.Object{Variant: media.WebP, Bytes: int64(random.IntN(12)), MimeType: "image/webp"})
	}
	metadata := media.Metadata{}
	for range random.IntN(3) {
		metadata[pick(random, "color", "a.b", "x-1")] = pick(random, "red", "Rouge é", `"=\ü`, "")
	}
	item := media.Item{ID: id, AccountID: scope.AccountID, AppID: scope.AppID, Access: pick(random, media.Public, media.Private), Group: pick(random, "", "", "album", "a'b"),
		FileName: pick(random, "IMG_%03d.jpg", "img_%03d.JPG", "Straße %d ÄÖ.png", "%d%%_x", "🎉%d🎉🎉", "a%d"), Metadata: metadata, Objects: objects, CreatedAt: at, SealedAt: &at}
	item.FileName = fmt.Sprintf(item.FileName, random.IntN(40))
	for range random.IntN(4) {
		item.Caption += pick(random, "Golden ", "gate", "Gäte-", "golden gate ", "Ünder\n", "straße ", "СОЛНЦЕ ", "東京タワー", "it's ", "x ")
	}
	if random.IntN(8) == 0 {
		item.SealedAt = nil
	}
	item.Capture = randomCapture(random)
	return item
}

// insertItems adds items by SQL, without objects in S3, and without the totals.
func insertItems(t *testing.T, conn *pgx.Conn, items []media.Item) {
	t.Helper()
	rows := make([][]any, len(items))
	for i, item := range items {
		rows[i] = []any{item.ID, item.AccountID, item.AppID, item.FileName, item.Access, item.Caption, item.Group, item.Objects, item.Objects.Bytes(), item.Metadata, item.CreatedAt, item.SealedAt, postgres.CaptureText(item.Capture)}
	}
	_, err := conn.CopyFrom(t.Context(), pgx.Identifier{"stored_item"},
		[]string{"id", "account_id", "app_id", "file_name", "access", "caption", "group_label", "objects", "bytes", "metadata", "created_at", "sealed_at", "capture"}, pgx.CopyFromRows(rows))
	must(t, err)
}

// matches is the model of a search.
func matches(q media.Query, item media.Item) bool {
	lower := func(name string) string {
		return strings.Map(func(r rune) rune {
			if r >= 'A' && r <= 'Z' {
				return r + 'a' - 'A'
			}
			return r
		}, name)
	}
	kind := item.File().MimeType
	start := time.UnixMilli(int64(binary.BigEndian.Uint64(item.ID[:]) >> 16))
	for key, value := range q.Metadata {
		if held, ok := item.Metadata[key]; !ok || held != value {
			return false
		}
	}
	return hasWords(q, item) && capturedIn(q.Captured, item) && item.Draft() == q.Drafts && (q.Access == "" || q.Access == item.Access) && (q.Group == "" || q.Group == item.Group) &&
		(q.Type == "" || q.Type == kind || strings.HasSuffix(q.Type, "/*") && strings.HasPrefix(kind, strings.TrimSuffix(q.Type, "*"))) &&
		strings.Contains(lower(item.FileName), lower(q.Name)) && (q.From.IsZero() || !start.Before(q.From)) && (q.To.IsZero() || start.Before(q.To))
}

// plain is the model of what words are without accents, in lower case and with spaces around letters of scripts that have none.
var plain = strings.NewReplacer("ä", "a", "ö", "o", "ü", "u", "ß", "ss", "é", "e", "東", " 東 ", "京", " 京 ", "タ", " タ ", "ワ", " ワ ", "ー", " ー ")

// wordsIn are the words of the lines of a text.
func wordsIn(text string) (lines [][]string) {
	for line := range strings.SplitSeq(text, "\n") {
		lines = append(lines, strings.FieldsFunc(plain.Replace(strings.ToLower(line)), func(r rune) bool { return r < 0x80 && !unicode.IsLetter(r) && !unicode.IsDigit(r) || r == '’' }))
	}
	return lines
}

// hasWords is the model of a search by words.
func hasWords(q media.Query, item media.Item) bool {
	fields := []string{item.FileName, item.Caption, item.Group}
	for key, value := range item.Metadata {
		if q.Keys == nil || slices.Contains(q.Keys, key) {
			fields = append(fields, value)
		}
	}
	lines := wordsIn(strings.Join(fields, "\n"))
	has := func(text media.WordText) bool {
		wanted := strings.Fields(text.Folded)
		last := len(wanted) - 1
		for _, line := range lines {
			for at := 0; at+last < len(line); at++ {
				if found := line[at : at+last+1]; slices.Equal(found[:last], wanted[:last]) && (found[last] == wanted[last] || !text.Whole && strings.HasPrefix(found[last], wanted[last])) {
					return true
				}
			}
		}
		return false
	}
	return !slices.ContainsFunc(q.Words.Texts, func(text media.WordText) bool { return !has(text) }) && !slices.ContainsFunc(q.Words.Excluded, has)
}

func wordsOf(text string) media.Words {
	words, err := media.ParseWords(text)
	if err != nil {
		panic(err)
	}
	return words
}

// inModel returns the ids of the list of a query.
func inModel(q media.Query, items []media.Item) []uuid.UUID {
	var found []media.Item
	for _, item := range items {
		if matches(q, item) {
			found = append(found, item)
		}
	}
	slices.SortFunc(found, func(a, b media.Item) int {
		c := media.PositionOf(a, q.Order).Compare(media.PositionOf(b, q.Order))
		if !q.Order.Ascending {
			c = -c
		}
		return c
	})
	ids := make([]uuid.UUID, len(found))
	for i, item := range found {
		ids[i] = item.ID
	}
	return ids
}

// randomQuery returns a query of some filters and an order.
func randomQuery(random *rand.Rand) media.Query {
	q := media.Query{Order: media.Order{By: pick(random, media.ByTime, media.ByName, media.BySize, media.ByCapture), Ascending: random.IntN(2) == 0}, Limit: 1 + random.IntN(30)}
	some := func() bool { return random.IntN(3) == 0 }
	if some() {
		q.Access = pick(random, media.Public, media.Private)
	}
	if some() {
		q.Group = pick(random, "album", "a'b", "none")
	}
	if some() {
		q.Type = pick(random, "image/*", "image/webp", "image/png", "application/pdf", "text/*")
	}
	if some() {
		q.Name = pick(random, "img_0", "IMG_01", "ße", "ÄÖ", "%", "_x", "3.j", "🎉🎉", "1", "nothing of this")
	}
	if some() {
		q.From = began.Add(time.Duration(random.IntN(200_000)) * time.Microsecond)
	}
	if some() {
		q.To = began.Add(time.Duration(200_000+random.IntN(20_000)) * time.Microsecond / time.Duration(1+random.IntN(2)))
	}
	if !q.From.Before(q.To) {
		q.From = time.Time{}
	}
	if some() {
		q.Metadata = media.Metadata{pick(random, "color", "a.b"): pick(random, "red", "Rouge é", `"=\ü`)}
		if some() {
			q.Metadata["x-1"] = "red"
		}
	}
	q.Captured = randomCaptured(random)
	if some() {
		var parts []string
		for range 1 + random.IntN(2) {
			parts = append(parts, pick(random, "", "", "-")+pick(random, "golden", "gat", `"golden gate"`, `"Gate"`, "gate-golden", "UNDER", "strasse", "солн", "京タ", `"東京"`, "it’s", "img", "album", "rouge", "re", "x"))
		}
		q.Words = wordsOf(strings.Join(parts, " "))
		if some() {
			q.Keys = pick(random, []string{"color"}, []string{"a.b", "x-1"}, []string{})
		}
	}
	if random.IntN(6) == 0 {
		q.Drafts, q.Order.By = true, media.ByTime
	}
	return q
}

func serviceOf(t *testing.T, store *postgres.Store) *media.Service {
	t.Helper()
	var cli struct {
		media.Config `embed:""`
	}
	parser, err := kong.New(&cli)
	must(t, err)
	_, err = parser.Parse(nil) // for the defaults
	must(t, err)
	service, err := media.New(cli.Config, media.Deps{Store: store.Items, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	return service
}

func principalOf(scope media.Scope) account.Principal {
	return account.Principal{Account: account.Account{ID: scope.AccountID, Bucket: scope.Bucket}, App: account.App{ID: scope.AppID}}
}

// readAll reads a whole list by cursor.
func readAll(t *testing.T, service *media.Service, p account.Principal, q media.Query, between func()) []uuid.UUID {
	t.Helper()
	var ids []uuid.UUID
	p.Account.Search.Keys = q.Keys // Find takes it from there
	for range 10_000 {
		results, err := service.Find(t.Context(), p, q)
		must(t, err)
		if len(results.Items) > q.Limit {
			t.Fatalf("%+v: a part has %d items", q, len(results.Items))
		}
		for _, item := range results.Items {
			ids = append(ids, item.ID)
		}
		if q.After, q.Page = results.Next, 0; q.After == "" {
			return ids
		}
		between()
	}
	t.Fatalf("%+v: the list has no end", q)
	return nil
}

// searched is a store with small bounds, so that few items need all ways of searching, and its items.
func searched(t *testing.T, random *rand.Rand, n int) (service *media.Service, p account.Principal, conn *pgx.Conn, scope media.Scope, items []media.Item) {
	t.Helper()
	store, url := setup(t)
	postgres.BoundSearches(store, 20, 60, 50, 80)
	scope = provisioned(t, store)
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	must(t, check.ErrorOf(conn.Exec(t.Context(), `UPDATE account SET keep_location = true`)))
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	apps, _, err := registry(store).OpenApps(t.Context(), scope.AccountID, []string{"sibling"})
	must(t, err)
	var foreign []media.Item
	for range n {
		items = append(items, randomItem(random, scope))
		for _, app := range apps {
			if app.ID != scope.AppID {
				foreign = append(foreign, randomItem(random, media.Scope{AccountID: scope.AccountID, AppID: app.ID}))
			}
		}
	}
	insertItems(t, conn, items)
	insertItems(t, conn, foreign)
	// By how many there are, a search decides whether the index of words reads too much.
	must(t, check.ErrorOf(conn.Exec(t.Context(), `UPDATE app_total SET private_items = $2 WHERE app_id = $1 AND slot = 0`, scope.AppID, len(items))))
	return serviceOf(t, store), principalOf(scope), conn, scope, items
}

// Filters, orders, cursors and pages equal a plain model, whichever way an item is found, and counts and
// sums are exact or a lower bound that says so.
func TestFind_EqualsModel(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(16, 3))
	service, p, _, _, items := searched(t, random, 700)
	exact := 0
	for range 400 {
		q := randomQuery(random)
		want := inModel(q, items)
		if got := readAll(t, service, p, q, func() {}); !slices.Equal(got, want) {
			t.Fatalf("%+v: %d items are not those of the model, %d", q, len(got), len(want))
		}
		p.Account.Search.Keys = q.Keys
		q.Page = 1 + random.IntN(3)
		results, err := service.Find(t.Context(), p, q)
		must(t, err)
		from := min((q.Page-1)*q.Limit, len(want))
		page := want[from:min(from+q.Limit, len(want))]
		if len(results.Items) > len(page) || len(results.Items) < len(page) && results.Next == "" ||
			!slices.EqualFunc(results.Items, page[:len(results.Items)], func(item media.Item, id uuid.UUID) bool { return item.ID == id }) {
			t.Fatalf("%+v: the page has %d items, not the %d of the model", q, len(results.Items), len(page))
		}
		if q.Drafts {
			continue
		}
		var sum int64
		for _, item := range items {
			if matches(q, item) {
				sum += item.Objects.Bytes()
			}
		}
		counted, err := service.SumMatches(t.Context(), p, q.Search)
		must(t, err)
		if counted.Partial && (counted.Items > int64(len(want)) || counted.Bytes > sum) || !counted.Partial && (counted.Items != int64(len(want)) || counted.Bytes != sum) {
			t.Fatalf("%+v: %+v is not the count %d of %d bytes", q.Search, counted, len(want), sum)
		}
		if !counted.Partial {
			exact++
		}
	}
	if exact < 100 {
		t.Errorf("only %d counts are exact", exact)
	}
}

// A page far from the start held all items before it, of which each may have metadata of 50 KB.
func TestFindItems_HoldsItsPageOnly(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	scope := provisioned(t, store)
	conn := connect(t, url)
	random := rand.New(rand.NewPCG(16, 5))
	items := make([]media.Item, 300)
	for i := range items {
		items[i] = randomItem(random, scope)
	}
	insertItems(t, conn, items)
	began := time.UnixMilli(1)
	for name, tt := range map[string]struct {
		query                  media.Query
		first, gathered, later int
	}{
		"in the order of the list": {media.Query{Order: media.Order{By: media.ByName}}, 1000, 1000, 1000},
		"by terms":                 {media.Query{Search: media.Search{Filter: media.Filter{Access: media.Private}}}, 1, 1000, 1},
		"in a range of time":       {media.Query{Search: media.Search{From: began}, Order: media.Order{By: media.BySize}}, 1, 1000, 1},
	} {
		postgres.BoundSearches(store, tt.first, tt.gathered, tt.later, 1000)
		q := tt.query
		q.Limit, q.Page = 10, 7
		want := inModel(q, items)
		if len(want) < 71 {
			t.Fatalf("%s: the list has %d items", name, len(want))
		}
		found, err := store.Items.FindItems(t.Context(), scope, q, nil, q.Limit+1)
		must(t, err)
		if found.Skipped != 60 || !slices.EqualFunc(found.Items, want[60:71], func(item media.Item, id uuid.UUID) bool { return item.ID == id }) {
			t.Errorf("%s: %d items are held, and %d were skipped", name, len(found.Items), found.Skipped)
		}
	}
}

// An item that exists while a list is read by cursor is in it once, whatever is added and deleted between
// two pages and during them.
func TestFind_CursorsSkipAndRepeatNothing(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(16, 4))
	service, p, conn, scope, items := searched(t, random, 400)
	for range 40 {
		q := randomQuery(random)
		q.Limit = 1 + random.IntN(10)
		want := map[uuid.UUID]bool{}
		for _, id := range inModel(q, items) {
			want[id] = true
		}
		var wait sync.WaitGroup
		var passing []uuid.UUID
		got := readAll(t, service, p, q, func() {
			wait.Wait()
			added := make([]media.Item, 5)
			for i := range added {
				added[i] = randomItem(random, scope)
			}
			removed := passing
			passing = nil
			for _, item := range added {
				passing = append(passing, item.ID)
			}
			wait.Go(func() {
				insertItems(t, conn, added)
				if _, err := conn.Exec(t.Context(), `DELETE FROM item WHERE account_id = $1 AND id = ANY ($2)`, scope.AccountID, removed); err != nil {
					t.Errorf("delete: %v", err)
				}
			})
		})
		wait.Wait()
		must(t, check.ErrorOf(conn.Exec(t.Context(), `DELETE FROM item WHERE account_id = $1 AND id = ANY ($2)`, scope.AccountID, passing)))
		seen := map[uuid.UUID]bool{}
		for _, id := range got {
			if seen[id] {
				t.Fatalf("%+v: item %s is listed twice", q, id)
			}
			seen[id] = true
			delete(want, id)
		}
		if len(want) > 0 {
			t.Fatalf("%+v: %d items are missing", q, len(want))
		}
	}
}
