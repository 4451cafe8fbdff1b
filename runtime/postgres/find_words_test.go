package postgres_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"golang.org/x/text/unicode/norm"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres"
)

// fullEnv runs tests at full size, as in make test-requests.
const fullEnv = "MEDIASTACK_TEST_FULL"

// The database folds what items have, and package media what a search looks for: a difference would hide items, so that every character is compared.
func TestSearchText_HasWhatASearchForItLooksFor(t *testing.T) {
	t.Parallel()
	_, url := setup(t)
	conn := connect(t, url)
	var texts []string
	for r := rune(1); r <= unicode.MaxRune; r++ {
		// Of a character that Unicode got after the version of the server, nothing is known there.
		if !utf8.ValidRune(r) || unicode.IsControl(r) || strings.ContainsRune(`"“”„`, r) || !unicode.In(r, unicode.Letter, unicode.Number, unicode.Mark, unicode.Punct, unicode.Symbol, unicode.Space) {
			continue
		}
		texts = append(texts, "x"+string(r)+"y")
	}
	rows, err := conn.Query(t.Context(), `SELECT item_search_text(text, '', '', '{}', NULL), normalize(text, NFKD) FROM unnest($1::text[]) WITH ORDINALITY AS t (text, n) ORDER BY n`, texts)
	must(t, err)
	defer rows.Close()
	compared, skipped := 0, 0
	for i := 0; rows.Next(); i++ {
		var searched, decomposed string
		must(t, rows.Scan(&searched, &decomposed))
		if decomposed != norm.NFKD.String(texts[i]) {
			skipped++
			continue
		}
		words, err := media.ParseWords(texts[i])
		must(t, err)
		for _, one := range words.Texts {
			if !strings.Contains(searched, one.Pattern()) {
				t.Errorf("%q (%U): %q has no %q", texts[i], []rune(texts[i])[1], searched, one.Pattern())
			}
		}
		compared++
	}
	must(t, rows.Err())
	if compared < 100_000 || skipped > 100 {
		t.Errorf("%d characters were compared, and %d are unknown to the server", compared, skipped)
	}
}

// A row of a version before has no searched text, and is found by its words, too; an update fills it in.
func TestSearch_FindsRowsOfBefore(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	scope := provisioned(t, store)
	conn := connect(t, url)
	item := randomItem(rand.New(rand.NewPCG(52, 1)), scope)
	item.Caption, item.SealedAt = "Café de Flore", &item.CreatedAt
	insertItems(t, conn, []media.Item{item})
	for _, step := range []string{`SELECT`, `UPDATE stored_item SET search_text = NULL`, `UPDATE stored_item SET caption = 'cafe DE flore'`} {
		must(t, check.ErrorOf(conn.Exec(t.Context(), step)))
		for _, bounds := range [][4]int{{1000, 1000, 1000, 1000}, {0, 1000, 0, 0}} { // in the order of the list, and by the index
			postgres.BoundSearches(store, bounds[0], bounds[1], bounds[2], bounds[3])
			q := media.Query{Search: media.Search{Words: wordsOf(`CAFE "flore" -starbucks`)}, Limit: 10}
			found, err := store.Items.FindItems(t.Context(), scope, q, nil, 11)
			must(t, err)
			if len(found.Items) != 1 {
				t.Errorf("%s: %d items are found", step, len(found.Items))
			}
		}
	}
	counts(t, url, 1, "searched texts", `SELECT count(*) FROM item WHERE search_text LIKE '% cafe de flore %'`)
}

