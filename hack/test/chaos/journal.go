package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/test/chaos/faults"
)

// follower follows the events of a tenant by a cursor, as a program does that must miss none.
type follower struct {
	*client
	cursor string
	read   map[string]bool // ids of events
}

// eventPage is the answer to a read of events.
type eventPage struct {
	Events []struct {
		ID string `json:"id"`
	} `json:"events"`
	Next string `json:"next"`
	More bool   `json:"more"`
}

// follow reads events until ctx ends.
func (f *follower) follow(ctx context.Context) {
	for ctx.Err() == nil {
		if _, ok := f.readPage(ctx, 5); !ok {
			faults.Sleep(ctx, 100*time.Millisecond)
		}
	}
}

// readPage reads the next events. What was read before the answer was lost is read again.
func (f *follower) readPage(ctx context.Context, wait int) (page eventPage, ok bool) {
	query := url.Values{"after": {f.cursor}, "wait": {fmt.Sprint(wait)}, "limit": {"50"}}
	got := f.send(ctx, http.MethodGet, f.pickReplica().BaseURL+"/events?"+query.Encode(), "", nil, 0)
	switch {
	case got.status == 0 || got.status >= 500:
		return page, false
	case got.status != http.StatusOK:
		f.model.wrong(nil, "a read of events after %q was answered %s", f.cursor, got)
		return page, false
	}
	if err := json.Unmarshal(got.body, &page); err != nil {
		f.model.wrong(nil, "a read of events was answered %s: %v", got.body, err)
		return page, false
	}
	for _, event := range page.Events {
		if f.read[event.ID] {
			f.model.wrong(nil, "event %s of %s is told twice", event.ID, f.tenant.name)
		}
		f.read[event.ID] = true
		f.model.count("events read")
	}
	f.cursor = page.Next
	return page, true
}

// journalContradictions finds where the events of an item are not what became of it.
const journalContradictions = `
	WITH told AS (
		SELECT j.item_id, count(*) AS events, min(sequence) AS first, max(sequence) AS last, (array_agg(type ORDER BY sequence))[1] AS began, (array_agg(type ORDER BY sequence DESC))[1] AS ended,
			count(*) FILTER (WHERE type = 'media.sealed') AS sealed
		FROM journal j WHERE j.account_id = $1 AND j.item_id IS NOT NULL GROUP BY j.item_id
	), items AS (
		SELECT i.id, i.version, i.deleted_at IS NOT NULL AS deleted, coalesce(i.sealed_at, i.was_sealed_at) IS NOT NULL AS sealed FROM stored_item i WHERE i.account_id = $1
	)
	SELECT coalesce(items.id, told.item_id)::text, format('it is %s, the journal tells %s', coalesce(to_jsonb(items)::text, 'gone'), coalesce(to_jsonb(told)::text, 'nothing'))
	FROM items FULL JOIN told ON told.item_id = items.id
	WHERE told.item_id IS NULL OR told.first <> 1 OR told.events <> told.last OR told.began <> 'media.uploaded' OR told.sealed > 1
		OR items.id IS NULL AND told.ended NOT IN ('media.deleted', 'media.purged', 'media.rejected')
		OR items.id IS NOT NULL AND (items.version <> told.last OR items.sealed <> (told.sealed = 1) OR items.deleted <> (told.ended = 'media.deleted') OR told.ended = 'media.purged')`

// verifyJournal compares the events of the tenants with what became of their items, and with what was read.
func (e *environment) verifyJournal(ctx context.Context, m *model, conn *pgx.Conn) error {
	for _, f := range e.followers {
		rows, err := conn.Query(ctx, journalContradictions, f.tenant.Account.ID)
		if err != nil {
			return err
		}
		var id, what string
		if _, err := pgx.ForEachRow(rows, []any{&id, &what}, func() error {
			m.wrong(nil, "item %s of %s: %s", id, f.tenant.name, what)
			return nil
		}); err != nil {
			return err
		}
		for {
			page, ok := f.readPage(ctx, 0)
			if !ok {
				return fmt.Errorf("the events of %s cannot be read", f.tenant.name)
			}
			if len(page.Events) == 0 && !page.More {
				break
			}
		}
		missed := 0
		rows, err = conn.Query(ctx, `SELECT epoch || '-' || id FROM journal WHERE account_id = $1`, f.tenant.Account.ID)
		if err != nil {
			return err
		}
		if _, err := pgx.ForEachRow(rows, []any{&id}, func() error {
			if !f.read[id] {
				missed++
				m.wrong(nil, "event %s of %s was not read", id, f.tenant.name)
			}
			delete(f.read, id)
			return nil
		}); err != nil {
			return err
		}
		if len(f.read) > 0 {
			m.wrong(nil, "%d events of %s were read that were not committed", len(f.read), f.tenant.name)
		}
	}
	return nil
}
