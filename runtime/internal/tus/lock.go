package tus

import (
	"context"

	"github.com/google/uuid"
	"github.com/tus/tusd/v2/pkg/handler"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/upload"
)

// locker implements tusd's locker with Locks.
type locker struct {
	store store
	locks Locks
}

// NewLock implements handler.Locker.
func (l locker) NewLock(id string) (handler.Lock, error) { return &lock{locker: l, id: id}, nil }

type lock struct {
	locker
	id     string
	unlock func()
}

// Lock implements handler.Lock. It is taken before the upload is read, so that one read is
// enough. Requests of other apps can't delay or interrupt those of the upload's app: the
// name of the lock contains the app. Nor can requests of the same app that may not use the
// upload: before a request waits, and the holder is asked to release the lock, it must find
// the upload. tusd's own callback is not used: it would also interrupt a request that has
// all its bytes.
func (l *lock) Lock(ctx context.Context, _ func()) error {
	state := fromContext(ctx)
	id, err := uuid.Parse(l.id)
	if err != nil {
		return state.fail(errUploadNotFound)
	}
	unlock, err := l.locks.Lock(ctx, upload.LockName(state.identity.App.ID, id), func() { state.interrupt(errLockPreempted) }, func() error {
		state.waited = true
		_, err := l.store.find(state, id)
		return err
	})
	switch {
	case fault.Is(err, fault.Busy):
		_ = state.fail(err)
		state.lockTimedOut = true
		return handler.ErrLockTimeout
	case err != nil:
		return state.fail(err)
	}
	l.unlock = unlock
	return nil
}

// Unlock implements handler.Lock.
func (l *lock) Unlock() error {
	l.unlock()
	return nil
}
