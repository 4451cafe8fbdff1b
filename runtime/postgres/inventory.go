package postgres

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/inventory"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

var _ inventory.Store = Installations{}

// Inventory implements inventory.Store.
func (s Installations) Inventory(ctx context.Context, maxAccounts int) (inventory.Inventory, error) {
	var found inventory.Inventory
	stored, err := s.queries.StoredByAccount(ctx, int64(maxAccounts))
	if err != nil {
		return found, toFault(err, "sum up what is stored")
	}
	for _, row := range stored {
		found.Stored = append(found.Stored, inventory.Stored(row))
	}
	accounts, err := s.queries.AccountStates(ctx)
	if err != nil {
		return found, toFault(err, "count accounts")
	}
	queues, err := s.queries.Queues(ctx)
	if err != nil {
		return found, toFault(err, "count the queues")
	}
	webhooks, err := s.queries.CountWebhooks(ctx)
	if err != nil {
		return found, toFault(err, "count the webhooks")
	}
	found.Webhooks = inventory.Webhooks(webhooks)
	work, err := s.queries.WaitingWork(ctx, workKinds())
	if err != nil {
		return found, toFault(err, "count the tasks")
	}
	for _, row := range work {
		found.Work = append(found.Work, inventory.Work(row))
	}
	found.Accounts, found.Queues = inventory.Accounts(accounts), inventory.Queues(queues)
	switch oldest, err := s.queries.OldestDraft(ctx); {
	case err == nil:
		found.OldestDraft = &oldest
	case !errors.Is(err, pgx.ErrNoRows):
		return found, toFault(err, "find the oldest draft")
	}
	purge, err := s.queries.PurgeRun(ctx)
	found.Purge = inventory.Purge{Started: purge.StartedAt, Ended: purge.EndedAt, Succeeded: purge.SucceededAt, NeedsAttention: purge.NeedsAttention, BucketsSkipped: purge.BucketsSkipped,
		Runs: map[inventory.PurgeOutcome]int64{inventory.Completed: purge.RunsCompleted, inventory.Failed: purge.RunsFailed, inventory.Held: purge.RunsHeld},
		PurgeCounts: inventory.PurgeCounts{Drafts: purge.Drafts, DeletedItems: purge.DeletedItems, Uploads: purge.Uploads, Removals: purge.Removals, RemovalsFailed: purge.RemovalsFailed,
			OAuthRows: purge.OauthRows, APIKeys: purge.ApiKeys, Renditions: purge.Renditions}}
	return found, toFault(err, "read the runs of the purge")
}

// FirstRuntime implements inventory.Store.
func (s Installations) FirstRuntime(ctx context.Context) (uuid.UUID, error) {
	id, err := s.queries.FirstRuntime(ctx)
	if errors.Is(err, pgx.ErrNoRows) {
		return uuid.Nil, nil
	}
	return id, toFault(err, "find the first runtime instance")
}

// RecordPurge records a run of the purge.
func (s Installations) RecordPurge(ctx context.Context, run inventory.PurgeRun) error {
	params := sqlgen.RecordPurgeParams{StartedAt: run.Started, EndedAt: run.Ended, NeedsAttention: run.NeedsAttention, BucketsSkipped: run.BucketsSkipped,
		Drafts: run.Drafts, DeletedItems: run.DeletedItems, Uploads: run.Uploads, Removals: run.Removals, RemovalsFailed: run.RemovalsFailed, OauthRows: run.OAuthRows, ApiKeys: run.APIKeys, Renditions: run.Renditions}
	switch run.Outcome {
	case inventory.Completed:
		params.Completed = 1
	case inventory.Failed:
		params.Failed = 1
	case inventory.Held:
		params.Held = 1
	}
	return toFault(s.queries.RecordPurge(ctx, params), "record the run of the purge")
}
