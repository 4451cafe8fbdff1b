package tus

import (
	"context"
	"io"

	"github.com/google/uuid"
	"github.com/tus/tusd/v2/pkg/handler"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
)

// store shows package media to tusd. It acts for the call in the context.
type store struct{ media *media.Service }

var (
	_ handler.DataStore               = store{}
	_ handler.TerminaterDataStore     = store{}
	_ handler.LengthDeferrerDataStore = store{}
	_ handler.Upload                  = upload{}
)

// upload is one upload as tusd sees it.
type upload struct {
	store store
	*media.Resumable
	call *call
}

// NewUpload implements handler.DataStore.
func (s store) NewUpload(ctx context.Context, info handler.FileInfo) (handler.Upload, error) {
	c := callOf(ctx)
	length := info.Size
	if info.SizeIsDeferred {
		length = media.UnknownLength
	}
	made, err := s.media.CreateResumable(c.ctx, c.grant.Principal, length, c.fields, c.metadata)
	if err != nil {
		return nil, c.fail(err)
	}
	c.upload = made
	return upload{store: s, Resumable: made, call: c}, nil
}

// GetUpload implements handler.DataStore. An upload that has received everything is
// finished first, so no offset that is told equals the length before the draft is
// there. One that is to be ended need not be finished for that.
func (s store) GetUpload(ctx context.Context, text string) (handler.Upload, error) {
	c := callOf(ctx)
	id, err := uuid.Parse(text)
	if err != nil {
		return nil, c.fail(errNoUpload)
	}
	if err := c.reauthenticate(); err != nil { // the request may have waited for the lock
		return nil, c.fail(err)
	}
	find := s.media.Resume
	if c.ending {
		find = s.media.FindResumable
	}
	found, err := find(c.ctx, c.grant.Principal, id)
	if err != nil {
		return nil, s.failed(c, id, err)
	}
	c.upload = found
	c.forgetLength(found.State().Length)
	return upload{store: s, Resumable: found, call: c}, nil
}

// failed notes an error. A thing that is missing is the upload, or what it is stored
// in: a bucket that is being made again is not the client's mistake.
func (s store) failed(c *call, id uuid.UUID, err error) error {
	if fault.Is(err, fault.NotFound) {
		if _, gone := s.media.FindResumable(c.ctx, c.grant.Principal, id); fault.Is(gone, fault.NotFound) {
			_ = c.fail(errNoUpload)
			return handler.ErrNotFound
		}
		err = fault.Wrap(err, fault.Unavailable, "the file could not be stored: try again")
	}
	return c.fail(err)
}

// AsTerminatableUpload implements handler.TerminaterDataStore.
func (s store) AsTerminatableUpload(u handler.Upload) handler.TerminatableUpload {
	return u.(upload) //nolint:forcetypeassert // tusd hands back what this store gave it
}

// AsLengthDeclarableUpload implements handler.LengthDeferrerDataStore.
func (s store) AsLengthDeclarableUpload(u handler.Upload) handler.LengthDeclarableUpload {
	return u.(upload) //nolint:forcetypeassert // tusd hands back what this store gave it
}

// GetInfo implements handler.Upload. MetaData stays empty: see answer.describe.
func (u upload) GetInfo(context.Context) (handler.FileInfo, error) {
	state := u.State()
	info := handler.FileInfo{ID: state.ItemID.String(), Size: state.Length, Offset: state.Progress.Received}
	if state.Length == media.UnknownLength {
		info.Size, info.SizeIsDeferred = 0, true
	}
	return info, nil
}

// WriteChunk implements handler.Upload. What arrived before a failure counts, unless a
// checksum had to prove it.
func (u upload) WriteChunk(_ context.Context, offset int64, src io.Reader) (int64, error) {
	if u.call.body != nil {
		src = u.call.body // its errors are worth knowing
	}
	var proof func() error
	if sum := u.call.checksum; sum != nil {
		src, proof = io.TeeReader(src, sum.digest), sum.check
	}
	u.OnSlow(u.call.interrupt)
	n, err := u.Write(u.call.ctx, offset, src, proof)
	if err == nil {
		return n, u.call.denied()
	}
	state := u.State()
	if body := u.call.body; body != nil && fault.Is(err, fault.Invalid) && state.Length != media.UnknownLength && offset+body.read > state.Length {
		err = fault.Wrap(err, fault.TooLarge, "%s", fault.From(err).Public)
	}
	return n, u.store.failed(u.call, state.ItemID, err)
}

// FinishUpload implements handler.Upload: it makes the draft. tusd calls it also when
// WriteChunk failed.
func (u upload) FinishUpload(context.Context) error {
	if err := u.call.denied(); err != nil {
		return err
	}
	if _, err := u.Finish(u.call.ctx); err != nil {
		return u.store.failed(u.call, u.State().ItemID, err)
	}
	return nil
}

// DeclareLength implements handler.LengthDeclarableUpload.
func (u upload) DeclareLength(_ context.Context, length int64) error {
	if err := u.Resumable.DeclareLength(u.call.ctx, length); err != nil {
		return u.store.failed(u.call, u.State().ItemID, err)
	}
	return nil
}

// Terminate implements handler.TerminatableUpload.
func (u upload) Terminate(context.Context) error {
	if err := u.Cancel(u.call.ctx); err != nil {
		return u.store.failed(u.call, u.State().ItemID, err)
	}
	return nil
}

// GetReader implements handler.Upload. Files are served elsewhere.
func (u upload) GetReader(context.Context) (io.ReadCloser, error) {
	return nil, handler.ErrNotImplemented
}

// locker shows the locks to tusd.
type locker struct{ locks Locks }

// NewLock implements handler.Locker.
func (l locker) NewLock(id string) (handler.Lock, error) { return &lock{locks: l.locks, id: id}, nil }

type lock struct {
	locks  Locks
	id     string
	unlock func()
}

// Lock implements handler.Lock. The callback of tusd's is not used: it would also cut
// off a request that only has to finish.
func (l *lock) Lock(ctx context.Context, _ func()) error {
	c := callOf(ctx)
	id, err := uuid.Parse(l.id)
	if err != nil {
		return c.fail(errNoUpload)
	}
	unlock, err := l.locks.Lock(ctx, id, func() { c.interrupt(errTakenOver) })
	switch {
	case fault.Is(err, fault.Busy):
		_ = c.fail(fault.Wrap(err, fault.Busy, "%s", fault.From(err).Public))
		c.locked = true
		return handler.ErrLockTimeout
	case err != nil:
		return c.fail(err)
	}
	l.unlock = unlock
	return nil
}

// Unlock implements handler.Lock.
func (l *lock) Unlock() error {
	l.unlock()
	return nil
}
