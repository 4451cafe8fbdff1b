package tus

import (
	"context"

	"github.com/tus/tusd/v2/pkg/handler"

	"mediastack.dev/runtime/internal/auth"
	"mediastack.dev/runtime/media"
)

// StoreFor returns the store as tusd sees it.
func StoreFor(m *media.Service) handler.DataStore { return store{media: m} }

// LockerFor returns the locks as tusd sees them.
func LockerFor(locks Locks) handler.Locker { return locker{locks: locks} }

// ActingFor returns a context in which the store and the locks act for a grant.
func ActingFor(ctx context.Context, grant auth.Identity, fields media.Fields) context.Context {
	return context.WithValue(ctx, callKey{}, &call{grant: grant, fields: fields, ctx: ctx, reauthenticate: func() error { return nil }})
}
