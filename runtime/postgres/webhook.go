package postgres

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/journal"
	"mediastack.dev/runtime/keys"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
	"mediastack.dev/runtime/webhook"
)

var (
	_ webhook.Registry = Webhooks{}
	_ webhook.Store    = Webhooks{}
)

var (
	errNoWebhookKey     = fault.New(fault.Conflict, "no runtime has published a key for the secrets of webhooks yet")
	errNoWebhookAccount = fault.New(fault.NotFound, "the account of the webhook is not in the database, or is closed")
)

// PublishWebhookKey implements webhook.Store.
func (s Webhooks) PublishWebhookKey(ctx context.Context, key keys.PublicKey, begins bool) (done bool, err error) {
	if s.own() == uuid.Nil {
		return false, nil
	}
	return true, toFault(s.idempotent.PublishWebhookKey(ctx, sqlgen.PublishWebhookKeyParams{ID: key.ID, PublicKey: key.Bytes, Own: s.own(), Begins: begins}), "publish the key of webhooks")
}

// PutWebhook implements webhook.Registry.
func (s Webhooks) PutWebhook(ctx context.Context, w webhook.Webhook) (webhook.State, error) {
	plain, err := json.Marshal(w.Target)
	if err != nil {
		return webhook.State{}, err
	}
	digest := sha256.Sum256(plain)
	key, err := s.queries.WebhookKey(ctx)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return webhook.State{}, errNoWebhookKey
	case err != nil:
		return webhook.State{}, toFault(err, "read the key of webhooks")
	}
	wanted := sqlgen.PutWebhookParams{Namespace: w.Namespace, Name: w.Name, ObjectUid: w.UID, Generation: w.Generation, AccountID: pgtype.UUID{Bytes: w.AccountID, Valid: w.AccountID != uuid.Nil},
		Types: typesOf(w.Types), Apps: append([]string{}, w.Apps...), Groups: append([]string{}, w.Groups...), Format: string(w.Format), Suspended: w.Suspended,
		TargetDigest: digest[:], PublicKey: key.ID, Test: w.Test, Replay: w.Replay, ReplaySince: optionalTime(w.Since.Truncate(time.Microsecond)), ReplayEvents: append([]string{}, w.Events...)}
	stored, err := s.queries.StoredWebhook(ctx, sqlgen.StoredWebhookParams{Namespace: w.Namespace, Name: w.Name})
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return webhook.State{}, toFault(err, "read a webhook")
	}
	if err != nil || !isStored(wanted, stored) {
		if wanted.Target, err = (keys.PublicKey{ID: key.ID, Bytes: key.PublicKey}).Seal(keys.PurposeWebhooks, plain); err != nil {
			return webhook.State{}, err
		}
		if err := s.put(ctx, wanted, stored); err != nil {
			return webhook.State{}, err
		}
	}
	return s.state(ctx, w.UID)
}

// isStored reports whether a webhook is stored as it is wanted.
func isStored(w sqlgen.PutWebhookParams, stored sqlgen.StoredWebhookRow) bool {
	return w.ObjectUid == stored.ObjectUid && w.Generation == stored.Generation && w.AccountID == stored.AccountID && slices.Equal(w.Types, stored.Types) && slices.Equal(w.Apps, stored.Apps) &&
		slices.Equal(w.Groups, stored.Groups) && w.Format == stored.Format && w.Suspended == stored.Suspended && bytes.Equal(w.TargetDigest, stored.TargetDigest) && w.PublicKey == stored.PublicKey &&
		w.Test == stored.Test && w.Replay == stored.Replay && valueOfTime(w.ReplaySince).Equal(valueOfTime(stored.ReplaySince)) && slices.Equal(w.ReplayEvents, stored.ReplayEvents)
}

func valueOfTime(column *time.Time) (t time.Time) {
	if column != nil {
		t = *column
	}
	return t
}

// put writes a webhook. stored is what was there before; zero = nothing.
func (s Webhooks) put(ctx context.Context, w sqlgen.PutWebhookParams, stored sqlgen.StoredWebhookRow) error {
	var err error
	if w.ID, err = s.cell.NewID(); err != nil {
		return err
	}
	return s.inTx(ctx, "store a webhook", func(q *sqlgen.Queries) error {
		if w.AccountID.Valid {
			open, err := q.OpenAccount(ctx, w.AccountID.Bytes)
			if err != nil {
				return err
			}
			if !open {
				return errNoWebhookAccount
			}
		}
		id, err := q.PutWebhook(ctx, w)
		if err != nil {
			return err
		}
		moved := stored.ObjectUid != "" && stored.AccountID != w.AccountID
		if err := q.BeginWebhook(ctx, sqlgen.BeginWebhookParams{WebhookID: id, Generation: w.Generation, Moved: moved, MadeAgain: stored.ObjectUid != "" && stored.ObjectUid != w.ObjectUid}); err != nil {
			return err
		}
		if stored.Suspended && !w.Suspended || stored.ObjectUid != "" && !bytes.Equal(stored.TargetDigest, w.TargetDigest) {
			return q.WakeWebhook(ctx, id)
		}
		return nil
	})
}

