package postgres

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// maxEndedKeys bounds the sequence numbers before the newest key of an app whose records are kept,
// and so the rows of an app whose Secret is overwritten again and again.
const maxEndedKeys = 100

// Keys implements account.KeyStore.
func (s Accounts) Keys(ctx context.Context, accountID uuid.UUID) (account.AccountKeys, error) {
	rows, err := s.queries.Keys(ctx, accountID)
	if err != nil {
		return account.AccountKeys{}, toFault(err, "read keys")
	}
	keys := account.AccountKeys{Apps: map[uuid.UUID]account.AppKeys{}}
	for _, row := range rows {
		keys.Account, keys.Version, keys.Now = accountOf(row.Account), row.Version, row.Now
		if keys.ProofKey, err = account.NewProofKey(row.ProofKey); err != nil {
			return account.AccountKeys{}, toFault(err, "read keys")
		}
		app := keys.Apps[row.AppID]
		app.App, app.Sequence = account.App{ID: row.AppID, AccountID: accountID, Name: row.AppName}, row.KeySequence
		if row.ID.Valid {
			key := account.Key{ID: row.ID.Bytes, AppID: row.AppID, Generation: *row.Generation, Sequence: *row.Sequence, ObjectUID: *row.ObjectUid,
				Overlap: time.Duration(*row.Overlap) * time.Microsecond, ReplacesSecret: *row.ReplacesSecret, CreatedAt: *row.CreatedAt,
				DeliveredAt: row.DeliveredAt, ExpiresAt: row.ExpiresAt, LastUsedAt: row.LastUsedAt}
			copy(key.Hash[:], row.Hash)
			app.Valid = append(app.Valid, key)
		}
		keys.Apps[row.AppID] = app
	}
	return keys, nil
}

// AddKey implements account.KeyStore.
func (s Accounts) AddKey(ctx context.Context, key account.Key, seen *account.SeenKeys) (account.Key, error) {
	var added sqlgen.ApiKey
	err := s.inTx(ctx, "add key", func(q *sqlgen.Queries) error {
		app, err := q.LockApp(ctx, key.AppID)
		if err != nil {
			return err
		}
		if seen != nil && app.KeySequence != seen.Sequence {
			return account.ErrKeysChanged
		}
		sequence, err := q.NextKeySequence(ctx, app.ID)
		if err != nil {
			return err
		}
		added, err = q.ReplacePendingKey(ctx, sqlgen.ReplacePendingKeyParams{AppID: app.ID, Hash: key.Hash[:], Generation: key.Generation,
			Sequence: sequence, ObjectUid: key.ObjectUID, Overlap: key.Overlap.Microseconds()})
		replaced := !errors.Is(err, pgx.ErrNoRows)
		if replaced && err != nil {
			return err
		}
		if seen != nil && replaced != seen.Pending {
			return account.ErrKeysChanged // the pending key was delivered meanwhile
		}
		if !replaced {
			added, err = insertKey(ctx, q, app, key, sequence, false)
		}
		return err
	})
	return keyOf(added), err
}

func insertKey(ctx context.Context, q *sqlgen.Queries, app sqlgen.App, key account.Key, sequence int64, delivered bool) (sqlgen.ApiKey, error) {
	return q.InsertKey(ctx, sqlgen.InsertKeyParams{ID: key.ID, AccountID: app.AccountID, AppID: app.ID, Hash: key.Hash[:], Generation: key.Generation,
		Sequence: sequence, ObjectUid: key.ObjectUID, Overlap: key.Overlap.Microseconds(), Delivered: delivered})
}

// MarkKeyReplacesSecret implements account.KeyStore.
func (s Accounts) MarkKeyReplacesSecret(ctx context.Context, key account.Key) error {
	return toFault(s.queries.MarkKeyReplacesSecret(ctx, sqlgen.MarkKeyReplacesSecretParams{ID: key.ID, Hash: key.Hash[:]}), "mark key")
}

// DeliverKey implements account.KeyStore.
func (s Accounts) DeliverKey(ctx context.Context, key account.Key) error {
	return s.inTx(ctx, "deliver key", func(q *sqlgen.Queries) error {
		if _, err := q.LockApp(ctx, key.AppID); err != nil {
			return err
		}
		found, err := q.FindKey(ctx, key.Hash[:])
		switch {
		case errors.Is(err, pgx.ErrNoRows), err == nil && (found.ApiKey.ID != key.ID || found.Ended):
			return account.ErrKeysChanged
		case err != nil:
			return err
		}
		if err := q.DeliverKey(ctx, sqlgen.DeliverKeyParams{ID: key.ID, ObjectUid: key.ObjectUID}); err != nil || found.ApiKey.DeliveredAt != nil {
			return err
		}
		return endOlderKeys(ctx, q, found.ApiKey.AppID, found.ApiKey.Sequence, found.ApiKey.Overlap)
	})
}

