package postgres

import (
	"context"

	"github.com/google/uuid"

	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// TouchRuntime implements installation.InstanceStore.
func (s *Store) TouchRuntime(ctx context.Context, id uuid.UUID, version string) error {
	return toFault(s.queries.TouchRuntime(ctx, sqlgen.TouchRuntimeParams{ID: id, Version: version}), "touch the runtime instance")
}

// RemoveRuntime implements installation.InstanceStore.
func (s *Store) RemoveRuntime(ctx context.Context, id uuid.UUID) error {
	return toFault(s.queries.RemoveRuntime(ctx, id), "remove the runtime instance")
}

// ServingRuntimes returns the replicas of the runtime that were seen within 45 seconds, by the
// database's clock.
func (s *Store) ServingRuntimes(ctx context.Context) (installation.Runtimes, error) {
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
