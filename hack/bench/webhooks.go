package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/fault"
	catalog "mediastack.dev/runtime/postgres"
	"mediastack.dev/runtime/webhook"
)

// pendingEvents is how many events wait for the receiver that hangs.
const pendingEvents = 100_000

// webhooks compares changes in an account with a webhook with those in one without, and measures the time from an event to its receiver.
func webhooks(ctx context.Context, b *bench) error {
	made, err := b.env.tenants(ctx, "webhook", "none", "hanging")
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, b.env.server.AdminURL(database))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	with, without, hanging := made[0], made[1], made[2]
	if _, err := conn.Exec(ctx, `UPDATE account SET journal_retention = 345600 WHERE id = ANY ($1)`, []uuid.UUID{with.Account.ID, hanging.Account.ID}); err != nil {
		return err
	}
	served, err := b.env.serve(ctx, service, with, "SERVICE_WEBHOOKS_ALLOW_NETWORKS=127.0.0.0/8")
	if err != nil {
		return err
	}
	receiver := newEventReceiver(false)
	defer receiver.close()
	if err := b.putWebhook(ctx, with, receiver); err != nil {
		return err
	}
	if err := b.compareChanges(ctx, conn, with, without, func(t tenant) *endpoint {
		one := *served
		one.key = t.APIKey
		return &one
	}); err != nil {
		return err
	}
	return b.measureDeliveries(ctx, conn, receiver, with, hanging)
}

// measureDeliveries measures the time from an event to its receiver, alone and beside a receiver that hangs.
func (b *bench) measureDeliveries(ctx context.Context, conn *pgx.Conn, receiver *eventReceiver, with, hanging tenant) error {
	if err := waitFor(ctx, func() (bool, error) {
		var left int64
		err := conn.QueryRow(ctx, `SELECT count(*) FROM work WHERE kind = 'webhook'`).Scan(&left)
		return left == 0, err
	}); err != nil {
		return err
	}
	hangs := newEventReceiver(true)
	defer hangs.close()
	var mu sync.Mutex // of the connection
	exec := func(ctx context.Context, sql string, args ...any) error {
		mu.Lock()
		defer mu.Unlock()
		_, err := conn.Exec(ctx, sql, args...)
		return err
	}
	deliver := func(ctx context.Context, _ int64) error {
		group := uuid.NewString()
		arrived := receiver.expect(group)
		if err := exec(ctx, `INSERT INTO journal (account_id, type, group_label) VALUES ($1, 'media.sealed', $2)`, with.Account.ID, group); err != nil {
			return err
		}
		select {
		case <-arrived:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	times := b.compareTimes("alone", "beside", client, service, postgres)
	begun := false
	beside := side{name: "beside", call: deliver, before: func(ctx context.Context) error {
		if begun {
			return exec(ctx, `UPDATE webhook SET suspended = false WHERE name = $1`, hanging.Account.Name)
		}
		begun = true
		if err := b.putWebhook(ctx, hanging, hangs); err != nil {
			return err
		}
		return exec(ctx, `INSERT INTO journal (account_id, type) SELECT $1, 'media.sealed' FROM generate_series(1, $2::int)`, hanging.Account.ID, pendingEvents)
	}, after: func(ctx context.Context) error {
		return exec(ctx, `UPDATE webhook SET suspended = true WHERE name = $1`, hanging.Account.Name)
	}}
	if err := times.measureTimes(ctx, "event to receiver", load{clients: b.Clients, rounds: b.Rounds, calls: int64(2 * b.Calls)}, []side{{name: "alone", call: deliver}, beside}, maximum(2)); err != nil {
		return err
	}
	times.print()
	b.note("beside: a receiver that never answers, with %d events", pendingEvents)
	return nil
}

// putWebhook stores a webhook of a tenant, once the runtime has published its key.
func (b *bench) putWebhook(ctx context.Context, t tenant, r *eventReceiver) error {
	store, err := catalog.Open(ctx, catalog.Config{DatabaseURL: b.env.server.AdminURL(database)})
	if err != nil {
		return err
	}
	defer store.Close()
	return waitFor(ctx, func() (bool, error) {
		_, err := store.Webhooks.PutWebhook(ctx, webhook.Webhook{Namespace: "bench", Name: t.Account.Name, UID: t.Account.Name, Generation: 1, AccountID: t.Account.ID, Format: webhook.Standard,
			Target: webhook.Target{URL: r.URL, Secrets: []webhook.Secret{{Key: make([]byte, 32)}}}})
		if fault.Is(err, fault.Conflict) {
			return false, nil
		}
		return err == nil, err
	})
}

// waitFor calls done until it returns true or an error.
func waitFor(ctx context.Context, done func() (bool, error)) error {
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// eventReceiver is the receiver of a webhook.
type eventReceiver struct {
	*httptest.Server
	mu       sync.Mutex
	expected map[string]chan struct{} // by group
}

// newEventReceiver returns a receiver, which never answers if hangs is set.
func newEventReceiver(hangs bool) *eventReceiver {
	r := &eventReceiver{expected: map[string]chan struct{}{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		if hangs {
			<-request.Context().Done()
			return
		}
		r.arrived(body)
		w.WriteHeader(http.StatusNoContent)
	}))
	return r
}

func (r *eventReceiver) close() { r.CloseClientConnections(); r.Close() }

// expect returns a channel that is closed when an event of a group arrives.
func (r *eventReceiver) expect(group string) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	arrived := make(chan struct{})
	r.expected[group] = arrived
	return arrived
}

func (r *eventReceiver) arrived(body []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var payload struct {
		Data struct{ Group string }
	}
	if err := json.Unmarshal(body, &payload); err != nil {
		return
	}
	if arrived := r.expected[payload.Data.Group]; arrived != nil {
		close(arrived)
		delete(r.expected, payload.Data.Group)
	}
}
