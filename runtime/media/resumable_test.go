package media_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
)

// create creates a resumable upload.
func (b *harness) create(p account.Principal, length int64) *media.Resumable {
	b.t.Helper()
	r, err := b.service.CreateResumable(b.t.Context(), p, length, media.Fields{FileName: "a.bin"}, "")
	must(b.t, err)
	return r
}

// resume loads the upload, as the next request does, at any replica.
func (b *harness) resume(service *media.Service, p account.Principal, r *media.Resumable) *media.Resumable {
	b.t.Helper()
	again, err := service.FindResumable(b.t.Context(), p, r.State().ItemID)
	must(b.t, err)
	must(b.t, again.FinishReceived(b.t.Context()))
	return again
}

// settled checks that an upload became an item with the content file, and left nothing else.
func (b *harness) settled(p account.Principal, r *media.Resumable, file []byte) {
	b.t.Helper()
	item := r.State().Item
	if item == nil {
		b.t.Fatalf("the upload is not committed: %+v", r.State())
	}
	original := item.File()
	sum := sha256.Sum256(file)
	if got := b.bytesOf(p, original); !bytes.Equal(got, file) || !bytes.Equal(original.SHA256, sum[:]) || original.Bytes != int64(len(file)) {
		b.t.Errorf("the item has %d bytes, want %d", len(got), len(file))
	}
	b.clock.advance(2 * time.Minute)
	_, err := b.purger.Run(b.t.Context())
	must(b.t, err)
	b.balanced(p)
	b.nothingIncomplete(p)
}

func (b *harness) nothingIncomplete(p account.Principal) {
	b.t.Helper()
	must(b.t, b.objects.ListIncomplete(b.t.Context(), p.Account.Bucket, "", func(u media.IncompleteUpload) error {
		b.t.Errorf("an incomplete upload of %s is left", u.Key)
		return nil
	}))
}

func TestResumable_AcceptsPiecesOfAnySize(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.tenant(1 << 30)
	other := b.replica(config) // requests alternate between the replicas
	random4 := rand.New(rand.NewPCG(4, 4))
	for name, c := range map[string]struct {
		size  int
		piece func() int
	}{
		"empty":                          {0, func() int { return 1 }},
		"one small request":              {1000, func() int { return 1000 }},
		"bytes":                          {9, func() int { return 1 }},
		"small pieces of a small file":   {3 << 20, func() int { return 1 << 20 }},
		"exactly a part":                 {media.PartSize, func() int { return media.PartSize }},
		"pieces below the least part":    {18 << 20, func() int { return 3 << 20 }},
		"pieces of parts":                {2*media.PartSize + 1, func() int { return media.PartSize }},
		"one large request":              {40<<20 + 3, func() int { return 1 << 30 }},
		"pieces of any size":             {30 << 20, func() int { return 1 + random4.IntN(9<<20) }},
		"a last piece of the least part": {21 << 20, func() int { return 16 << 20 }},
	} {
		t.Run(name, func(t *testing.T) {
			file := random(c.size)
			r := b.create(p, int64(c.size))
			for at, n := 0, 0; at < c.size; n++ {
				r = b.resume([]*media.Service{b.service, other}[n%2], p, r)
				if got := r.State().Progress.Received; got != int64(at) {
					t.Fatalf("received %d of %d", got, at)
				}
				to := min(c.size, at+c.piece())
				wrote, err := r.Append(t.Context(), int64(at), bytes.NewReader(file[at:to]), -1, nil)
				must(t, err)
				if wrote != int64(to-at) {
					t.Fatalf("%d bytes of %d were accepted", wrote, to-at)
				}
				at = to
			}
			_, err := r.Finish(t.Context())
			must(t, err)
			b.settled(p, r, file)
			if again := b.resume(other, p, r); again.State().Item == nil || again.State().Item.ID != r.State().ItemID {
				t.Error("after it was completed, the upload is not complete")
			}
		})
	}
}

