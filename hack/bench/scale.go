package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
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
	// Photos are named by their number, so the name of one matches one item of any account, and a part of it matches many.
	{"sort by name", func(int) string { return "/media/get?limit=20&sort=name" }, maximum(1.5), 20},
	{"sort by size, largest first", func(int) string { return "/media/get?limit=20&sort=-size" }, maximum(1.5), 20},
	{"oldest first", func(int) string { return "/media/get?limit=20&sort=time" }, maximum(1.5), 20},
	{"type, of all items", func(int) string { return "/media/get?limit=20&type=image%2F*" }, maximum(1.5), 20},
	{"type, of no item", func(int) string { return "/media/get?limit=20&type=video%2Fmp4" }, maximum(1.5), 0},
	{"name, of one item", func(items int) string { return fmt.Sprintf("/media/get?limit=20&name=IMG_%07d", items/2) }, maximum(1.5), 1},
	{"name, of all items", func(int) string { return "/media/get?limit=20&name=img" }, maximum(1.5), 20},
	{"name, sorted by size", func(items int) string { return fmt.Sprintf("/media/get?limit=20&sort=size&name=IMG_%07d", items/2) }, maximum(1.5), 1},
	{"metadata, of no item", func(int) string { return "/media/get?limit=20&meta.color=red" }, maximum(1.5), 0},
	{"public items by name", func(int) string { return "/media/get?limit=20&access=public&sort=name" }, maximum(1.5), 20},
	{"drafts", func(int) string { return "/media/get?limit=20&state=draft" }, maximum(1.5), 0},
	{"count by name, one item", func(items int) string { return fmt.Sprintf("/media/get/count?name=IMG_%07d", items/2) }, maximum(1.5), 0},
	{"totals by metadata, no item", func(int) string { return "/media/get/size?meta.color=red" }, maximum(1.5), 0},
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
	for _, q := range questions {
		sides := []side{q.side(e, sizes[0]), q.side(&other, sizes[1])}
		if err := c.measure(ctx, q.what, load{clients: scaleClients, rounds: b.Rounds, length: b.Length / 3}, sides,
			pair{against: 1, target: q.target, name: q.what, cells: []string{q.what}}); err != nil {
			return err
		}
	}
	c.print()
	b.note("%d clients; time of a request at %d items by its time at %d; deep pages are chosen at random in each request", scaleClients, sizes[1], sizes[0])
	return nil
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
	store, err := pgstore.Open(ctx, pgstore.Config{DatabaseURL: b.env.server.URL(database)})
	if err != nil {
		return err
	}
	defer store.Close()
	if err := store.Items.CompactPageIndex(ctx); err != nil {
		return err
	}
	if err := b.env.vacuum(ctx); err != nil {
		return err
	}
	return b.itemBytes(ctx, sizes[0]+sizes[1])
}

// itemBytes reports what an item with three objects takes in the database, indexes included.
func (b *bench) itemBytes(ctx context.Context, items int) error {
	conn, err := pgx.Connect(ctx, b.env.server.AdminURL(database))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var bytes int64
	if err := conn.QueryRow(ctx, "SELECT pg_total_relation_size('stored_item')").Scan(&bytes); err != nil {
		return err
	}
	each := float64(bytes) / float64(items)
	b.add(result{Benchmark: b.name, Case: "item with three objects", Figure: "bytes in PostgreSQL", Target: maximum(1500)}, each)
	b.note("an item with three objects takes %.0f bytes in PostgreSQL, indexes included", each)
	return b.noteTables(ctx)
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
