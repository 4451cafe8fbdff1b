package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// TouchRuntime implements installation.InstanceStore.
func (s Installations) TouchRuntime(ctx context.Context, id uuid.UUID, version string, lease time.Duration) (installation.Touch, error) {
	row, err := s.queries.TouchRuntime(ctx, sqlgen.TouchRuntimeParams{ID: id, Version: version, Lease: lease.Microseconds()})
	if err != nil {
		return installation.Touch{}, toFault(err, "touch the runtime instance")
	}
	s.instance.Store(&id)
	s.replicas.Store(row.Replicas)
	return installation.Touch{Lapsed: row.Lapsed, Dead: row.Dead}, nil
}

// RemoveRuntime implements installation.InstanceStore.
func (s Installations) RemoveRuntime(ctx context.Context, id uuid.UUID) error {
	return toFault(s.queries.RemoveRuntime(ctx, id), "remove the runtime instance")
}

// RemoveDeadRuntimes implements installation.InstanceStore.
func (s Installations) RemoveDeadRuntimes(ctx context.Context) error {
	return toFault(s.queries.RemoveDeadRuntimes(ctx), "remove the dead runtime instances")
}

// ServingRuntimes returns the replicas of the runtime whose lease has not ended, by the database's
// clock.
func (s Installations) ServingRuntimes(ctx context.Context) (installation.Runtimes, error) {
	rows, err := s.queries.ServingRuntimes(ctx)
	if err != nil {
		return installation.Runtimes{}, toFault(err, "count the runtime instances")
	}
	var serving installation.Runtimes
	for _, row := range rows {
		serving.Replicas += int(row.Replicas)
		serving.Versions = append(serving.Versions, row.Version)
	}
	return serving, nil
}