// The core compares the offset itself: bytes at another one would become part of the file.
func TestResumable_RejectsAnotherOffset(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.tenant(1 << 30)
	file := random(2000)
	r := b.create(p, int64(len(file)))
	_, err := r.Append(t.Context(), 0, bytes.NewReader(file[:1000]), -1, nil)
	must(t, err)
	for _, offset := range []int64{0, 999, 1001} {
		if wrote, err := b.resume(b.service, p, r).Append(t.Context(), offset, bytes.NewReader(random(10)), -1, nil); wrote != 0 || !fault.Is(err, fault.Conflict) {
			t.Errorf("at offset %d: %d bytes, %v", offset, wrote, err)
		}
	}
	r = b.resume(b.service, p, r)
	_, err = r.Append(t.Context(), 1000, bytes.NewReader(file[1000:]), -1, nil)
	must(t, err)
	_, err = r.Finish(t.Context())
	must(t, err)
	b.settled(p, r, file)
}

// The bytes that arrived before a connection broke are kept.
func TestResumable_KeepsWhatArrivedBeforeTheConnectionBroke(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.tenant(1 << 30)
	file := random(25 << 20)
	for _, cut := range []int{1, 4 << 20, 6 << 20, media.PartSize, media.PartSize + 1, media.MaxSinglePut + 1, 2 * media.PartSize, 24 << 20} {
		r := b.create(p, int64(len(file)))
		broken := io.MultiReader(bytes.NewReader(file[:cut]), iotest.ErrReader(errGone))
		wrote, err := r.Append(t.Context(), 0, broken, -1, nil)
		if !errors.Is(err, errGone) || wrote != int64(cut) {
			t.Fatalf("cut at %d: %d bytes, %v", cut, wrote, err)
		}
		r = b.resume(b.service, p, r)
		_, err = r.Append(t.Context(), wrote, bytes.NewReader(file[wrote:]), -1, nil)
		must(t, err)
		_, err = r.Finish(t.Context())
		must(t, err)
		b.settled(p, r, file)
	}
}

// Bytes that do not match their checksum are discarded.
func TestResumable_DiscardsBytesWithAWrongChecksum(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.tenant(1 << 30)
	file := random(40 << 20)
	r := b.create(p, int64(len(file)))
	_, err := r.Append(t.Context(), 0, bytes.NewReader(file[:1000]), -1, func() error { return nil })
	must(t, err)
	for _, garbage := range []int{500, 6 << 20, 39 << 20} {
		wrote, err := r.Append(t.Context(), 1000, bytes.NewReader(make([]byte, garbage)), -1, func() error { return errGone })
		if wrote != 0 || !errors.Is(err, errGone) {
			t.Errorf("bytes with a wrong checksum: %d, %v", wrote, err)
		}
		// The same if the body is cut before its checksum can be verified.
		cut := io.MultiReader(bytes.NewReader(make([]byte, garbage)), iotest.ErrReader(io.ErrUnexpectedEOF))
		if wrote, err := r.Append(t.Context(), 1000, cut, -1, func() error { return nil }); wrote != 0 || err == nil {
			t.Errorf("a body that is cut: %d, %v", wrote, err)
		}
		r = b.resume(b.service, p, r)
	}
	_, err = r.Append(t.Context(), 1000, bytes.NewReader(file[1000:]), -1, func() error { return nil })
	must(t, err)
	_, err = r.Finish(t.Context())
	must(t, err)
	b.settled(p, r, file)
}

// failingStore is the real store that fails to commit, before or after it did.
type failingStore struct {
	media.Store
	before, after bool
}

func (s *failingStore) CommitResumable(ctx context.Context, item media.Item, incompleteParts []string, notBefore time.Time) (*media.Removal, error) {
	if s.before {
		return nil, errStore
	}
	removal, err := s.Store.CommitResumable(ctx, item, incompleteParts, notBefore)
	if s.after && err == nil {
		return nil, errStore
	}
	return removal, err
}

// Invariant 6: an upload whose bytes have all arrived is not complete before its draft
// is committed, and the next request completes it, at any replica.
func TestFinish_IsCompletedByTheNextRequestAtAnyReplica(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.tenant(1 << 30)
	for name, store := range map[string]*failingStore{
		"the commit failed":    {Store: b.store, before: true},
		"its response is lost": {Store: b.store, after: true},
	} {
		t.Run(name, func(t *testing.T) {
			failing, err := media.New(config, media.Deps{Store: store, Objects: b.objects, Settings: settings.NewService(b.store),
				Now: b.clock.Now, Log: discard})
			must(t, err)
			file := random(22 << 20)
			r, err := failing.CreateResumable(t.Context(), p, int64(len(file)), media.Fields{}, "")
			must(t, err)
			_, err = r.Append(t.Context(), 0, bytes.NewReader(file), -1, nil)
			must(t, err)
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
			b.settled(p, b.resume(b.service, p, r), file)
		})
	}
}

