package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/cell"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

var errNoInstallation = fault.New(fault.Unavailable, "the database has no installation: its row was deleted, or it was restored in part")

// Installation implements installation.Store.
func (s Installations) Installation(ctx context.Context) (installation.State, error) {
	row, err := s.queries.Installation(ctx)
	if errors.Is(err, pgx.ErrNoRows) {
		return installation.State{}, errNoInstallation
	}
	if err != nil {
		return installation.State{}, toFault(err, "read the installation")
	}
	if err := checkCell(row.Cell, s.cell); err != nil {
		return installation.State{}, err
	}
	current, err := s.currentServer(ctx)
	if err != nil {
		return installation.State{}, err
	}
	return installation.State{
		Identity: installation.Identity{ID: row.ID, Epoch: row.Epoch}, Cell: s.cell, ClusterUID: row.ClusterUid, LeaderTerm: row.LeaderTerm,
		Heartbeat: row.Heartbeat, Token: row.Token, HeartbeatAge: time.Duration(row.HeartbeatAge) * time.Microsecond,
		Server: installation.ParseServer(row.Server), CurrentServer: current,
		HoldReason: row.HoldReason, HeldAt: row.HeldAt, ResumedAt: row.ResumedAt,
	}, nil
}

// checkCell returns a fault unless the cell of the database is that of the configuration.
func checkCell(recorded int32, configured cell.Number) error {
	if recorded == int32(configured) {
		return nil
	}
	return fault.WithReason(fault.New(fault.Unavailable, "the database is that of cell %d, and SERVICE_CELL is %d: set SERVICE_CELL to %d, or use the database of cell %d; the number of an installation cannot be changed", recorded, configured, recorded, configured), fault.OtherInstallation)
}

// Identity returns the identity that the markers of buckets record.
func (s Installations) Identity(ctx context.Context) (installation.Identity, error) {
	state, err := s.Installation(ctx)
	return state.Identity, err
}

// currentServer returns what identifies the server and the database. The system identifier is
// readable by every role by default; a server may revoke that.
func (s Installations) currentServer(ctx context.Context) (installation.Server, error) {
	var server installation.Server
	var readable bool
	err := s.pool.QueryRow(ctx, "SELECT oid::text, has_function_privilege('pg_catalog.pg_control_system()', 'EXECUTE') FROM pg_catalog.pg_database WHERE datname = current_database()").Scan(&server.Database, &readable)
	if err == nil && readable {
		err = s.pool.QueryRow(ctx, "SELECT system_identifier::text FROM pg_catalog.pg_control_system()").Scan(&server.System)
	}
	return server, toFault(err, "identify the server")
}

// WitnessBuckets implements installation.Store.
func (s Installations) WitnessBuckets(ctx context.Context, after uuid.UUID, limit int32) ([]installation.Bucket, error) {
	rows, err := s.queries.WitnessBuckets(ctx, sqlgen.WitnessBucketsParams{ID: after, Limit: limit})
	if err != nil {
		return nil, toFault(err, "list owned buckets")
	}
	buckets := make([]installation.Bucket, len(rows))
	for i, row := range rows {
		buckets[i] = installation.Bucket{AccountID: row.ID, Name: row.Bucket, Erasing: row.Erasing}
	}
	return buckets, nil
}

// RecordServer implements installation.Store.
func (s Installations) RecordServer(ctx context.Context, server installation.Server) error {
	return toFault(s.queries.RecordServer(ctx, server.String()), "record the server")
}

// AdvanceHeartbeat implements installation.Store.
func (s Installations) AdvanceHeartbeat(ctx context.Context, from installation.State, token uuid.UUID) (bool, error) {
	n, err := s.queries.AdvanceHeartbeat(ctx, sqlgen.AdvanceHeartbeatParams{NextToken: token, Heartbeat: from.Heartbeat, Token: from.Token})
	return n == 1, toFault(err, "advance the heartbeat")
}

// Hold implements installation.Store.
func (s Installations) Hold(ctx context.Context, reason string) error {
	return toFault(s.queries.HoldInstallation(ctx, reason), "hold the installation")
}

// Resume implements installation.ResumeStore.
func (s Installations) Resume(ctx context.Context, from, next installation.State, minDelay time.Duration) (bool, error) {
	var resumed bool
	err := s.inTx(ctx, "resume after a restore", func(q *sqlgen.Queries) error {
		n, err := q.ResumeInstallation(ctx, sqlgen.ResumeInstallationParams{
			NextEpoch: next.Epoch, NextHeartbeat: next.Heartbeat, NextToken: next.Token, Server: next.Server.String(),
			Epoch: from.Epoch, Heartbeat: from.Heartbeat, Token: from.Token,
		})
		if resumed = n == 1; err != nil || !resumed {
			return err
		}
		if err := q.PostponeTombstones(ctx); err != nil {
			return err
		}
		if err := q.PostponeErasures(ctx, minDelay.Seconds()); err != nil {
			return err
		}
		return q.LockJournal(ctx) // the last lock, as in TakeOver
	})
	return resumed && err == nil, err
}
