package tus

import (
	"context"
	"io"
	"net/http"

	"github.com/google/uuid"
	"github.com/tus/tusd/v2/pkg/handler"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/upload"
)

// store implements tusd's store with package upload. It acts for the request in the context.
type store struct{ uploads *upload.Service }

var (
	_ handler.DataStore               = store{}
	_ handler.TerminaterDataStore     = store{}
	_ handler.LengthDeferrerDataStore = store{}
	_ handler.Upload                  = tusUpload{}
)

// tusUpload implements tusd's upload with an upload.Resumable.
type tusUpload struct {
	*upload.Resumable
	store store
	state *requestState
}

// NewUpload implements handler.DataStore.
func (s store) NewUpload(ctx context.Context, info handler.FileInfo) (handler.Upload, error) {
	state := fromContext(ctx)
	length := info.Size
	if info.SizeIsDeferred {
		length = upload.UnknownLength
	}
	created, err := s.uploads.CreateResumableWith(state.ctx, state.identity.Principal, state.identity.Capability, length, state.creation.fields, state.creation.metadata)
	if err != nil {
		return nil, state.fail(err)
	}
	state.upload = created
	if state.creation.hasChunk {
		if err := state.checkBodyLength(length, 0); err != nil {
			return nil, state.fail(err)
		}
	}
	return tusUpload{Resumable: created, store: s, state: state}, nil
}

// GetUpload implements handler.DataStore. It reads the upload, which is locked. One that has
// received everything is finished first, so that no response has an offset equal to the
// length before the draft exists; one that is to be deleted need not be finished.
func (s store) GetUpload(ctx context.Context, text string) (handler.Upload, error) {
	state := fromContext(ctx)
	id, err := uuid.Parse(text)
	if err != nil {
		return nil, state.fail(errUploadNotFound)
	}
	if state.waited { // the credential may have ended meanwhile
		if err := state.reauthenticate(); err != nil {
			return nil, state.fail(err)
		}
	}
	found, err := s.find(state, id)
	if err != nil {
		return nil, state.fail(err)
	}
	if state.method != http.MethodDelete {
		if err := found.FinishReceived(state.ctx); err != nil {
			return nil, state.fail(mapError(err))
		}
	}
	state.upload = found
	if err := state.checkChunk(found.State()); err != nil {
		return nil, state.fail(err)
	}
	return tusUpload{Resumable: found, store: s, state: state}, nil
}

// find returns an upload that the caller may use. Any other is as one that does not exist.
func (s store) find(state *requestState, id uuid.UUID) (*upload.Resumable, error) {
	found, err := s.uploads.FindResumable(state.ctx, state.identity.Principal, id)
	if err != nil {
		return nil, mapError(err)
	}
	if !state.canAccess(found.State()) {
		return nil, errUploadNotFound
	}
	return found, nil
}

// mapError maps NotFound, of an upload that was ended meanwhile for example, to the error of
// every upload that does not exist.
func mapError(err error) error {
	if fault.Is(err, fault.NotFound) {
		return errUploadNotFound
	}
	return err
}

// explain returns the error of a request that was sending bytes. If the upload was ended meanwhile, it says so, whatever
// the request noticed of it: another error would make its client continue.
func (u tusUpload) explain(err error) error {
	if fault.Is(err, fault.UnsupportedType) { // this request has ended the upload
		return err
	}
	if _, findErr := u.store.uploads.FindResumable(u.state.ctx, u.state.identity.Principal, u.State().ItemID); fault.Is(findErr, fault.NotFound) {
		return errUploadEnded
	}
	return mapError(err)
}

// AsTerminatableUpload implements handler.TerminaterDataStore.
func (s store) AsTerminatableUpload(u handler.Upload) handler.TerminatableUpload {
	return u.(tusUpload) //nolint:forcetypeassert // tusd returns what this store gave it
}

// AsLengthDeclarableUpload implements handler.LengthDeferrerDataStore.
func (s store) AsLengthDeclarableUpload(u handler.Upload) handler.LengthDeclarableUpload {
	return u.(tusUpload) //nolint:forcetypeassert // tusd returns what this store gave it
}

// GetInfo implements handler.Upload. MetaData stays empty: see responseInterceptor.describe.
func (u tusUpload) GetInfo(context.Context) (handler.FileInfo, error) {
	state := u.State()
	info := handler.FileInfo{ID: state.ItemID.String(), Size: state.Length, Offset: state.Progress.Received}
	if state.Length == upload.UnknownLength {
		info.Size, info.SizeIsDeferred = 0, true
	}
	return info, nil
}

// WriteChunk implements handler.Upload. What arrived before a failure counts, unless there is
// a checksum to verify.
func (u tusUpload) WriteChunk(_ context.Context, offset int64, src io.Reader) (int64, error) {
	if u.state.body != nil {
		src = u.state.body // tusd's reader hides errors
	}
	var verify func() error
	if sum := u.state.checksum; sum != nil {
		src, verify = io.TeeReader(src, sum.digest), sum.verify
	}
	u.OnSlow(u.state.interrupt)
	n, err := u.Append(u.state.ctx, offset, src, u.state.length, verify)
	if err != nil {
		return n, u.state.fail(u.explain(err))
	}
	return n, u.state.denied()
}

// FinishUpload implements handler.Upload: it makes the draft. tusd calls it also when
// WriteChunk failed. The middleware has checked the credential at the end of the body; a
// body that was cut, with all bytes of the upload, has no end.
func (u tusUpload) FinishUpload(context.Context) error {
	if err := u.state.denied(); err != nil {
		return err
	}
	if !u.state.bodyEnded() {
		if err := u.state.reauthenticate(); err != nil {
			return u.state.fail(err)
		}
	}
	if _, err := u.Finish(u.state.ctx); err != nil {
		return u.state.fail(u.explain(err))
	}
	u.state.completed = true
	return nil
}

// DeclareLength implements handler.LengthDeclarableUpload.
func (u tusUpload) DeclareLength(_ context.Context, length int64) error {
	if err := u.Resumable.DeclareLength(u.state.ctx, length); err != nil {
		return u.state.fail(mapError(err))
	}
	return nil
}

// Terminate implements handler.TerminatableUpload.
func (u tusUpload) Terminate(context.Context) error {
	if err := u.Cancel(u.state.ctx); err != nil {
		return u.state.fail(mapError(err))
	}
	return nil
}

// GetReader implements handler.Upload. Files have URLs of their own.
func (u tusUpload) GetReader(context.Context) (io.ReadCloser, error) {
	return nil, handler.ErrNotImplemented
}
