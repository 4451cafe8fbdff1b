package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/media"
	pgstore "mediastack.dev/runtime/postgres"
)

// smallItems is how many items the small account has: few, and yet some deep pages.
const smallItems = 1000

// scaleClients is how many requests are in flight.
const scaleClients = 4

// scaleGroups is how many groups half of an account's items are in.
const scaleGroups = 10

// question is a request whose time is compared between a large and a small account.
type question struct {
	what string
	// path returns the request for an account of so many items.
	path   func(items int) string
	target *target
	// want is how many items a page must have; 0 = it is no page.
	want int
}

var questions = []question{
	{"list, first page", func(int) string { return "/media/get?limit=10" }, maximum(1.5), 10},
	{"list, first page, public", func(int) string { return "/media/get?limit=10&access=public" }, maximum(1.5), 10},
	{"list, first page of a group", func(int) string { return "/media/get?limit=10&group=" + groupName(3) }, maximum(1.5), 10},
	{"count", func(int) string { return "/media/get/count" }, maximum(1.5), 0},
	{"totals", func(int) string { return "/media/get/size" }, maximum(1.5), 0},
	{"deep pages, the last five", func(items int) string { return page(items/10-rand.IntN(5), "") }, maximum(3), 10},
	{"deep pages, in the middle", func(items int) string { return page(items*2/50+rand.IntN(items/50), "") }, maximum(3), 10},
	{"deep pages, the last five, public", func(items int) string { return page(publicOf(items)/10-rand.IntN(5), "public") }, maximum(3), 10},
	{"deep pages, in the middle, private", func(items int) string { return page((items-publicOf(items))*2/50+rand.IntN(items/50), "private") }, maximum(3), 10},
	{"last page of a group", func(items int) string {
		return fmt.Sprintf("/media/get?limit=10&page=%d&group=%s", items/2/scaleGroups/10, groupName(3))
	}, maximum(3), 10},
}

func page(number int, access string) string {
	path := fmt.Sprintf("/media/get?limit=10&page=%d", number)
	if access != "" {
		path += "&access=" + access
	}
	return path
}

// publicOf is how many of the items are public: every third.
func publicOf(items int) int { return (items + 2) / 3 }

func third(n int) media.Access {
	if n%3 == 0 {
		return media.Public
	}
	return media.Private
}

// scale compares reads of an account with a million items with those of one with a
// thousand, in one database.
func scale(ctx context.Context, b *bench) error {
	sizes := []int{smallItems, b.Items}
	small, err := b.env.tenant(ctx, "small")
	if err != nil {
		return err
	}
	large, err := b.env.tenant(ctx, "large")
	if err != nil {
		return err
	}
	if err := b.populate(ctx, sizes, small, large); err != nil {
		return err
	}
	e, err := b.env.serve(ctx, service, small)
	if err != nil {
		return err
	}
	other := *e
	other.key = large.APIKey
	c := b.compare("request", "ratio of times", []string{"request", fmt.Sprintf("ms, %d", sizes[0]), fmt.Sprintf("ms, %d", sizes[1])}, client, service, postgres)
	// With a fixed number of clients, a request takes as much longer as fewer are answered.
	c.show = func(perSecond float64) string { return number(1000 * scaleClients / perSecond) }
	for _, q := range append(slices.Clone(questions), findQuestions...) {
		sides := []side{q.side(e, sizes[0]), q.side(&other, sizes[1])}
		if err := c.measure(ctx, q.what, load{clients: scaleClients, rounds: b.Rounds, length: b.Length / 3}, sides,
			pair{against: 1, target: q.target, name: q.what, cells: []string{q.what}}); err != nil {
			return err
		}
	}
	c.print()
	b.note("%d clients; time of a request at %d items by its time at %d; deep pages are chosen at random in each request", scaleClients, sizes[1], sizes[0])
	return b.plainOffset(ctx, large, sizes[1])
}

// populate loads both accounts and has the index of pages counted.
func (b *bench) populate(ctx context.Context, sizes []int, tenants ...tenant) error {
	for i, t := range tenants {
		started := time.Now()
		if _, err := b.env.seed(ctx, t, seed{items: sizes[i], access: third, groups: scaleGroups}); err != nil {
			return err
		}
		b.say("%s: %d items loaded in %s", b.name, sizes[i], time.Since(started).Round(time.Second/10))
	}
	if err := b.env.vacuum(ctx); err != nil {
		return err
	}
	started := time.Now()
	store, err := pgstore.Open(ctx, pgstore.Config{DatabaseURL: b.env.server.URL(database)})
	if err != nil {
		return err
	}
	defer store.Close()
	if err := store.CompactPageIndex(ctx); err != nil {
		return err
	}
	took := time.Since(started)
	b.add(result{Benchmark: b.name, Case: fmt.Sprintf("index of pages of %d items", sizes[1]), Figure: "seconds, once"}, took.Seconds())
	b.note("the index of pages was counted from nothing in %s, as once after the migration", took.Round(time.Second/100))
	if err := b.env.vacuum(ctx); err != nil {
		return err
	}
	return b.noteDatabaseSize(ctx, sizes)
}

// noteDatabaseSize prints what an item takes in the database, indexes included.
func (b *bench) noteDatabaseSize(ctx context.Context, sizes []int) error {
	conn, err := pgx.Connect(ctx, b.env.server.AdminURL(database))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var bytes int64
	if err := conn.QueryRow(ctx, "SELECT pg_database_size(current_database())").Scan(&bytes); err != nil {
		return err
	}
	items := int64(sizes[0] + sizes[1])
	b.note("the database has %d MiB for %d items with three objects each: %d bytes per item", bytes>>20, items, bytes/items)
	return nil
}

// side asks the question for one account.
func (q question) side(e *endpoint, items int) side {
	return side{name: fmt.Sprintf("%d items", items), call: func(ctx context.Context, n int64) error {
		path := q.path(items)
		answer, err := e.get(ctx, path)
		if err != nil || q.want == 0 || n%16 != 0 {
			return err
		}
		var found []document
		if err := json.Unmarshal(answer, &found); err != nil {
			return err
		}
		if len(found) != q.want {
			return fmt.Errorf("%s gave %d items, not %d", path, len(found), q.want)
		}
		return nil
	}}
}

// plainOffset measures what a deep page would take without the index of pages.
func (b *bench) plainOffset(ctx context.Context, t tenant, items int) error {
	conn, err := pgx.Connect(ctx, b.env.server.URL(database))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, one := range []struct {
		what   string
		offset int
	}{{"last", items - 10}, {"middle", items / 2}} {
		var took []float64
		for range 3 {
			started := time.Now()
			rows, err := conn.Query(ctx, listSQL, t.AppID, 10, one.offset)
			if err != nil {
				return err
			}
			rows.Close()
			if err := rows.Err(); err != nil {
				return err
			}
			took = append(took, float64(time.Since(started))/float64(time.Millisecond))
		}
		b.note("for comparison, by plain OFFSET in SQL the %s page takes %s ms of one client", one.what, number(median(took)))
	}
	return nil
}