// S3 accepts 10,000 parts: a large file that arrived in small pieces, each stored as a part,
// could not exceed 50 GB.
func TestResumable_PartsSufficeForTheLargestFile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.tenant(200 << 30)
	p.Account.MaxUploadSize = media.MaxFile
	for name, c := range map[string]struct{ length, part int64 }{
		"a file of any size":   {media.UnknownLength, 33 << 18}, // from 8 MiB on, in steps of 256 KiB
		"a large file":         {60 << 30, 25 << 18},
		"a file like others":   {1 << 30, 5 << 20},
		"the largest of those": {48 << 30, 5 << 20},
	} {
		r := b.create(p, c.length)
		for at, piece := int64(0), int64(5<<20); len(r.State().Progress.Parts) == 0; at += piece {
			_, err := b.resume(b.service, p, r).Append(t.Context(), at, bytes.NewReader(random(int(piece))), -1, nil)
			must(t, err)
			if r = b.resume(b.service, p, r); at > 20<<20 {
				t.Fatalf("%s: no part of %d bytes", name, at)
			}
		}
		if got := r.State().Progress.Parts[0].Bytes; got != c.part {
			t.Errorf("%s: the first part has %d bytes", name, got)
		}
		must(t, r.Cancel(t.Context()))
	}
}

func TestResumable_ExpiresWithoutProgressAndLeavesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.tenant(1 << 30)
	for _, size := range []int{10, 3 << 20, 20 << 20} {
		r := b.create(p, 1<<25)
		_, err := r.Append(t.Context(), 0, bytes.NewReader(random(size)), -1, nil)
		must(t, err)
	}
	kept := b.create(p, 1<<25)
	b.clock.advance(config.ResumableTTL - time.Minute)
	_, err := b.resume(b.service, p, kept).Append(t.Context(), 0, bytes.NewReader(random(100)), -1, nil)
	must(t, err)
	b.clock.advance(purgeConfig.UploadGrace + 2*time.Minute)
	for range 2 {
		_, err = b.purger.Run(t.Context())
		must(t, err)
	}
	if held := b.number(`SELECT bytes FROM account_usage WHERE account_id = $1`, p.Account.ID); held != 1<<25 {
		t.Errorf("%d bytes are reserved for the one running upload", held)
	}
	if n := b.number(`SELECT count(*) FROM resumable_upload`); n != 1 {
		t.Errorf("%d uploads exist", n)
	}
	must(t, b.resume(b.service, p, kept).Cancel(t.Context()))
	b.clock.advance(2 * config.ResumableTTL)
	_, err = b.purger.Run(t.Context())
	must(t, err)
	if left := b.stored(p); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	b.balanced(p)
	b.nothingIncomplete(p)
	if n := b.number(`SELECT count(*) FROM resumable_upload`); n != 0 {
		t.Errorf("%d uploads exist", n)
	}
}

