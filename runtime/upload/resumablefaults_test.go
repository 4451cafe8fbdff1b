package upload_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/runtimetest/mediatest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/upload"
)

// failingStore is the real store that fails to commit, before or after it did.
type failingStore struct {
	upload.Store
	before, after bool
}

func (s *failingStore) CommitResumable(ctx context.Context, item media.Item, by account.Actor, incompleteParts []string, notBefore time.Time) (*media.Removal, error) {
	if s.before {
		return nil, errStore
	}
	removal, err := s.Store.CommitResumable(ctx, item, by, incompleteParts, notBefore)
	if s.after && err == nil {
		return nil, errStore
	}
	return removal, err
}

func (s *failingStore) CommitUpload(ctx context.Context, item media.Item, by account.Actor) error {
	return s.commit(func() error { return s.Store.CommitUpload(ctx, item, by) })
}

func (s *failingStore) CommitStored(ctx context.Context, item media.Item, by account.Actor, writer *upload.Writer, keyID uuid.UUID) error {
	return s.commit(func() error { return s.Store.CommitStored(ctx, item, by, writer, keyID) })
}

func (s *failingStore) commit(do func() error) error {
	if s.before {
		return errStore
	}
	err := do()
	if s.after && err == nil {
		return errStore
	}
	return err
}

// Invariant 6: an upload that was not committed is not acknowledged, and leaves nothing. One whose commit was not confirmed is not
// acknowledged either, and is a draft, which the purge removes like any other one.
func TestUpload_IsNotAcknowledgedUnlessItsCommitIs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		store  failingStore
		drafts int64
	}{"the commit failed": {failingStore{before: true}, 0}, "its response is lost": {failingStore{after: true}, 1}} {
		for _, size := range []int{1000, 2 * upload.PartSize} {
			t.Run(fmt.Sprint(name, " ", size), func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				p := b.Tenant(1 << 30)
				store := c.store
				store.Store = b.Store.Uploads
				failing := b.Another(mediatest.Config, func(deps *upload.Deps) { deps.Store = &store }).Uploads
				if item, err := uploadFile(t.Context(), failing, p, bytes.NewReader(random(size)), media.Fields{}); !errors.Is(err, errStore) {
					t.Errorf("it is acknowledged: %+v, %v", item, err)
				}
				b.Counts(c.drafts, "drafts", `SELECT count(*) FROM item WHERE sealed_at IS NULL`)
				if stored := len(b.Stored(p)); int64(stored) != c.drafts {
					t.Errorf("%d objects are stored", stored)
				}
				b.Balanced(p)
			})
		}
	}
}

// Invariant 6: an upload whose bytes have all arrived is not complete before its draft
// is committed, and the next request completes it, at any replica.
func TestFinish_IsCompletedByTheNextRequestAtAnyReplica(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.Tenant(1 << 30)
	for name, store := range map[string]*failingStore{
		"the commit failed":    {Store: b.Store.Uploads, before: true},
		"its response is lost": {Store: b.Store.Uploads, after: true},
	} {
		t.Run(name, func(t *testing.T) {
			failing := b.Another(mediatest.Config, func(deps *upload.Deps) { deps.Store = store }).Uploads
			file := random(22 << 20)
			r, err := failing.CreateResumable(t.Context(), p, int64(len(file)), media.Fields{}, "")
			must(t, err)
			must(t, check.ErrorOf(r.Append(t.Context(), 0, bytes.NewReader(file), -1, nil)))
			if _, err := r.Finish(t.Context()); !errors.Is(err, errStore) || r.State().Item != nil {
				t.Fatalf("a failed commit: %v", err)
			}
			if store.before {
				again, err := failing.FindResumable(t.Context(), p, r.State().ItemID)
				must(t, err)
				if err := again.FinishReceived(t.Context()); !errors.Is(err, errStore) {
					t.Errorf("a request to the replica that still fails: %v", err)
				}
			}
			b.settled(p, b.resume(b.Uploads, p, r), file)
		})
	}
}

