package account

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/purge"
)

// KeyStore stores API keys. A key is issued in two phases: AddKey makes it valid, and DeliverKey
// ends the older keys once a Secret holds it. The database's clock decides when a key ends, and
// sequence numbers order the keys of an app, because the clocks of the callers may differ.
type KeyStore interface {
	// Keys returns the account, its open apps and their valid keys, as they were at one moment.
	Keys(ctx context.Context, accountID uuid.UUID) (AccountKeys, error)
	// AddKey adds a pending key with the next sequence number of its app, and returns it as it
	// was stored. A pending key of the app is replaced in place, and the shorter overlap of the
	// two counts. With seen, it returns ErrKeysChanged unless the keys are still as they were
	// seen, so that of several callers with the same reason one adds a key.
	AddKey(ctx context.Context, key Key, seen *SeenKeys) (Key, error)
	// MarkKeyReplacesSecret sets key.ReplacesSecret (of ID and Hash).
	MarkKeyReplacesSecret(ctx context.Context, key Key) error
	// DeliverKey records that a Secret of key.ObjectUID holds the key (ID and Hash). The first
	// delivery ends the older keys of the app after the key's overlap. It returns ErrKeysChanged
	// if the key was replaced or has ended.
	DeliverKey(ctx context.Context, key Key) error
	// DeliverFirstKeys is DeliverKey for pending keys that may be the first of their apps. It returns the
	// ids of those that were, and leaves the others as they are.
	DeliverFirstKeys(ctx context.Context, keys []Key, objectUID string) ([]uuid.UUID, error)
	// AcceptKey makes a key valid whose proof was checked, and reports whether it did: it is
	// newer than every key of the app that the database knows, or it is the one that ended when
	// the account was closed. The older keys end after key.Overlap. It returns ErrKeysChanged if
	// the key is valid already.
	AcceptKey(ctx context.Context, key Key) (accepted bool, err error)
	// PurgeKeys deletes up to batch keys that ended longer ago than retention.
	PurgeKeys(ctx context.Context, retention time.Duration, batch int) (int, error)
}

// ErrKeysChanged is returned when another caller changed the keys of an app meanwhile. Read the
// keys again.
var ErrKeysChanged = fault.New(fault.Conflict, "the keys of the app were changed at the same time")

// Keys returns the valid keys of the account.
func (r *Registry) Keys(ctx context.Context, accountID uuid.UUID) (AccountKeys, error) {
	return r.store.Keys(ctx, accountID)
}

// KeyRequest describes a key to issue.
type KeyRequest struct {
	AppID      uuid.UUID
	Generation int64
	// ObjectUID is the UID of the MediaAccount whose Secret will hold the key.
	ObjectUID string
	// Overlap is how long the older keys stay valid after the delivery; 0 ends them then.
	Overlap time.Duration
	// Seen are the app's keys as the caller read them; nil adds a key whatever others did
	// meanwhile.
	Seen *SeenKeys
}

// SeenKeys are what a caller knows about the keys of an app when it decides to add one.
type SeenKeys struct {
	Sequence int64 // that of AppKeys
	Pending  bool  // the newest valid key is pending
}

// Seen returns what these keys show.
func (k AppKeys) Seen() *SeenKeys {
	return &SeenKeys{Sequence: k.Sequence, Pending: len(k.Valid) > 0 && k.Valid[0].Pending()}
}

// AddKey adds a pending key and returns it in plain text, which is not stored. It is valid at
// once. Call DeliverKey when a Secret holds it.
func (r *Registry) AddKey(ctx context.Context, request KeyRequest) (KeySecret, Key, error) {
	token, err := NewKeySecret(r.store.Cell())
	if err != nil {
		return KeySecret{}, Key{}, err
	}
	id, err := r.store.Cell().NewID()
	if err != nil {
		return KeySecret{}, Key{}, err
	}
	key, err := r.store.AddKey(ctx, Key{
		ID: id, AppID: request.AppID, Hash: token.Hash(), Generation: request.Generation,
		ObjectUID: request.ObjectUID, Overlap: request.Overlap,
	}, request.Seen)
	if err != nil {
		return KeySecret{}, Key{}, err
	}
	return token, key, nil
}

// MarkKeyReplacesSecret records that the immutable Secret of the app is deleted to write the key:
// that the Secret is missing is no revocation then.
func (r *Registry) MarkKeyReplacesSecret(ctx context.Context, key Key) error {
	return r.store.MarkKeyReplacesSecret(ctx, key)
}

// DeliverKey records that the Secret of a MediaAccount holds the key. The older keys end after the
// overlap with which the key was added.
func (r *Registry) DeliverKey(ctx context.Context, key Key, objectUID string) error {
	key.ObjectUID = objectUID
	return r.store.DeliverKey(ctx, key)
}

// DeliverFirstKeys records that the Secrets of the object hold these keys, if each is the first one of its
// app. It returns the ids of those that are; DeliverKey delivers the others.
func (r *Registry) DeliverFirstKeys(ctx context.Context, keys []Key, objectUID string) ([]uuid.UUID, error) {
	return r.store.DeliverFirstKeys(ctx, keys, objectUID)
}

// AcceptKey makes the key of a Secret valid that the database does not know as valid, if the proof
// of the Secret says that it was issued for this app, and no newer key was issued since. It
// reports whether it did. The older keys end after request.Overlap.
func (r *Registry) AcceptKey(ctx context.Context, keys AccountKeys, app App, token KeySecret, proof string, request KeyRequest) (bool, error) {
	sequence, generation, ok := keys.ProofKey.Verify(proof, app.AccountID, app.Name, token.Hash())
	if !ok {
		return false, nil
	}
	id, err := r.store.Cell().NewID()
	if err != nil {
		return false, err
	}
	return r.store.AcceptKey(ctx, Key{
		ID: id, AppID: app.ID, Hash: token.Hash(), Generation: generation, Sequence: sequence,
		ObjectUID: request.ObjectUID, Overlap: request.Overlap,
	})
}

// IssueKey adds a key and delivers it, for callers that hand it over without a Secret. Older keys
// of the app stay valid for overlap; with 0 they end at once.
func (r *Registry) IssueKey(ctx context.Context, appID uuid.UUID, generation int64, overlap time.Duration) (KeySecret, Key, error) {
	token, key, err := r.AddKey(ctx, KeyRequest{AppID: appID, Generation: generation, Overlap: overlap})
	if err != nil {
		return KeySecret{}, Key{}, err
	}
	return token, key, r.store.DeliverKey(ctx, key)
}

// KeyPurgeConfig bounds how long ended keys are kept. The tags are flag and environment names.
type KeyPurgeConfig struct {
	KeyRetention time.Duration `env:"SERVICE_KEY_RETENTION" default:"720h" help:"How long the record of an ended API key is kept, from 1h to 8784h."`
}

// Validate checks the bounds.
func (c KeyPurgeConfig) Validate() error {
	if c.KeyRetention < time.Hour || c.KeyRetention > 8784*time.Hour {
		return fmt.Errorf("SERVICE_KEY_RETENTION must be from 1h to 8784h, not %s", c.KeyRetention)
	}
	return nil
}

// PurgeKeys deletes the keys that ended longer ago than the retention, and returns how many.
func PurgeKeys(ctx context.Context, cfg KeyPurgeConfig, store KeyStore, batches purge.Batches) (int, error) {
	return batches.Each(ctx, func(ctx context.Context, size int) (int, error) {
		return store.PurgeKeys(ctx, cfg.KeyRetention, size)
	})
}
