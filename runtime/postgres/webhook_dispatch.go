package postgres

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/journal"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
	"mediastack.dev/runtime/webhook"
	"mediastack.dev/runtime/work"
)

// WebhooksWithNews implements webhook.Store.
func (s Webhooks) WebhooksWithNews(ctx context.Context, most int) ([]uuid.UUID, error) {
	ctx, cancel := s.db.bound(ctx)
	defer cancel()
	ids, err := sqlgen.New(inOrder{s.pool}).WebhooksWithNews(ctx, int64(most))
	return ids, toFault(err, "find events of webhooks")
}

// Dispatch implements webhook.Store.
func (s Webhooks) Dispatch(ctx context.Context, id uuid.UUID, most int, decide func(webhook.Batch) ([]work.NewTask, error)) (added int, err error) {
	err = s.inTx(ctx, "make deliveries of a webhook", func(q *sqlgen.Queries) error {
		if err := q.ReadTransactionInOrder(ctx); err != nil {
			return err
		}
		rows, err := q.LockWebhook(ctx, id)
		if err != nil || len(rows) == 0 {
			return err
		}
		d := dispatch{q: q, hook: rows[0], most: most}
		tasks, err := d.tasks(ctx, decide)
		if err != nil {
			return err
		}
		added, err = d.add(ctx, tasks)
		return err
	})
	return added, err
}

// dispatch is one call of Dispatch. The row of the webhook is locked.
type dispatch struct {
	q    *sqlgen.Queries
	hook sqlgen.LockWebhookRow
	most int
	move sqlgen.MoveWebhookParams
}

// maxTransactionAge is longer than a transaction that writes events lasts: an event is not older than one that is read before it, by more than
// that.
const maxTransactionAge = 24 * time.Hour

// tasks reads the events after the place of the webhook, sets where it goes on, and returns the deliveries.
func (d *dispatch) tasks(ctx context.Context, decide func(webhook.Batch) ([]work.NewTask, error)) ([]work.NewTask, error) {
	hook := d.hook
	d.move = sqlgen.MoveWebhookParams{WebhookID: hook.ID, Epoch: hook.Epoch, Xid: hook.Xid, EventID: hook.EventID, SeenAt: hook.SeenAt, Tested: hook.Test, Replayed: hook.Replay}
	batch := webhook.Batch{Selection: webhook.Selection{ID: hook.ID, Apps: hook.Apps, Groups: hook.Groups, Format: webhook.Format(hook.Format)}}
	for _, kind := range hook.Types {
		batch.Types = append(batch.Types, journal.Type(kind))
	}
	if hook.AccountID.Valid {
		batch.About.Account = webhook.Account{ID: hook.AccountID.Bytes, Namespace: hook.AccountNamespace, Name: hook.AccountName}
	}
	if hook.Test != "" && hook.Test != hook.Tested {
		batch.Test = hook.Test
	}
	if hook.Replay != "" && hook.Replay != hook.Replayed {
		again, err := d.replay(ctx, batch.Selection)
		if err != nil {
			return nil, err
		}
		batch.Events = again
	}
	news, err := d.news(ctx)
	if err != nil {
		return nil, err
	}
	batch.Events = append(batch.Events, news...)
	return decide(batch)
}

// news reads the events after the place of the webhook, for which there is room, and moves the place.
func (d *dispatch) news(ctx context.Context) ([]webhook.Found, error) {
	since := d.hook.Cutoff
	if d.hook.SeenAt.Before(since) {
		d.move.MissedUntil = &since
	}
	if read := valueOfTime(d.hook.ReadAt).Add(-maxTransactionAge); d.hook.ReadAt != nil && read.After(since) {
		since = read
	}
	room := d.most - int(d.hook.Deliveries)
	if d.move.FullQueue = room <= 0; d.move.FullQueue {
		return nil, nil
	}
	params := sqlgen.WebhookEventsParams{AccountID: d.hook.AccountID.Bytes, Since: since, AfterEpoch: d.move.Epoch, AfterXid: d.move.Xid, AfterID: d.move.EventID,
		Epoch: d.hook.JournalEpoch, Oldest: d.hook.Oldest, Most: batchSize(room)}
	var rows []sqlgen.WebhookEventsRow
	var err error
	if d.hook.AccountID.Valid {
		rows, err = d.q.WebhookEvents(ctx, params)
	} else {
		var all []sqlgen.WebhookEventsOfAllRow
		all, err = d.q.WebhookEventsOfAll(ctx, sqlgen.WebhookEventsOfAllParams{Since: params.Since, AfterEpoch: params.AfterEpoch, AfterXid: params.AfterXid, AfterID: params.AfterID,
			Epoch: params.Epoch, Oldest: params.Oldest, Most: params.Most})
		for _, row := range all {
			rows = append(rows, sqlgen.WebhookEventsRow(row))
		}
	}
	if err != nil {
		return nil, err
	}
	if len(rows) == room { // there may be more
		last := rows[len(rows)-1]
		d.move.Epoch, d.move.Xid, d.move.EventID, d.move.SeenAt = last.Epoch, last.Xid, last.ID, last.At
	} else {
		d.move.Epoch, d.move.Xid, d.move.EventID, d.move.SeenAt = d.hook.JournalEpoch, d.hook.Oldest-1, math.MaxInt64, d.hook.Now
	}
	if len(rows) > 0 {
		d.move.ReadAt = &rows[len(rows)-1].At
	}
	return foundOf(rows), nil
}

