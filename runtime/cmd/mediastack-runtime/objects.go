package main

import (
	"context"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/internal/server"
	"mediastack.dev/runtime/objectstore"
	"mediastack.dev/runtime/postgres"
)

// objectsCheck returns the error of an object store that cannot be used, and as a degradation that of
// one that is away: everything but uploads and files goes on.
func objectsCheck(stores *objectstore.Readiness) error {
	if err := stores.Usable(); err != nil {
		return err
	}
	return server.Degraded(stores.Available())
}

// changesCheck returns the error of a database that is read-only: as a degradation, since reads and files go on, unless it was so ever
// since the start. A rollout that names a standby must not replace replicas that name the primary.
func changesCheck(ctx context.Context, store *postgres.Store) error {
	always, err := store.CheckWritable(ctx)
	if err == nil || fault.ReasonOf(err) == fault.ReadOnly && !always {
		return server.Degraded(err)
	}
	return err
}

// availableMarkers reads and writes no marker while the object store is away, and fails at once.
type availableMarkers struct {
	installation.Markers
	available func() error
}

// Marker implements installation.Markers.
func (m availableMarkers) Marker(ctx context.Context, bucket string) (installation.Marker, error) {
	if err := m.available(); err != nil {
		return installation.Marker{}, err
	}
	return m.Markers.Marker(ctx, bucket)
}

// WriteWitness implements installation.Markers.
func (m availableMarkers) WriteWitness(ctx context.Context, bucket string, read installation.Marker, witness installation.Witness) error {
	if err := m.available(); err != nil {
		return err
	}
	return m.Markers.WriteWitness(ctx, bucket, read, witness)
}