// Two replicas that both believe to hold the lock: the second one fails to save its progress,
// and the file is correct.
func TestResumable_KeepsOneWriterWhenALockIsLost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.Tenant(1 << 30)
	file := random(12 << 20)
	r := b.create(p, int64(len(file)))
	_, err := r.Append(t.Context(), 0, bytes.NewReader(file[:1<<20]), -1, nil)
	must(t, err)
	mine, theirs := b.resume(b.Uploads, p, r), b.resume(b.Another(mediatest.Config).Uploads, p, r)
	must(t, check.ErrorOf(mine.Append(t.Context(), 1<<20, bytes.NewReader(file[1<<20:2<<20]), -1, nil)))
	if wrote, err := theirs.Append(t.Context(), 1<<20, bytes.NewReader(make([]byte, 3<<20)), -1, nil); wrote != 0 || !fault.Is(err, fault.Conflict) {
		t.Errorf("the late writer: %d, %v", wrote, err)
	}
	// The late writer has overwritten the incomplete part: its bytes are requested again.
	mine = b.resume(b.Uploads, p, r)
	if wrote, err := mine.Append(t.Context(), 2<<20, bytes.NewReader(file[2<<20:]), -1, nil); wrote > 0 || !fault.Is(err, fault.Conflict) {
		t.Errorf("with an incomplete part of another writer: %d, %v", wrote, err)
	}
	mine = b.resume(b.Uploads, p, r)
	if got := mine.State().Progress.Received; got != 0 {
		t.Fatalf("%d bytes are reported as received", got)
	}
	must(t, check.ErrorOf(mine.Append(t.Context(), 0, bytes.NewReader(file), -1, nil)))
	must(t, check.ErrorOf(mine.Finish(t.Context())))
	b.settled(p, mine, file)
}

// The same with parts: the late writer removes the parts of the other one, or overwrites
// them. The upload starts over, and is not blocked until it expires.
func TestResumable_RestartsWhenPartsAreLost(t *testing.T) {
	t.Parallel()
	file := random(20 << 20)
	for name, lose := range map[string]func(b *harness, p account.Principal, r *upload.Resumable){
		"removed by a late writer": func(b *harness, p account.Principal, r *upload.Resumable) {
			late := b.resume(b.Another(mediatest.Config).Uploads, p, r)
			must(b.T, check.ErrorOf(b.resume(b.Uploads, p, r).Append(b.T.Context(), 0, bytes.NewReader(file[:6<<20]), -1, nil)))
			if wrote, err := late.Append(b.T.Context(), 0, bytes.NewReader(file[:7<<20]), -1, nil); wrote != 0 || !fault.Is(err, fault.Conflict) {
				b.T.Errorf("the late writer: %d, %v", wrote, err)
			}
		},
		"overwritten": func(b *harness, p account.Principal, r *upload.Resumable) {
			_, err := b.resume(b.Uploads, p, r).Append(b.T.Context(), 0, bytes.NewReader(file[:6<<20]), -1, nil)
			must(b.T, err)
			mine, late := b.resume(b.Uploads, p, r), b.resume(b.Another(mediatest.Config).Uploads, p, r)
			must(b.T, check.ErrorOf(mine.Append(b.T.Context(), 6<<20, bytes.NewReader(file[6<<20:12<<20]), -1, nil)))
			if wrote, err := late.Append(b.T.Context(), 6<<20, bytes.NewReader(file[6<<20:14<<20]), -1, nil); wrote != 0 || !fault.Is(err, fault.Conflict) {
				b.T.Errorf("the late writer: %d, %v", wrote, err)
			}
		},
		"gone from the store": func(b *harness, p account.Principal, r *upload.Resumable) {
			must(b.T, check.ErrorOf(b.resume(b.Uploads, p, r).Append(b.T.Context(), 0, bytes.NewReader(file[:6<<20]), -1, nil)))
			must(b.T, b.Objects.AbortIncomplete(b.T.Context(), p.Account.Bucket, media.ObjectKey(r.State().ItemID, media.Original)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := b.Tenant(1 << 30)
			r := b.create(p, int64(len(file)))
			lose(b, p, r)
			for try := 0; r.State().Item == nil; try++ {
				if try == 4 {
					t.Fatal("the upload is blocked")
				}
				r = b.resume(b.Uploads, p, r)
				at := r.State().Progress.Received
				if wrote, err := r.Append(t.Context(), at, bytes.NewReader(file[at:]), -1, nil); err != nil {
					if wrote != 0 || !fault.Is(err, fault.Conflict) || r.State().Progress.Received != 0 {
						t.Fatalf("parts that are lost: %d, %v", wrote, err)
					}
					continue
				}
				if _, err := r.Finish(t.Context()); err != nil && (!fault.Is(err, fault.Conflict) || r.State().Progress.Received != 0) {
					t.Fatalf("finished without its parts: %v", err)
				}
			}
			b.settled(p, r, file)
		})
	}
}

// A replica has lost the lock, and another one has received the rest and committed.
func TestResumable_LateWriterLeavesNothingAfterTheCommit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.Tenant(1 << 30)
	file := random(12 << 20)
	r := b.create(p, int64(len(file)))
	late := b.resume(b.Another(mediatest.Config).Uploads, p, r)
	_, err := r.Append(t.Context(), 0, bytes.NewReader(file), -1, nil)
	must(t, err)
	must(t, check.ErrorOf(r.Finish(t.Context())))
	if wrote, err := late.Append(t.Context(), 0, bytes.NewReader(file[:6<<20]), -1, nil); wrote != 0 || !fault.Is(err, fault.Conflict) {
		t.Errorf("the late writer: %d, %v", wrote, err)
	}
	b.settled(p, r, file)
}