// DeliverFirstKeys implements account.KeyStore. It is one statement for each key, because a plan for a list
// of keys that was made while the table was small reads all of it.
func (s Accounts) DeliverFirstKeys(ctx context.Context, keys []account.Key, objectUID string) (delivered []uuid.UUID, err error) {
	deliver := func(q *sqlgen.Queries) error {
		delivered = nil
		for _, key := range keys {
			rows, err := q.DeliverFirstKey(ctx, sqlgen.DeliverFirstKeyParams{AppID: key.AppID, ID: key.ID, Hash: key.Hash[:], ObjectUid: objectUID})
			if err != nil {
				return err
			}
			if rows > 0 {
				delivered = append(delivered, key.ID)
			}
		}
		return nil
	}
	if len(keys) == 1 {
		err = deliver(s.queries)
		return delivered, toFault(err, "deliver key")
	}
	keys = slices.SortedFunc(slices.Values(keys), func(a, b account.Key) int { return bytes.Compare(a.AppID[:], b.AppID[:]) }) // the order of the locks
	err = s.inTx(ctx, "deliver keys", deliver)
	return delivered, err
}

// endOlderKeys ends the keys that the delivered one replaces, and deletes the records of those
// that are too many.
func endOlderKeys(ctx context.Context, q *sqlgen.Queries, appID uuid.UUID, sequence, overlap int64) error {
	if sequence == 1 { // the first key of the app
		return nil
	}
	if err := q.LimitOlderKeys(ctx, sqlgen.LimitOlderKeysParams{AppID: appID, Sequence: sequence, Overlap: overlap}); err != nil {
		return err
	}
	return q.DeleteEndedKeys(ctx, sqlgen.DeleteEndedKeysParams{AppID: appID, Sequence: sequence - maxEndedKeys})
}

// AcceptKey implements account.KeyStore.
func (s Accounts) AcceptKey(ctx context.Context, key account.Key) (accepted bool, err error) {
	err = s.inTx(ctx, "accept key", func(q *sqlgen.Queries) error {
		accepted = false
		app, err := q.LockApp(ctx, key.AppID)
		if err != nil {
			return err
		}
		found, err := q.FindKey(ctx, key.Hash[:])
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			if key.Sequence <= app.KeySequence {
				return nil // issued before a key that the database knows: it was replaced or revoked
			}
			if _, err := insertKey(ctx, q, app, key, key.Sequence, true); err != nil {
				return err
			}
			if err := q.RaiseKeySequence(ctx, sqlgen.RaiseKeySequenceParams{ID: app.ID, KeySequence: key.Sequence}); err != nil {
				return err
			}
		case err != nil:
			return err
		case found.ApiKey.AppID != app.ID || found.Ended && !found.ApiKey.Closed:
			return nil
		case found.ApiKey.Closed:
			if err := q.ReopenKey(ctx, sqlgen.ReopenKeyParams{ID: found.ApiKey.ID, ObjectUid: key.ObjectUID}); err != nil {
				return err
			}
		default:
			return account.ErrKeysChanged // another caller accepted it
		}
		accepted = true
		return endOlderKeys(ctx, q, app.ID, key.Sequence, key.Overlap.Microseconds())
	})
	return accepted && err == nil, err
}

// PurgeKeys implements account.KeyStore.
func (s Accounts) PurgeKeys(ctx context.Context, retention time.Duration, batch int) (int, error) {
	n, err := s.queries.PurgeKeys(ctx, sqlgen.PurgeKeysParams{Retention: retention.Microseconds(), Batch: batchSize(batch)})
	return int(n), toFault(err, "purge keys")
}

// FindPrincipalByKeyID returns the principal of the key with this id; NotFound without one.
func (s Credentials) FindPrincipalByKeyID(ctx context.Context, id uuid.UUID) (account.Principal, error) {
	row, err := s.idempotent.PrincipalOfKey(ctx, id)
	if err != nil {
		return account.Principal{}, toFault(err, "find principal of key")
	}
	return principalOf(row.Account, row.App, row.ApiKey), nil
}

// TouchKeys sets when keys were last used. Deleted keys are ignored.
func (s Credentials) TouchKeys(ctx context.Context, used map[uuid.UUID]account.Use) error {
	params := sqlgen.TouchKeysParams{}
	for id, use := range used {
		params.Ids = append(params.Ids, id)
		params.UsedAt = append(params.UsedAt, use.At)
	}
	return toFault(s.queries.TouchKeys(ctx, params), "touch keys")
}

func principalOf(a sqlgen.Account, app sqlgen.App, k sqlgen.ApiKey) account.Principal {
	return account.Principal{Account: accountOf(a), App: appOf(app), Key: keyOf(k), Actor: account.ActorOfKey(k.ID)}
}

func keyOf(row sqlgen.ApiKey) account.Key {
	key := account.Key{ID: row.ID, AppID: row.AppID, Generation: row.Generation, Sequence: row.Sequence, ObjectUID: row.ObjectUid,
		Overlap: time.Duration(row.Overlap) * time.Microsecond, ReplacesSecret: row.ReplacesSecret, CreatedAt: row.CreatedAt, DeliveredAt: row.DeliveredAt, ExpiresAt: row.ExpiresAt}
	copy(key.Hash[:], row.Hash)
	return key
}