// After each of many random histories of inserts, changes, seals and deletes, a search equals the model.
func TestSearch_EqualsModelInRandomHistories(t *testing.T) {
	t.Parallel()
	histories := 300
	if os.Getenv(fullEnv) != "" {
		histories = 10_000
	}
	random := rand.New(rand.NewPCG(52, 2))
	service, p, conn, scope, items := searched(t, random, 60)
	change := func(at int) {
		item := &items[at]
		switch random.IntN(4) {
		case 0:
			must(t, check.ErrorOf(conn.Exec(t.Context(), `DELETE FROM item WHERE account_id = $1 AND id = $2`, scope.AccountID, item.ID)))
			items = slices.Delete(items, at, at+1)
		case 1:
			item.SealedAt = &item.CreatedAt
			must(t, check.ErrorOf(conn.Exec(t.Context(), `UPDATE item SET sealed_at = created_at WHERE account_id = $1 AND id = $2`, scope.AccountID, item.ID)))
		default:
			other := randomItem(random, scope)
			item.FileName, item.Caption, item.Group, item.Metadata = other.FileName, other.Caption, other.Group, other.Metadata
			must(t, check.ErrorOf(conn.Exec(t.Context(), `UPDATE item SET file_name = $3, caption = $4, group_label = $5, metadata = $6 WHERE account_id = $1 AND id = $2`,
				scope.AccountID, item.ID, item.FileName, item.Caption, item.Group, item.Metadata)))
		}
	}
	found := 0
	for range histories {
		for range 1 + random.IntN(6) {
			if len(items) < 40 || len(items) < 80 && random.IntN(2) == 0 {
				item := randomItem(random, scope)
				insertItems(t, conn, []media.Item{item})
				items = append(items, item)
			} else {
				change(random.IntN(len(items)))
			}
		}
		q := randomQuery(random)
		for !q.Words.Any() {
			q = randomQuery(random)
		}
		want := inModel(q, items)
		if got := readAll(t, service, p, q, func() {}); !slices.Equal(got, want) {
			t.Fatalf("%+v: %d items are not those of the model, %d", q, len(got), len(want))
		}
		found += len(want)
	}
	if found < histories {
		t.Errorf("%d items were found in %d histories", found, histories)
	}
}

// Each language finds other forms of a word, and a change of it or of the keys needs no change of rows.
func TestSearch_FollowsTheSettingsOfTheAccount(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	scope := provisioned(t, store)
	conn := connect(t, url)
	random := rand.New(rand.NewPCG(52, 3))
	var items []media.Item
	for _, caption := range []string{"two houses", "a house", "housing", "maisons", "running dogs", "he runs", "the runner"} {
		item := randomItem(random, scope)
		item.FileName, item.Group, item.Caption, item.Metadata, item.SealedAt = "a.jpg", "", caption, media.Metadata{"place": "Paris", "secret": "Rome"}, &item.CreatedAt
		items = append(items, item)
	}
	insertItems(t, conn, items)
	service := serviceOf(t, store)
	for _, tt := range []struct {
		language string
		keys     []string
		words    string
		want     int
	}{
		{"", nil, "houses", 1}, {"english", nil, "houses", 3}, {"english", nil, `"houses"`, 1}, {"english", nil, "running -runner", 2}, {"french", nil, "maison", 1},
		{"french", nil, "maisons", 1}, {"english", nil, "the", 1}, {"", nil, "rome", 7}, {"", []string{"place"}, "rome", 0}, {"", []string{"place"}, "paris", 7},
		{"", []string{}, "paris", 0}, {"", []string{"place"}, "-rome", 7}, {"", nil, "-rome", 0}, {"", []string{"place"}, "runs paris", 1},
	} {
		p := principalOf(scope)
		p.Account.Search.Language, p.Account.Search.Keys = tt.language, tt.keys
		results, err := service.Find(t.Context(), p, media.Query{Search: media.Search{Words: wordsOf(tt.words)}, Limit: 100})
		must(t, err)
		matches, err := service.CountMatches(t.Context(), p, media.Search{Words: wordsOf(tt.words)})
		must(t, err)
		if len(results.Items) != tt.want || matches.Items != int64(tt.want) {
			t.Errorf("%+v: %d items are found, and %d counted", tt, len(results.Items), matches.Items)
		}
	}
}

