package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// journalBytes is the size of the files of journals.
const journalBytes = 100_000

// eventPage is the answer to a read of events, as far as it is needed.
type eventPage struct {
	Events []struct {
		ID string `json:"id"`
	} `json:"events"`
	Next string `json:"next"`
}

// journals compares changes in an account with a journal with those in one without, and reads of many events with reads of few.
func journals(ctx context.Context, b *bench) error {
	made, err := b.env.tenants(ctx, "journal", "none", "many")
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, b.env.server.AdminURL(database))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	with, without, many := made[0], made[1], made[2]
	if _, err := conn.Exec(ctx, `UPDATE account SET journal_retention = 604800 WHERE id = ANY ($1)`, []uuid.UUID{with.Account.ID, many.Account.ID}); err != nil {
		return err
	}
	served, err := b.env.serve(ctx, service, with)
	if err != nil {
		return err
	}
	of := func(t tenant) *endpoint {
		one := *served
		one.key = t.APIKey
		return &one
	}
	if err := b.compareChanges(ctx, conn, with, without, of); err != nil {
		return err
	}
	return b.readEvents(ctx, conn, of(with), of(many), many)
}

// compareChanges compares changes in one account with those in another one, and what both write to the write-ahead log.
func (b *bench) compareChanges(ctx context.Context, conn *pgx.Conn, with, without tenant, of func(tenant) *endpoint) error {
	c := b.compare("change", "ratio of changes/s", []string{"change", "with/s", "without/s"}, client, service, postgres, store)
	var wal table
	wal.row("bytes of WAL per change", "with", "without", "more")
	for _, change := range []struct {
		name string
		side func(t tenant, e *endpoint) side
		load load
	}{
		{"upload of 100 KB", func(t tenant, e *endpoint) side { return b.uploadSide(t, e, randomBytes(journalBytes)) }, load{clients: b.Clients, rounds: b.Rounds, length: b.Length}},
		{"seal", b.sealSide, load{clients: b.Clients, rounds: b.Rounds, calls: int64(b.Deletes)}},
		{"delete", b.deleteSide, load{clients: b.Clients, rounds: b.Rounds, calls: int64(b.Deletes)}},
	} {
		log := []*logged{{conn: conn}, {conn: conn}}
		sides := []side{log[0].of("with", change.side(with, of(with))), log[1].of("without", change.side(without, of(without)))}
		if err := c.measure(ctx, change.name, change.load, sides, pair{against: 1, target: minimum(0.95), name: change.name, cells: []string{change.name}}); err != nil {
			return err
		}
		wal.row(change.name, number(log[0].perCall()), number(log[1].perCall()), number(log[0].perCall()-log[1].perCall()))
	}
	c.print()
	wal.print(b.out)
	return nil
}

// readEvents compares reads of a page in the middle of many events with reads of the end of few.
func (b *bench) readEvents(ctx context.Context, conn *pgx.Conn, few, many *endpoint, t tenant) error {
	if _, err := conn.Exec(ctx, `INSERT INTO journal (account_id, app_id, item_id, sequence, type, actor, xid)
		SELECT $1, (SELECT id FROM app WHERE account_id = $1 LIMIT 1), gen_random_uuid(), 2, 'media.sealed', '{"kind":"key","id":"01a22157-4c54-7692-9927-fc391ae62264"}', n FROM generate_series(1, $2::bigint) AS n`,
		t.Account.ID, b.Events); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, `ANALYZE journal`); err != nil {
		return err
	}
	from, err := eventsAfter(ctx, many, "", 1000)
	if err != nil {
		return err
	}
	c := b.compareTimes("few events", "many events", client, service, postgres)
	read := func(e *endpoint, after string) func(context.Context, int64) error {
		return func(ctx context.Context, _ int64) error {
			_, err := eventsAfter(ctx, e, after, 100)
			return err
		}
	}
	if err := c.measureTimes(ctx, "page of 100", load{clients: b.Clients, rounds: b.Rounds, calls: int64(20 * b.Calls)},
		[]side{{name: "few", call: read(few, "")}, {name: "many", call: read(many, from.Next)}}, maximum(2)); err != nil {
		return err
	}
	c.print()
	b.note("%d events in the larger journal", b.Events)
	return nil
}

func eventsAfter(ctx context.Context, e *endpoint, after string, limit int) (eventPage, error) {
	text, err := e.get(ctx, "/events?"+url.Values{"after": {after}, "limit": {fmt.Sprint(limit)}}.Encode())
	if err != nil {
		return eventPage{}, err
	}
	var page eventPage
	return page, json.Unmarshal(text, &page)
}

// sealSide seals drafts, which it stores before each round.
func (b *bench) sealSide(t tenant, e *endpoint) side {
	var ids []string
	f := newForm("bench.bin", randomBytes(deletedBytes))
	return side{
		before: func(ctx context.Context) error {
			var mu sync.Mutex
			ids = nil
			_, err := b.measure(ctx, load{clients: b.Clients, calls: int64(b.Deletes)}, func(ctx context.Context, _ int64) error {
				draft, err := e.store(ctx, f)
				mu.Lock()
				defer mu.Unlock()
				ids = append(ids, draft.MediaID)
				return err
			})
			return err
		},
		call: func(ctx context.Context, n int64) error {
			_, err := e.seal(ctx, ids[n-1])
			return err
		},
		after: func(context.Context) error { return t.removeObjects("media") },
	}
}

// logged counts what the calls of a side write to the write-ahead log.
type logged struct {
	conn         *pgx.Conn
	calls, bytes atomic.Int64
}

// of returns the side with a name, whose calls are counted.
func (l *logged) of(name string, s side) side {
	before, call, after := s.before, s.call, s.after
	var from int64
	position := func(ctx context.Context) (at int64, err error) {
		err = l.conn.QueryRow(ctx, `SELECT (pg_current_wal_lsn() - '0/0')::bigint`).Scan(&at)
		return at, err
	}
	s.name = name
	s.before = func(ctx context.Context) (err error) {
		if before != nil {
			if err := before(ctx); err != nil {
				return err
			}
		}
		from, err = position(ctx)
		return err
	}
	s.call = func(ctx context.Context, n int64) error {
		l.calls.Add(1)
		return call(ctx, n)
	}
	s.after = func(ctx context.Context) error {
		to, err := position(ctx)
		l.bytes.Add(to - from)
		if err != nil || after == nil {
			return err
		}
		return after(ctx)
	}
	return s
}

func (l *logged) perCall() float64 { return float64(l.bytes.Load()) / float64(max(1, l.calls.Load())) }