// The purge frees the storage of every upload that returns NotFound, also of one whose
// length was declared late, which once extended the lease but not the expiry.
func TestResumable_ExpiresAtTheSecondOfUploadExpires(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.tenant(1 << 30)
	r := b.create(p, media.UnknownLength)
	b.clock.advance(config.ResumableTTL - time.Hour)
	must(t, r.DeclareLength(t.Context(), 10))
	b.clock.advance(2 * time.Hour)
	if again := b.resume(b.service, p, r); !again.State().Expires.Equal(r.State().Expires) {
		t.Errorf("one call returns %s, the next %s", r.State().Expires, again.State().Expires)
	}
	expires := r.State().Expires.Truncate(time.Second)
	b.clock.advance(expires.Sub(b.clock.Now()) - time.Nanosecond)
	b.resume(b.service, p, r)
	b.clock.advance(time.Nanosecond)
	for name, service := range map[string]*media.Service{"here": b.service, "another replica": b.replica(config)} {
		if _, err := service.FindResumable(t.Context(), p, r.State().ItemID); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	b.clock.advance(purgeConfig.UploadGrace + time.Second)
	_, err := b.purger.Run(t.Context())
	must(t, err)
	if held := b.number(`SELECT bytes FROM account_usage WHERE account_id = $1`, p.Account.ID); held != 0 {
		t.Errorf("%d bytes are used after the purge", held)
	}
}

func TestResumable_OfAnotherAppIsNotFound(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, otherTenant := b.tenant(1<<30), b.tenant(1<<30)
	r := b.create(p, 10)
	if _, err := b.service.FindResumable(t.Context(), otherTenant, r.State().ItemID); !fault.Is(err, fault.NotFound) {
		t.Errorf("another tenant: %v", err)
	}
	// An item that was not a resumable upload has no state here.
	plain := b.upload(p, random(10), media.Fields{})
	if _, err := b.service.FindResumable(t.Context(), p, plain.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("an item: %v", err)
	}
}

func TestResumable_HoldsCapAndLength(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.tenant(30 << 20)
	if _, err := b.service.CreateResumable(t.Context(), p, 31<<20, media.Fields{}, ""); !fault.Is(err, fault.QuotaExceeded) {
		t.Errorf("over the cap: %v", err)
	}
	if _, err := b.service.CreateResumable(t.Context(), p, p.Account.MaxUploadSize+1, media.Fields{}, ""); !fault.Is(err, fault.TooLarge) {
		t.Errorf("over the size: %v", err)
	}
	if n := b.number(`SELECT (SELECT count(*) FROM upload) + (SELECT count(*) FROM resumable_upload)`); n != 0 {
		t.Errorf("%d rows of rejected uploads", n)
	}
	// An upload of unknown length reserves as it grows.
	file := random(18 << 20)
	r := b.create(p, media.UnknownLength)
	_, err := r.Append(t.Context(), 0, bytes.NewReader(file[:17<<20]), -1, nil)
	must(t, err)
	if held := b.number(`SELECT bytes FROM account_usage WHERE account_id = $1`, p.Account.ID); held != 17<<20 {
		t.Errorf("%d bytes are reserved for %d", held, 17<<20)
	}
	if _, err := r.Finish(t.Context()); !fault.Is(err, fault.Conflict) {
		t.Errorf("finished without its length: %v", err)
	}
	if err := r.DeclareLength(t.Context(), 31<<20); !fault.Is(err, fault.QuotaExceeded) {
		t.Errorf("a length over the cap: %v", err)
	}
	if err := r.DeclareLength(t.Context(), 1); !fault.Is(err, fault.Invalid) {
		t.Errorf("a length below the received bytes: %v", err)
	}
	must(t, r.DeclareLength(t.Context(), int64(len(file))))
	if err := r.DeclareLength(t.Context(), int64(len(file))+1); !fault.Is(err, fault.Conflict) {
		t.Errorf("another length: %v", err)
	}
	if wrote, err := r.Append(t.Context(), 17<<20, bytes.NewReader(random(2<<20)), -1, nil); wrote != 0 || !fault.Is(err, fault.TooLarge) {
		t.Errorf("more than was declared: %d, %v", wrote, err)
	}
	r = b.resume(b.service, p, r)
	_, err = r.Append(t.Context(), 17<<20, bytes.NewReader(file[17<<20:]), -1, nil)
	must(t, err)
	_, err = r.Finish(t.Context())
	must(t, err)
	b.settled(p, r, file)
	if err := r.Cancel(t.Context()); !fault.Is(err, fault.Conflict) {
		t.Errorf("ending a complete upload: %v", err)
	}
	if wrote, err := r.Append(t.Context(), int64(len(file)), bytes.NewReader([]byte("x")), -1, nil); wrote != 0 || !fault.Is(err, fault.Conflict) {
		t.Errorf("writing to a complete upload: %d, %v", wrote, err)
	}
}

// Two replicas that both believe to hold the lock: the second one fails to save its progress,
// and the file is correct.
func TestResumable_KeepsOneWriterWhenALockIsLost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.tenant(1 << 30)
	file := random(12 << 20)
	r := b.create(p, int64(len(file)))
	_, err := r.Append(t.Context(), 0, bytes.NewReader(file[:1<<20]), -1, nil)
	must(t, err)
	mine, theirs := b.resume(b.service, p, r), b.resume(b.replica(config), p, r)
	_, err = mine.Append(t.Context(), 1<<20, bytes.NewReader(file[1<<20:2<<20]), -1, nil)
	must(t, err)
	if wrote, err := theirs.Append(t.Context(), 1<<20, bytes.NewReader(make([]byte, 3<<20)), -1, nil); wrote != 0 || !fault.Is(err, fault.Conflict) {
		t.Errorf("the late writer: %d, %v", wrote, err)
	}
	// The late writer has overwritten the incomplete part: its bytes are requested again.
	mine = b.resume(b.service, p, r)
	if wrote, err := mine.Append(t.Context(), 2<<20, bytes.NewReader(file[2<<20:]), -1, nil); wrote > 0 || !fault.Is(err, fault.Conflict) {
		t.Errorf("with an incomplete part of another writer: %d, %v", wrote, err)
	}
	mine = b.resume(b.service, p, r)
	if got := mine.State().Progress.Received; got != 0 {
		t.Fatalf("%d bytes are reported as received", got)
	}
	_, err = mine.Append(t.Context(), 0, bytes.NewReader(file), -1, nil)
	must(t, err)
	_, err = mine.Finish(t.Context())
	must(t, err)
	b.settled(p, mine, file)
}

