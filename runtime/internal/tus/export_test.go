package tus

import (
	"context"

	"github.com/google/uuid"
	"github.com/tus/tusd/v2/pkg/handler"

	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/upload"
)

// StoreFor returns the store as tusd sees it.
func StoreFor(u *upload.Service) handler.DataStore { return store{uploads: u} }

// LockerFor returns the locks as tusd sees them. The upload of a lock need not exist.
func LockerFor(u *upload.Service, locks Locks) handler.Locker {
	return locker{store: store{uploads: u}, locks: locks}
}

// LockName returns the name of the lock of an app's upload.
func LockName(app, id uuid.UUID) uuid.UUID { return upload.LockName(app, id) }

// ActingFor returns a context in which the store and the locks act for a caller.
func ActingFor(ctx context.Context, identity auth.Identity, fields media.Fields) context.Context {
	return context.WithValue(ctx, requestStateKey{}, &requestState{identity: identity, creation: creation{fields: fields}, ctx: ctx, reauthenticate: func() error { return nil }})
}
