package accountcache

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"
)

// OriginStore lists the web origins of all accounts. Package postgres implements it.
type OriginStore interface {
	ListOrigins(ctx context.Context) ([]string, error)
}

// originPolicy is the policy that uses the origins. origin.Policy implements it.
type originPolicy interface {
	SetAccountOrigins(texts []string) (invalid []string, err error)
}

// originPause is the time between two reads of the origins, at least. A preflight of a new origin
// waits for it.
const originPause = time.Second

// Origins keeps the origins of a policy as the accounts list them. It reads them when an account
// changed. While notifications are not delivered, the last ones stay.
type Origins struct {
	store   OriginStore
	policy  originPolicy
	log     *slog.Logger
	changed chan struct{}
	invalid []string // those that were logged last
}

// NewOrigins returns Origins that read store for policy.
func NewOrigins(store OriginStore, policy originPolicy, log *slog.Logger) *Origins {
	return &Origins{store: store, policy: policy, log: log, changed: make(chan struct{}, 1)}
}

// Connected requests a read: changes before it were not delivered.
func (o *Origins) Connected() { o.AccountChanged(uuid.Nil) }

// AccountChanged requests a read.
func (o *Origins) AccountChanged(uuid.UUID) {
	select {
	case o.changed <- struct{}{}:
	default: // one is requested
	}
}

// Disconnected does nothing: the origins are read again after the next Connected.
func (o *Origins) Disconnected() {}

// Run reads the origins on request, until ctx ends.
func (o *Origins) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-o.changed:
		}
		if err := o.read(ctx); err != nil {
			o.log.WarnContext(ctx, "the web origins of accounts were not updated", "error", err)
			o.AccountChanged(uuid.Nil) // again after the pause
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(originPause):
		}
	}
}

func (o *Origins) read(ctx context.Context) error {
	texts, err := o.store.ListOrigins(ctx)
	if err != nil {
		return err
	}
	invalid, err := o.policy.SetAccountOrigins(texts)
	if changed := !slices.Equal(invalid, o.invalid); changed && len(invalid) > 0 { // each change of any account reads all
		o.log.WarnContext(ctx, "invalid web origins of accounts have no effect", "origins", invalid)
	}
	o.invalid = invalid
	return err
}