// replay handles a request to send events again. Those with ids are returned. With a time, the place of the webhook goes back.
func (d *dispatch) replay(ctx context.Context, by webhook.Selection) ([]webhook.Found, error) {
	if len(d.hook.ReplayEvents) == 0 {
		if d.hook.ReplaySince == nil {
			d.move.ReplayError = "the request names neither a time nor events"
			return nil, nil
		}
		return nil, d.rewind(ctx)
	}
	params := sqlgen.EventsByIDParams{AccountID: d.hook.AccountID, Since: d.hook.Cutoff}
	asked := make([]string, 0, len(d.hook.ReplayEvents))
	for _, text := range d.hook.ReplayEvents {
		epoch, id, err := parseEventID(text)
		if err != nil {
			d.move.ReplayError = err.Error()
			return nil, nil
		}
		params.Epochs, params.Ids = append(params.Epochs, epoch), append(params.Ids, id)
		asked = append(asked, journal.Event{Position: journal.Position{Epoch: epoch, ID: id}}.EventID())
	}
	found, err := d.q.EventsByID(ctx, params)
	if err != nil {
		return nil, err
	}
	rows := make([]sqlgen.WebhookEventsRow, len(found))
	for i, row := range found {
		rows[i] = sqlgen.WebhookEventsRow(row)
	}
	again := foundOf(rows)
	d.move.ReplayError = webhook.ReplayReport(asked, again, by)
	return again, nil
}

// rewind moves the place before the first event since a time, unless it is before that already.
func (d *dispatch) rewind(ctx context.Context) error {
	since := *d.hook.ReplaySince
	if since.Before(d.hook.Cutoff) {
		since = d.hook.Cutoff
		d.move.ReplayError = "the journal begins at " + since.UTC().Format(time.RFC3339) + ", from when on events are sent again"
	}
	first, err := d.q.FirstEventSince(ctx, sqlgen.FirstEventSinceParams{AccountID: d.hook.AccountID, Since: since})
	if err != nil || len(first) == 0 {
		return err
	}
	at, now := first[0], d.move
	if at.Epoch < now.Epoch || at.Epoch == now.Epoch && (at.Xid < now.Xid || at.Xid == now.Xid && at.ID <= now.EventID) {
		d.move.Epoch, d.move.Xid, d.move.EventID = at.Epoch, at.Xid, at.ID-1
		d.move.ReadAt, d.hook.ReadAt, d.hook.SeenAt = &since, &since, since
	}
	return nil
}

// parseEventID reads journal.Event.EventID.
func parseEventID(text string) (epoch, id int64, err error) {
	first, second, found := strings.Cut(text, "-")
	epoch, err1 := strconv.ParseInt(first, 10, 64)
	id, err2 := strconv.ParseInt(second, 10, 64)
	if !found || err1 != nil || err2 != nil || epoch < 0 || id < 0 {
		return 0, 0, fmt.Errorf("%.40q is not the id of an event", text)
	}
	return epoch, id, nil
}

// add adds the deliveries, and records the place.
func (d *dispatch) add(ctx context.Context, tasks []work.NewTask) (int, error) {
	if err := d.q.MoveWebhook(ctx, d.move); err != nil {
		return 0, err
	}
	if len(tasks) == 0 {
		return 0, nil
	}
	params := sqlgen.AddDeliveriesParams{WebhookID: d.hook.ID}
	for _, task := range tasks {
		params.Keys, params.DueAt, params.Payloads = append(params.Keys, task.Key), append(params.DueAt, task.DueAt), append(params.Payloads, task.Payload)
	}
	added, err := d.q.AddDeliveries(ctx, params)
	return int(added), err
}

func foundOf(rows []sqlgen.WebhookEventsRow) []webhook.Found {
	found := make([]webhook.Found, len(rows))
	for i, row := range rows {
		found[i] = webhook.Found{
			Event: eventOf(sqlgen.EventsRow{ID: row.ID, At: row.At, Epoch: row.Epoch, Xid: row.Xid, AccountID: row.AccountID, AppID: row.AppID, ItemID: row.ItemID, Sequence: row.Sequence,
				Type: row.Type, GroupLabel: row.GroupLabel, Actor: row.Actor, Fields: row.Fields}),
			About: webhook.About{Account: webhook.Account{ID: row.AccountID, Namespace: row.Namespace, Name: row.Name}, App: row.App},
		}
	}
	return found
}