// The same with parts: the late writer removes the parts of the other one, or overwrites
// them. The upload starts over, and is not blocked until it expires.
func TestResumable_RestartsWhenPartsAreLost(t *testing.T) {
	t.Parallel()
	file := random(20 << 20)
	for name, lose := range map[string]func(b *harness, p account.Principal, r *media.Resumable){
		"removed by a late writer": func(b *harness, p account.Principal, r *media.Resumable) {
			late := b.resume(b.replica(config), p, r)
			_, err := b.resume(b.service, p, r).Append(b.t.Context(), 0, bytes.NewReader(file[:6<<20]), -1, nil)
			must(b.t, err)
			if wrote, err := late.Append(b.t.Context(), 0, bytes.NewReader(file[:7<<20]), -1, nil); wrote != 0 || !fault.Is(err, fault.Conflict) {
				b.t.Errorf("the late writer: %d, %v", wrote, err)
			}
		},
		"overwritten": func(b *harness, p account.Principal, r *media.Resumable) {
			_, err := b.resume(b.service, p, r).Append(b.t.Context(), 0, bytes.NewReader(file[:6<<20]), -1, nil)
			must(b.t, err)
			mine, late := b.resume(b.service, p, r), b.resume(b.replica(config), p, r)
			_, err = mine.Append(b.t.Context(), 6<<20, bytes.NewReader(file[6<<20:12<<20]), -1, nil)
			must(b.t, err)
			if wrote, err := late.Append(b.t.Context(), 6<<20, bytes.NewReader(file[6<<20:14<<20]), -1, nil); wrote != 0 || !fault.Is(err, fault.Conflict) {
				b.t.Errorf("the late writer: %d, %v", wrote, err)
			}
		},
		"gone from the store": func(b *harness, p account.Principal, r *media.Resumable) {
			_, err := b.resume(b.service, p, r).Append(b.t.Context(), 0, bytes.NewReader(file[:6<<20]), -1, nil)
			must(b.t, err)
			must(b.t, b.objects.AbortIncomplete(b.t.Context(), p.Account.Bucket, media.ObjectKey(r.State().ItemID, media.Original)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := b.tenant(1 << 30)
			r := b.create(p, int64(len(file)))
			lose(b, p, r)
			for try := 0; r.State().Item == nil; try++ {
				if try == 4 {
					t.Fatal("the upload is blocked")
				}
				r = b.resume(b.service, p, r)
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
	p := b.tenant(1 << 30)
	file := random(12 << 20)
	r := b.create(p, int64(len(file)))
	late := b.resume(b.replica(config), p, r)
	_, err := r.Append(t.Context(), 0, bytes.NewReader(file), -1, nil)
	must(t, err)
	_, err = r.Finish(t.Context())
	must(t, err)
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
	p := b.tenant(1 << 30)
	file := random(20 << 20)
	r := b.create(p, int64(len(file)))
	_, err := r.Append(t.Context(), 0, bytes.NewReader(file), -1, nil)
	must(t, err)
	must(t, b.objects.AbortIncomplete(t.Context(), p.Account.Bucket, media.ObjectKey(r.State().ItemID, media.Original)))
	r = b.resume(b.service, p, r)
	if r.State().Item != nil || r.State().Progress.Received != 0 {
		t.Fatalf("without its parts the upload is %+v", r.State())
	}
	_, err = r.Append(t.Context(), 0, bytes.NewReader(file), -1, nil)
	must(t, err)
	_, err = r.Finish(t.Context())
	must(t, err)
	b.settled(p, r, file)
}

// A multipart upload that was started but not recorded once stayed in S3 when the file was
// then stored with one request.
func TestResumable_UnrecordedMultipartUploadIsNotLeftInS3(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.tenant(1 << 30)
	file := random(6 << 20)
	r := b.create(p, int64(len(file)))
	failing, err := media.New(config, media.Deps{Store: &forgetfulStore{Store: b.store}, Objects: b.objects, Settings: settings.NewService(b.store),
		Now: b.clock.Now, Log: discard})
	must(t, err)
	if _, err := b.resume(failing, p, r).Append(t.Context(), 0, bytes.NewReader(file[:11<<19]), -1, nil); !errors.Is(err, errStore) {
		t.Fatalf("progress that can't be saved: %v", err)
	}
	r = b.resume(b.service, p, r)
	_, err = r.Append(t.Context(), 0, bytes.NewReader(file), -1, nil)
	must(t, err)
	_, err = r.Finish(t.Context())
	must(t, err)
	b.settled(p, r, file)
}

// An incomplete part that was stored, but not recorded before the runtime was killed, once
// stayed in S3 when the file then had none. A crash run found it.
func TestResumable_UnrecordedIncompletePartIsNotLeftInS3(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.tenant(1 << 30)
	file := random(3000)
	r := b.create(p, int64(len(file)))
	failing, err := media.New(config, media.Deps{Store: &forgetfulStore{Store: b.store, incompleteOnly: true}, Objects: b.objects, Settings: settings.NewService(b.store),
		Now: b.clock.Now, Log: discard})
	must(t, err)
	if _, err := b.resume(failing, p, r).Append(t.Context(), 0, bytes.NewReader(file[:1000]), -1, nil); !errors.Is(err, errStore) {
		t.Fatalf("an incomplete part that can't be recorded: %v", err)
	}
	if left := b.stored(p); len(left) != 1 {
		t.Fatalf("the incomplete part was not stored: %v", left)
	}
	r = b.resume(b.service, p, r)
	_, err = r.Append(t.Context(), 0, bytes.NewReader(file), -1, nil)
	must(t, err)
	_, err = r.Finish(t.Context())
	must(t, err)
	b.settled(p, r, file)
}

// forgetfulStore is the real store that fails to save progress, or only that with incomplete
// parts.
type forgetfulStore struct {
	media.Store
	incompleteOnly bool
}

func (s *forgetfulStore) SaveProgress(ctx context.Context, id uuid.UUID, before int64, progress media.Progress, expires time.Time) error {
	if s.incompleteOnly && progress.IncompleteBytes == 0 {
		return s.Store.SaveProgress(ctx, id, before, progress, expires)
	}
	return errStore
}

// The last bytes may be in an incomplete part, which was not assembled by the request that
// received them: the upload must not be finished without it. A length that is declared after
// the last byte is the simplest such case.
func TestResumable_IncompletePartIsPartOfTheFile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.tenant(1 << 30)
	for _, size := range []int{1000, 16<<20 + 10, 18 << 20} {
		file := random(size)
		r := b.create(p, media.UnknownLength)
		_, err := r.Append(t.Context(), 0, bytes.NewReader(file), -1, nil)
		must(t, err)
		must(t, r.DeclareLength(t.Context(), int64(size)))
		b.settled(p, b.resume(b.service, p, r), file)
	}
}

// A request that is canceled loses at most what was not reported yet; what was reported is in
// the file.
func TestResumable_ContinuesAfterACrashBetweenParts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.tenant(1 << 30)
	for _, size := range []int{16<<20 + 10, 30 << 20, 33 << 20} {
		file := random(size)
		r := b.create(p, int64(size))
		ctx, die := context.WithCancel(t.Context())
		body := io.MultiReader(bytes.NewReader(file), readerFunc(func([]byte) (int, error) { die(); return 0, io.EOF }))
		if _, err := r.Append(ctx, 0, body, -1, nil); err == nil {
			t.Fatal("the request was not canceled")
		}
		r = b.resume(b.replica(config), p, r)
		if r.State().Item == nil {
			at := r.State().Progress.Received
			if at < media.PartSize {
				t.Errorf("of a full part only %d bytes are there", at)
			}
			_, err := r.Append(t.Context(), at, bytes.NewReader(file[at:]), -1, nil)
			must(t, err)
			_, err = r.Finish(t.Context())
			must(t, err)
		}
		b.settled(p, r, file)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