// RemoveWebhook implements webhook.Registry.
func (s Webhooks) RemoveWebhook(ctx context.Context, uid string) error {
	return toFault(s.queries.RemoveWebhook(ctx, uid), "remove a webhook")
}

// state returns the state of one webhook.
func (s Webhooks) state(ctx context.Context, uid string) (state webhook.State, err error) {
	rows, err := s.queries.WebhookStates(ctx, sqlgen.WebhookStatesParams{ObjectUid: &uid, Namespaces: []string{}})
	if err == nil && len(rows) == 0 {
		return state, webhook.ErrNotFound // it was removed meanwhile
	}
	if err != nil {
		return state, toFault(err, "read the state of a webhook")
	}
	return stateOf(rows[0]), nil
}

// EachWebhook implements webhook.Registry.
func (s Webhooks) EachWebhook(ctx context.Context, namespaces []string, visit func(webhook.State)) error {
	rows, err := s.queries.WebhookStates(ctx, sqlgen.WebhookStatesParams{Namespaces: append([]string{}, namespaces...)})
	if err != nil {
		return toFault(err, "read the states of webhooks")
	}
	for _, row := range rows {
		visit(stateOf(row))
	}
	return nil
}

func stateOf(row sqlgen.WebhookStatesRow) webhook.State {
	return webhook.State{Namespace: row.Namespace, Name: row.Name, UID: row.ObjectUid, Pending: int(row.Pending), Full: row.FullQueue, Oldest: webhook.EventTime(row.Oldest),
		LastAttempt: valueOfTime(row.LastAttemptAt), LastSuccess: valueOfTime(row.LastSuccessAt), LastStatus: int(row.LastStatus), LastError: row.LastError, FailingSince: valueOfTime(row.FailingSince),
		Ended: row.Ended, Missed: valueOfTime(row.MissedUntil), Journal: row.Journal, FormerKey: row.FormerKey, Tested: row.Tested, Replayed: row.Replayed, ReplayError: row.ReplayError}
}

// Attempts implements webhook.Registry.
func (s Webhooks) Attempts(ctx context.Context, uid string) ([]webhook.Attempt, error) {
	rows, err := s.queries.WebhookAttempts(ctx, uid)
	if err != nil {
		return nil, toFault(err, "read the attempts of a webhook")
	}
	attempts := make([]webhook.Attempt, len(rows))
	for i, row := range rows {
		attempts[i] = webhook.Attempt{At: row.At, EventID: row.EventID, Type: journal.Type(row.Type), Number: int(row.Number), Status: int(row.Status), Error: row.Error,
			Duration: time.Duration(row.Milliseconds) * time.Millisecond}
	}
	return attempts, nil
}

// Apart implements webhook.Store.
func (s Webhooks) Apart(ctx context.Context, keys []string) ([]webhook.Apart, error) {
	rows, err := s.queries.WebhooksApart(ctx, keys)
	if err != nil {
		return nil, toFault(err, "read which webhooks are slow")
	}
	apart := make([]webhook.Apart, len(rows))
	for i, row := range rows {
		apart[i] = webhook.Apart{ID: row.ID, AccountID: row.AccountID.Bytes, Slow: row.Slow, ForeignKey: row.ForeignKey}
	}
	return apart, nil
}

// Receiver implements webhook.Store.
func (s Webhooks) Receiver(ctx context.Context, id uuid.UUID) (webhook.Receiver, error) {
	row, err := s.idempotent.WebhookReceiver(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return webhook.Receiver{}, webhook.ErrNotFound
	}
	if err != nil {
		return webhook.Receiver{}, toFault(err, "read a webhook")
	}
	return webhook.Receiver{ID: id, AccountID: row.AccountID.Bytes, Key: row.PublicKey, Generation: row.Generation, Sealed: row.Target, Digest: row.TargetDigest, Suspended: row.Suspended, Ended: row.Ended, Failures: int(row.Failures)}, nil
}

// RecordAttempt implements webhook.Store.
func (s Webhooks) RecordAttempt(ctx context.Context, id uuid.UUID, a webhook.Attempt, outcome webhook.Outcome, failingFor time.Duration) (failures int, err error) {
	params := sqlgen.RecordWebhookAttemptParams{WebhookID: id, Status: integer(a.Status), Error: a.Error, Accepted: outcome.Accepted, Gone: outcome.Gone, Slow: outcome.Slow, Generation: outcome.Generation,
		Slots: webhook.MaxAttemptsLogged, At: a.At, EventID: a.EventID, Type: string(a.Type), Number: integer(a.Number), Milliseconds: a.Duration.Milliseconds(), FailingFor: failingFor.Microseconds()}
	err = s.inTx(ctx, "record an attempt at a delivery", func(q *sqlgen.Queries) error {
		row, err := q.RecordWebhookAttempt(ctx, params)
		if errors.Is(err, pgx.ErrNoRows) {
			return webhook.ErrNotFound
		}
		if err != nil {
			return err
		}
		failures = int(row.Failures)
		switch {
		case row.Ended:
			return q.EndDeliveries(ctx, id)
		case row.Recovered:
			return q.BringForward(ctx, id)
		}
		return nil
	})
	return failures, err
}
