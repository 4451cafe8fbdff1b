package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// principalLookup looks up the principal of a key. The batch sets found.
type principalLookup struct {
	hash  account.Hash
	found account.Principal
}

func (l *principalLookup) key() account.Hash { return l.hash }

// principalsLateAfter is how long a batch of look-ups delays later ones: it locks nothing, so that only
// a connection that hangs takes as long.
const principalsLateAfter = 100 * time.Millisecond

// FindPrincipal returns the principal of the key with this hash; NotFound without one. A
// caller that keeps it compares the key's end with a clock of its own.
//
// Every upload checks its key at its end, without a cache. Concurrent look-ups share a statement, which
// begins after each of them.
func (s Credentials) FindPrincipal(ctx context.Context, hash account.Hash) (account.Principal, error) {
	lookup := &principalLookup{hash: hash}
	found, err := s.principalBatch.DoUntil(ctx, lookup)
	switch {
	case err != nil:
		return account.Principal{}, toFault(err, "find principal")
	case !found:
		return account.Principal{}, fault.Wrap(errNoPrincipal, fault.NotFound, "not found")
	}
	return lookup.found, nil
}

var errNoPrincipal = errors.New("find principal: there is none")

// findPrincipals executes a batch of look-ups.
func (s Credentials) findPrincipals(ctx context.Context, _ time.Duration, lookups []*principalLookup) ([]bool, error) {
	hashes := make([][]byte, len(lookups))
	for i, lookup := range lookups {
		hashes[i] = lookup.hash[:]
	}
	rows, err := repeat(ctx, s.Store, uuid.Nil, func(ctx context.Context) ([]sqlgen.PrincipalsRow, error) { return s.once.Principals(ctx, hashes) })
	if err != nil {
		return nil, err
	}
	principals := make(map[account.Hash]account.Principal, len(rows))
	for _, row := range rows {
		principal := principalOf(row.Account, row.App, row.ApiKey)
		principals[principal.Key.Hash] = principal
	}
	found := make([]bool, len(lookups))
	for i, lookup := range lookups {
		lookup.found, found[i] = principals[lookup.hash]
	}
	return found, nil
}