// S3 failed during Complete: everything was received, and the object does not exist. The next
// request reports offset 0.
func TestFinish_RestartsWhenCompletingLostTheParts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.Tenant(1 << 30)
	file := random(20 << 20)
	r := b.create(p, int64(len(file)))
	_, err := r.Append(t.Context(), 0, bytes.NewReader(file), -1, nil)
	must(t, err)
	must(t, b.Objects.AbortIncomplete(t.Context(), p.Account.Bucket, media.ObjectKey(r.State().ItemID, media.Original)))
	r = b.resume(b.Uploads, p, r)
	if r.State().Item != nil || r.State().Progress.Received != 0 {
		t.Fatalf("without its parts the upload is %+v", r.State())
	}
	must(t, check.ErrorOf(r.Append(t.Context(), 0, bytes.NewReader(file), -1, nil)))
	must(t, check.ErrorOf(r.Finish(t.Context())))
	b.settled(p, r, file)
}

// A multipart upload that was started but not recorded once stayed in S3 when the file was
// then stored with one request.
func TestResumable_UnrecordedMultipartUploadIsNotLeftInS3(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.Tenant(1 << 30)
	file := random(6 << 20)
	r := b.create(p, int64(len(file)))
	failing := b.Another(mediatest.Config, func(deps *upload.Deps) { deps.Store = &forgetfulStore{Store: b.Store.Uploads} }).Uploads
	if _, err := b.resume(failing, p, r).Append(t.Context(), 0, bytes.NewReader(file[:11<<19]), -1, nil); !errors.Is(err, errStore) {
		t.Fatalf("progress that can't be saved: %v", err)
	}
	r = b.resume(b.Uploads, p, r)
	must(t, check.ErrorOf(r.Append(t.Context(), 0, bytes.NewReader(file), -1, nil)))
	must(t, check.ErrorOf(r.Finish(t.Context())))
	b.settled(p, r, file)
}

// An incomplete part that was stored, but not recorded before the runtime was killed, once
// stayed in S3 when the file then had none. A crash run found it.
func TestResumable_UnrecordedIncompletePartIsNotLeftInS3(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.Tenant(1 << 30)
	file := random(3000)
	r := b.create(p, int64(len(file)))
	failing := b.Another(mediatest.Config, func(deps *upload.Deps) { deps.Store = &forgetfulStore{Store: b.Store.Uploads, incompleteOnly: true} }).Uploads
	if _, err := b.resume(failing, p, r).Append(t.Context(), 0, bytes.NewReader(file[:1000]), -1, nil); !errors.Is(err, errStore) {
		t.Fatalf("an incomplete part that can't be recorded: %v", err)
	}
	if left := b.Stored(p); len(left) != 1 {
		t.Fatalf("the incomplete part was not stored: %v", left)
	}
	r = b.resume(b.Uploads, p, r)
	must(t, check.ErrorOf(r.Append(t.Context(), 0, bytes.NewReader(file), -1, nil)))
	must(t, check.ErrorOf(r.Finish(t.Context())))
	b.settled(p, r, file)
}

// forgetfulStore is the real store that fails to save progress, or only that with incomplete
// parts.
type forgetfulStore struct {
	upload.Store
	incompleteOnly bool
}

func (s *forgetfulStore) SaveProgress(ctx context.Context, id uuid.UUID, before int64, progress upload.Progress, expires time.Time) error {
	if s.incompleteOnly && progress.IncompleteBytes == 0 {
		return s.Store.SaveProgress(ctx, id, before, progress, expires)
	}
	return errStore
}

// A request that is canceled loses at most what was not reported yet; what was reported is in
// the file.
func TestResumable_ContinuesAfterACrashBetweenParts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.Tenant(1 << 30)
	for _, size := range []int{16<<20 + 10, 30 << 20, 33 << 20} {
		file := random(size)
		r := b.create(p, int64(size))
		ctx, die := context.WithCancel(t.Context())
		body := io.MultiReader(bytes.NewReader(file), readerFunc(func([]byte) (int, error) { die(); return 0, io.EOF }))
		if _, err := r.Append(ctx, 0, body, -1, nil); err == nil {
			t.Fatal("the request was not canceled")
		}
		r = b.resume(b.Another(mediatest.Config).Uploads, p, r)
		if r.State().Item == nil {
			at := r.State().Progress.Received
			if at < upload.PartSize {
				t.Errorf("of a full part only %d bytes are there", at)
			}
			_, err := r.Append(t.Context(), at, bytes.NewReader(file[at:]), -1, nil)
			must(t, err)
			must(t, check.ErrorOf(r.Finish(t.Context())))
		}
		b.settled(p, r, file)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