// Traits are those of a plain model.
func TestSearch_ByTraitsEqualsModel(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	scope := provisioned(t, store)
	conn := connect(t, url)
	random := rand.New(rand.NewPCG(52, 4))
	items := make([]media.Item, 200)
	for i := range items {
		items[i] = randomItem(random, scope)
		items[i].SealedAt = &items[i].CreatedAt
	}
	insertItems(t, conn, items)
	for i := range items {
		if facts := &items[i].Facts; random.IntN(3) > 0 {
			facts.Width, facts.Height, facts.DominantColor = 1+random.IntN(4), 1+random.IntN(4), fmt.Sprintf("#%02x%02x80", random.IntN(256), random.IntN(256))
			must(t, check.ErrorOf(conn.Exec(t.Context(), `UPDATE item SET width = $3, height = $4, dominant_color = $5 WHERE account_id = $1 AND id = $2`, scope.AccountID, items[i].ID, facts.Width, facts.Height, facts.DominantColor)))
		}
	}
	service := serviceOf(t, store)
	maybe := func(n int64) *int64 {
		if random.IntN(3) > 0 {
			return nil
		}
		return &n
	}
	within := func(bounds media.Bounds, n int, known bool) bool {
		return (bounds.Min == nil || known && int64(n) >= *bounds.Min) && (bounds.Max == nil || known && int64(n) <= *bounds.Max)
	}
	square := func(a, b uint8) int { return (int(a) - int(b)) * (int(a) - int(b)) }
	found := 0
	for range 200 {
		text := media.TraitsText{MinBytes: maybe(2), MaxBytes: maybe(9), MinWidth: maybe(2), MaxWidth: maybe(3), MinHeight: maybe(1), MaxHeight: maybe(3)}
		text.Has, text.Lacks = pick(random, "", "", "caption", "group"), pick(random, "", "", "caption", "group")
		text.Orientation, text.Color = pick(random, "", "", "", "landscape", "portrait", "square"), pick(random, "", "", "", "#808080", "#20f080")
		traits, err := text.Parse()
		if err != nil || !traits.Any() { // has and lacks are the same, or there are none
			continue
		}
		want := 0
		for _, item := range items {
			file, known := item.File(), item.Facts.Width > 0
			orientation := media.Square
			if item.Facts.Width > item.Facts.Height {
				orientation = media.Landscape
			} else if item.Facts.Width < item.Facts.Height {
				orientation = media.Portrait
			}
			near := traits.Near == nil
			if !near && known {
				var color media.Color
				_, err := fmt.Sscanf(item.Facts.DominantColor, "#%02x%02x%02x", &color.Red, &color.Green, &color.Blue)
				must(t, err)
				near = square(color.Red, traits.Near.Red)+square(color.Green, traits.Near.Green)+square(color.Blue, traits.Near.Blue) <= media.MaxColorDistance*media.MaxColorDistance
			}
			if near && (traits.HasCaption == nil || *traits.HasCaption == (item.Caption != "")) && (traits.HasGroup == nil || *traits.HasGroup == (item.Group != "")) &&
				within(traits.Bytes, int(file.Bytes), true) && within(traits.Width, item.Facts.Width, known) && within(traits.Height, item.Facts.Height, known) &&
				(traits.Orientation == "" || known && traits.Orientation == orientation) {
				want++
			}
		}
		matches, err := service.CountMatches(t.Context(), principalOf(scope), media.Search{Traits: traits})
		must(t, err)
		if matches.Items != int64(want) || matches.Partial {
			t.Fatalf("%+v: %+v are counted, not %d", text, matches, want)
		}
		found += want
	}
	if found == 0 {
		t.Error("nothing was found")
	}
}

