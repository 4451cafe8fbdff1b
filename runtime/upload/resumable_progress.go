package upload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
)

// restore acquires an upload slot, and loads what was in memory when the last request ended.
func (r *Resumable) restore(ctx context.Context, t *transfer) error {
	if err := t.acquireUploadSlot(ctx); err != nil {
		return err
	}
	if err := r.restoreDigest(t); err != nil {
		return err
	}
	r.restoreMultipart(t)
	if r.state.Progress.IncompleteBytes > 0 {
		return r.restoreIncompletePart(ctx, t)
	}
	return nil
}

func (r *Resumable) restoreDigest(t *transfer) error {
	if len(r.state.Progress.Digest) == 0 {
		return nil
	}
	if err := t.digest.restore(r.state.Progress.Digest); err != nil {
		return fmt.Errorf("upload %s: %w", t.id, err)
	}
	return nil
}

func (r *Resumable) restoreMultipart(t *transfer) {
	if p := r.state.Progress; p.MultipartID != "" {
		t.multipart = r.service.deps.Objects.ResumeMultipart(t.scope.Bucket, t.key(media.Original), p.MultipartID, p.Parts)
	}
}

// restoreIncompletePart loads the incomplete part into the buffer. A replica that had lost
// the lock may have overwritten it: then it is discarded.
func (r *Resumable) restoreIncompletePart(ctx context.Context, t *transfer) error {
	p := r.state.Progress
	if p.IncompleteBytes > inlineLimit {
		if err := t.acquirePartSlot(ctx); err != nil {
			return err
		}
	}
	part, err := r.service.deps.Objects.Open(ctx, t.scope.Bucket, t.key(p.IncompletePart), 0, p.IncompleteBytes)
	if fault.Is(err, fault.NotFound) {
		return r.discardIncompletePart(ctx, t)
	}
	if err != nil {
		return err
	}
	defer func() { _ = part.Close() }()
	for err == nil {
		var data []byte
		data, err = t.buffer.read(part)
		t.hash(data)
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	if !bytes.Equal(t.digest.sum(), p.IncompleteHash) {
		return r.discardIncompletePart(ctx, t)
	}
	return nil
}

// discardIncompletePart removes the incomplete part from the progress, and returns the
// Conflict that makes the client send it again.
func (r *Resumable) discardIncompletePart(ctx context.Context, t *transfer) error {
	r.service.deps.Log.WarnContext(ctx, "the incomplete part of a resumable upload is lost", "item", t.id, "bytes", r.state.Progress.IncompleteBytes)
	next := r.state.Progress
	next.Received, next.IncompleteBytes, next.IncompleteHash = next.Received-next.IncompleteBytes, 0, nil
	if err := r.saveProgress(ctx, next); err != nil {
		return err
	}
	return offsetConflict(next.Received)
}

// resetProgress discards everything that was received, because S3 has lost it: a replica
// that had lost the lock may have aborted the parts, or S3 may have failed while it completed
// the object. Otherwise the upload could neither continue nor be finished. It returns the
// Conflict that makes the client start again.
func (r *Resumable) resetProgress(ctx context.Context, cause error) error {
	r.service.deps.Log.WarnContext(ctx, "the parts of a resumable upload are lost", "item", r.state.ItemID, "bytes", r.state.Progress.Received, "error", cause)
	if err := r.saveProgress(ctx, Progress{IncompletePart: r.state.Progress.IncompletePart}); err != nil {
		return err
	}
	return fault.Wrap(cause, fault.Conflict, "the upload has received 0 bytes")
}

// startMultipart reserves the file, and begins its multipart upload unless it has one. The
// multipart upload is recorded before the first part is sent.
func (r *Resumable) startMultipart(ctx context.Context, t *transfer) error {
	if err := t.reserveSize(ctx); err != nil || t.multipart != nil {
		return err
	}
	if err := r.abortOrphanedUploads(ctx, t); err != nil {
		return err
	}
	if err := t.startMultipart(ctx); err != nil {
		return err
	}
	next := r.state.Progress
	next.MultipartID = t.multipart.ID()
	err := r.saveProgress(ctx, next)
	if fault.Is(err, fault.Conflict) { // it will never be recorded
		err = errors.Join(err, t.multipart.Abort(ctx))
	}
	return err
}

// abortOrphanedUploads aborts multipart uploads that an earlier request started and could not
// record; otherwise they would never be removed.
func (r *Resumable) abortOrphanedUploads(ctx context.Context, t *transfer) error {
	return notStored(r.service.deps.Objects.AbortIncomplete(ctx, t.scope.Bucket, t.key(media.Original)))
}

// persist makes what is in the buffer durable when a request ends, if verify accepts it.
func (r *Resumable) persist(ctx context.Context, t *transfer, verify func() error) error {
	if err := t.awaitPart(); err != nil {
		return err
	}
	if verify != nil {
		if err := verify(); err != nil {
			return err
		}
	}
	if err := t.reservation.reserve(ctx, t.size); err != nil {
		return err
	}
	complete := t.size == r.state.Length
	if complete && t.multipart == nil {
		return r.persistWhole(ctx, t)
	}
	if rest := t.buffer.size; rest >= t.partSize || complete && rest > 0 {
		if err := r.startMultipart(ctx, t); err != nil {
			return err
		}
		if err := t.sendRest(ctx); err != nil {
			return err
		}
	}
	switch rest := int64(t.buffer.size); {
	case t.size == r.state.Progress.Received && rest == r.state.Progress.IncompleteBytes:
		return nil // nothing arrived, so the lease is not renewed
	case rest > 0:
		return r.persistIncompletePart(ctx, t)
	}
	return r.saveProgress(ctx, r.sentProgress(t))
}

// persistWhole stores a file of which nothing was sent before.
func (r *Resumable) persistWhole(ctx context.Context, t *transfer) error {
	if t.size >= PartSize { // an earlier request may have started a multipart upload
		if err := r.abortOrphanedUploads(ctx, t); err != nil {
			return err
		}
	}
	if err := t.putWhole(ctx); err != nil {
		return err
	}
	t.buffer.release()
	t.digest.stored = t.digest.takePart(true)
	next := r.sentProgress(t)
	next.SinglePut = true
	return r.saveProgress(ctx, next)
}

// persistIncompletePart stores the buffer, which is too little for a part, as an object of its own: the
// incomplete part. The next request loads it and continues it.
func (r *Resumable) persistIncompletePart(ctx context.Context, t *transfer) error {
	if r.state.Progress.IncompletePart == "" {
		// The first incomplete part is recorded before it is stored. Otherwise it would never be
		// removed if it could not be recorded and the rest of the file needed none.
		first := r.state.Progress
		first.IncompletePart = media.Incomplete1
		if err := r.saveProgress(ctx, first); err != nil {
			return err
		}
	}
	next := r.sentProgress(t)
	next.IncompletePart = otherIncompletePart(next.IncompletePart)
	size := int64(t.buffer.size)
	part := t.buffer.reader(t.buffer.size)
	defer func() { _ = part.Close() }()
	if err := t.put(ctx, next.IncompletePart, octetStream, part, size); err != nil {
		return err
	}
	next.Received, next.IncompleteBytes, next.IncompleteHash = t.size, size, t.digest.sum()
	return r.saveProgress(ctx, next)
}

// partSize returns the size from which the bytes of a request are sent as a part: with parts of this
// size the largest file that the upload may still become fits into the parts that are left. It is not
// less than the incomplete part.
func (r *Resumable) partSize() int {
	p := r.state.Progress
	bytesLeft, partsLeft := r.maxLength(), maxParts-1-len(p.Parts)
	for _, part := range p.Parts {
		bytesLeft -= part.Bytes
	}
	return max(partSizeFor(bytesLeft, max(1, partsLeft)), partSizeFor(p.IncompleteBytes, 1))
}

// nextPart returns how many bytes the next part has, if more than most arrive of a request of size bytes
// that begins at offset. The parts of such a request have about the same size, so none of it is stored as
// the incomplete part, and no part needs much more memory than others.
func (r *Resumable) nextPart(t *transfer, offset, size int64) (n, most int) {
	left := offset + size - (t.size - int64(t.unsent())) // unsent or to arrive
	parts := left / int64(t.partSize)
	switch whole := t.multipart == nil && r.state.Length != UnknownLength && r.state.Length <= MaxSinglePut; {
	case whole, size >= 0 && left <= MaxSinglePut: // the last part
		return t.partSize, MaxSinglePut
	case size < 0 || parts < 2: // the file may end with this part
		return t.partSize, t.partSize
	}
	n = min(MaxSinglePut, int(left/parts)/chunkSize*chunkSize)
	return n, n - 1 // more than n arrive
}

// sentProgress returns the progress if only what was sent to the object store counts.
func (r *Resumable) sentProgress(t *transfer) Progress {
	next := r.state.Progress
	next.Received, next.IncompleteBytes, next.IncompleteHash = t.size-int64(t.buffer.size), 0, nil
	next.MimeType, next.Head = t.mimeType, t.head
	next.Digest = t.digest.stored
	if t.multipart != nil {
		next.MultipartID, next.Parts = t.multipart.ID(), t.multipart.Parts()
	}
	return next
}

// saveSent saves the progress of what was sent to the object store, if there is more of it than saved.
func (r *Resumable) saveSent(ctx context.Context, t *transfer) error {
	if sent := r.sentProgress(t); sent.Received > r.state.Progress.Received {
		return r.saveProgress(ctx, sent)
	}
	return nil
}

// saveProgress replaces the progress and renews the lease, unless another request has
// advanced the upload.
func (r *Resumable) saveProgress(ctx context.Context, next Progress) error {
	expires := r.service.deps.Now().Add(r.service.cfg.ResumableTTL)
	if err := r.service.deps.Store.SaveProgress(ctx, r.state.ItemID, r.state.Progress.Received, next, expires); err != nil {
		return err
	}
	r.state.Progress, r.reservation.expires = next, expires
	return nil
}
