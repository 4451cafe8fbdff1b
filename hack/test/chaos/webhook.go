package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/test/chaos/faults"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/postgres"
	"mediastack.dev/runtime/webhook"
)

// receiver is the receiver of a webhook of all accounts. It is away again and again, and answers with errors.
type receiver struct {
	*httptest.Server
	model *model
	mu    sync.Mutex
	// bodies are the first bodies of the events that were accepted, or whose answer was lost.
	bodies map[string]string
	away   bool
	hook   webhook.Webhook
	store  *postgres.Store
}

// startReceiver starts the receiver, and stores its webhook once a runtime has published its key.
func startReceiver(ctx context.Context, e *environment, m *model) (*receiver, error) {
	store, err := postgres.Open(ctx, postgres.Config{DatabaseURL: e.adminURL})
	if err != nil {
		return nil, err
	}
	r := &receiver{model: m, bodies: map[string]string{}, store: store}
	r.Server = httptest.NewServer(http.HandlerFunc(r.receive))
	r.hook = webhook.Webhook{Namespace: "chaos", Name: "all", UID: "all", Generation: 1, Format: webhook.Standard,
		Target: webhook.Target{URL: r.URL, Secrets: []webhook.Secret{{Key: make([]byte, 32)}}}}
	for {
		if _, err = store.Webhooks.PutWebhook(ctx, r.hook); !fault.Is(err, fault.Conflict) || ctx.Err() != nil {
			return r, err
		}
		faults.Sleep(ctx, 100*time.Millisecond)
	}
}

func (r *receiver) receive(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	id := request.Header.Get(webhook.HeaderID)
	r.mu.Lock()
	away, first := r.away, r.bodies[id]
	switch {
	case err != nil || id == "" || away:
	case first == "":
		r.bodies[id] = string(body)
	case first != string(body):
		r.model.wrong(nil, "event %s has the body %s, and had %s", id, body, first)
	default:
		r.model.count("events received again")
	}
	r.mu.Unlock()
	if away {
		panic(http.ErrAbortHandler) // the connection ends without an answer
	}
	r.model.count("events received")
	switch rand.IntN(20) {
	case 0:
		w.WriteHeader(http.StatusInternalServerError)
	case 1:
		panic(http.ErrAbortHandler) // it has the event, and nobody learns it
	}
}

// disturb lets the receiver be away again and again until ctx ends.
func (r *receiver) disturb(ctx context.Context) {
	for ctx.Err() == nil {
		faults.Sleep(ctx, time.Duration(rand.IntN(3000))*time.Millisecond)
		r.setAway(true)
		r.CloseClientConnections()
		faults.Sleep(ctx, time.Duration(rand.IntN(500))*time.Millisecond)
		r.setAway(false)
	}
}

func (r *receiver) setAway(away bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = away
}

// verify waits until nothing is pending, and compares what was received with the journal.
func (r *receiver) verify(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, maxLease)
	defer cancel()
	for {
		if _, err := conn.Exec(ctx, `UPDATE work SET due_at = now() WHERE kind = 'webhook' AND claim IS NULL AND due_at > now()`); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, `UPDATE work_turn SET not_before = 'epoch' WHERE kind = 'webhook'`); err != nil {
			return err
		}
		var left int
		if err := conn.QueryRow(ctx, `SELECT (SELECT count(*) FROM work WHERE kind = 'webhook') + (SELECT count(*) FROM journal j, webhook_progress p WHERE (j.epoch, j.xid, j.id) > (p.epoch, p.xid, p.event_id))`).Scan(&left); err != nil {
			return err
		}
		if left == 0 {
			break
		}
		if faults.Sleep(ctx, 200*time.Millisecond); ctx.Err() != nil {
			return fmt.Errorf("%d events have not reached the receiver", left)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	rows, err := conn.Query(ctx, `SELECT epoch || '-' || id, account_id FROM journal WHERE type LIKE 'media.%'`)
	if err != nil {
		return err
	}
	var id string
	var account uuid.UUID
	if _, err := pgx.ForEachRow(rows, []any{&id, &account}, func() error {
		if r.bodies[id] == "" {
			r.model.wrong(nil, "event %s of account %s did not reach the receiver", id, account)
		}
		delete(r.bodies, id)
		return nil
	}); err != nil {
		return err
	}
	for id, body := range r.bodies {
		var exists bool
		if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM journal WHERE epoch || '-' || id = $1)`, id).Scan(&exists); err != nil {
			return err
		}
		if !exists {
			r.model.wrong(nil, "event %s was received and is in no journal: %s", id, body)
		}
	}
	return nil
}