// Groups have the counts of their items, in all pages, whatever the bounds.
func TestGroups_AreCountedOnAllPages(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	scope := provisioned(t, store)
	conn := connect(t, url)
	want := map[string]int64{}
	for i := range 30 {
		name := fmt.Sprintf("Gruppe é %d", i)
		for slot := range 1 + i%16 {
			must(t, check.ErrorOf(conn.Exec(t.Context(), `INSERT INTO group_total (app_id, group_label, slot, public_items, private_items) VALUES ($1, $2, $3, $4, 1)`, scope.AppID, name, slot, i-10)))
			want[name] += int64(i - 9)
		}
		if want[name] <= 0 {
			delete(want, name)
		}
	}
	service := serviceOf(t, store)
	for _, rows := range []int{5000, 17, 40} {
		postgres.BoundGroups(store, rows)
		for _, limit := range []int{1, 7, 1000} {
			got := map[string]int64{}
			last, cursor := "", ""
			for pages := 0; ; pages++ {
				groups, next, err := service.Groups(t.Context(), principalOf(scope), "", cursor, limit)
				must(t, err)
				if len(groups) > limit || pages > 100 {
					t.Fatalf("%d groups on page %d", len(groups), pages)
				}
				for _, group := range groups {
					if _, ok := got[group.Name]; ok || group.Name == last {
						t.Fatalf("%s is listed twice", group.Name)
					}
					got[group.Name], last = group.Items, group.Name
				}
				if cursor = next; cursor == "" {
					break
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%d rows, limit %d: %v, want %v", rows, limit, got, want)
			}
		}
	}
	for _, after := range []string{"a", "!", "gICA"} {
		if _, _, err := service.Groups(t.Context(), principalOf(scope), "", after, 10); err == nil || !strings.Contains(err.Error(), "after must be the cursor") {
			t.Errorf("%s: %v", after, err)
		}
	}
}

func TestMetadataKeys_AreThoseOfTheNewestItems(t *testing.T) {
	t.Parallel()
	store, url := setup(t)
	scope := provisioned(t, store)
	service := serviceOf(t, store)
	keys, err := service.MetadataKeys(t.Context(), principalOf(scope))
	must(t, err)
	if len(keys.Keys) != 0 || keys.Partial {
		t.Errorf("an empty app has %+v", keys)
	}
	random := rand.New(rand.NewPCG(52, 5))
	items := make([]media.Item, 50)
	want := map[string]int64{}
	for i := range items {
		items[i] = randomItem(random, scope)
		for key := range items[i].Metadata {
			if !items[i].Draft() {
				want[key]++
			}
		}
	}
	insertItems(t, connect(t, url), items)
	for _, examined := range []int{100, 10} {
		postgres.BoundSearches(store, 1, 1, examined, 1)
		keys, err = service.MetadataKeys(t.Context(), principalOf(scope))
		must(t, err)
		got := map[string]int64{}
		for _, key := range keys.Keys {
			got[key.Name] = key.Items
		}
		if keys.Partial != (examined == 10) || !slices.IsSortedFunc(keys.Keys, func(a, b media.ItemCount) int { return int(b.Items - a.Items) }) {
			t.Errorf("%d: %+v", examined, keys)
		}
		if examined == 100 && fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

// A scan that ends at an item without a color says where it has ended.
func TestFind_ByColorAmongFilesWithoutColors(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(16, 9))
	store, url := setup(t)
	postgres.BoundSearches(store, 5, 5, 5, 5)
	scope := provisioned(t, store)
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	var items []media.Item
	for range 30 {
		item := randomItem(random, scope)
		item.Facts = media.Facts{}
		items = append(items, item)
	}
	insertItems(t, conn, items)
	found, err := store.Items.FindItems(t.Context(), scope, media.Query{Search: media.Search{Traits: media.Traits{Near: &media.Color{Red: 0x80}}}, Limit: 3}, nil, 4)
	if err != nil || len(found.Items) != 0 {
		t.Errorf("%d items, %v", len(found.Items), err)
	}
}
