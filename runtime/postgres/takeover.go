package postgres

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// openAccountsPage is the number of accounts that one query of OpenAccounts reads.
const openAccountsPage = 500

// BindInstallation binds the installation to a cluster, unless one is bound. It reports whether
// it did.
func (s Installations) BindInstallation(ctx context.Context, clusterUID string) (bool, error) {
	rows, err := s.queries.BindInstallation(ctx, clusterUID)
	return rows == 1, toFault(err, "bind the installation")
}

// BeginLeaderTerm begins the term of a new leader and returns it. It waits for the writes of the
// former leader that are in progress; later ones are rejected. It returns a Conflict if the
// installation is not bound to the cluster at this epoch, or is on hold.
func (s Installations) BeginLeaderTerm(ctx context.Context, clusterUID string, epoch int64) (term int64, err error) {
	err = s.inTx(ctx, "begin a leader term", func(q *sqlgen.Queries) error {
		if err := q.LockTakeover(ctx, takeoverLock); err != nil {
			return err
		}
		term, err = q.BeginLeaderTerm(ctx, sqlgen.BeginLeaderTermParams{ClusterUid: clusterUID, Epoch: epoch})
		if errors.Is(err, pgx.ErrNoRows) {
			return fault.New(fault.Conflict, "the installation has changed meanwhile")
		}
		return err
	})
	return term, err
}

// HoldAtEpoch puts the installation on hold, because something outside of the database shows
// a later epoch: the database was restored.
func (s Installations) HoldAtEpoch(ctx context.Context, reason string, knownEpoch int64) error {
	return toFault(s.queries.HoldAtEpoch(ctx, sqlgen.HoldAtEpochParams{Reason: reason, KnownEpoch: knownEpoch}), "hold the installation")
}

// OpenAccounts calls each for every open account in the order of their ids, until it returns an
// error.
func (s Installations) OpenAccounts(ctx context.Context, each func(installation.OpenAccount) error) error {
	for after := uuid.Nil; ; {
		page, err := s.queries.OpenAccounts(ctx, sqlgen.OpenAccountsParams{After: after, Page: openAccountsPage})
		if err != nil {
			return toFault(err, "list the open accounts")
		}
		for _, row := range page {
			if err := each(installation.OpenAccount(row)); err != nil {
				return err
			}
			after = row.ID
		}
		if len(page) < openAccountsPage {
			return nil
		}
	}
}

// PlannedDeletions calls each for every closed account whose media is deleted, in the order of
// their ids, until it returns an error.
func (s Installations) PlannedDeletions(ctx context.Context, each func(installation.PlannedDeletion) error) error {
	for after := uuid.Nil; ; {
		page, err := s.queries.PlannedDeletions(ctx, sqlgen.PlannedDeletionsParams{After: after, Page: openAccountsPage})
		if err != nil {
			return toFault(err, "list the planned deletions")
		}
		for _, row := range page {
			if err := each(installation.PlannedDeletion{Account: row.ID, Namespace: row.Namespace, Name: row.Name, Bucket: row.Bucket,
				ClosedAt: row.ClosedAt, EraseAfter: row.EraseAfter, Erasing: row.Erasing, Items: row.Items, Bytes: row.Bytes}); err != nil {
				return err
			}
			after = row.ID
		}
		if len(page) < openAccountsPage {
			return nil
		}
	}
}

// TakeOver binds the installation and every open account to another cluster: the accounts bind
// to the MediaAccounts of their namespaces and names. It waits for the writes of the former
// cluster that are in progress; later ones are rejected. It returns the new epoch and the number
// of accounts.
func (s Installations) TakeOver(ctx context.Context, request installation.Takeover) (epoch, accounts int64, err error) {
	err = s.inTx(ctx, "take over the installation", func(q *sqlgen.Queries) error {
		if err := q.LockTakeover(ctx, takeoverLock); err != nil {
			return err
		}
		epoch, err = q.TakeOverInstallation(ctx, sqlgen.TakeOverInstallationParams{
			ClusterUid: request.ClusterUID, OldClusterUid: request.OldClusterUID, OldEpoch: request.OldEpoch, KnownEpoch: request.KnownEpoch,
		})
		if errors.Is(err, pgx.ErrNoRows) {
			return fault.New(fault.Conflict, "the installation has changed meanwhile; run the command again")
		}
		if err != nil {
			return err
		}
		if accounts, err = q.UnbindAccounts(ctx); err != nil {
			return err
		}
		// After the accounts: who changes the settings of one has its lock, and then writes an event.
		return q.LockJournal(ctx)
	})
	return epoch, accounts, err
}
