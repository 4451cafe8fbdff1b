package upload_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"
	"time"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/runtimetest/mediatest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/upload"
)

func TestResumable_AcceptsPiecesOfAnySize(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.Tenant(1 << 30)
	other := b.Another(mediatest.Config) // requests alternate between the replicas
	random4 := rand.New(rand.NewPCG(4, 4))
	for name, c := range map[string]struct {
		size  int
		piece func() int
	}{
		"empty":                          {0, func() int { return 1 }},
		"one small request":              {1000, func() int { return 1000 }},
		"bytes":                          {9, func() int { return 1 }},
		"small pieces of a small file":   {3 << 20, func() int { return 1 << 20 }},
		"exactly a part":                 {upload.PartSize, func() int { return upload.PartSize }},
		"pieces below the least part":    {18 << 20, func() int { return 3 << 20 }},
		"pieces of parts":                {2*upload.PartSize + 1, func() int { return upload.PartSize }},
		"one large request":              {40<<20 + 3, func() int { return 1 << 30 }},
		"pieces of any size":             {30 << 20, func() int { return 1 + random4.IntN(9<<20) }},
		"a last piece of the least part": {21 << 20, func() int { return 16 << 20 }},
	} {
		t.Run(name, func(t *testing.T) {
			file := random(c.size)
			r := b.create(p, int64(c.size))
			for at, n := 0, 0; at < c.size; n++ {
				r = b.resume([]*upload.Service{b.Uploads, other.Uploads}[n%2], p, r)
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
			must(t, check.ErrorOf(r.Finish(t.Context())))
			b.settled(p, r, file)
			if again := b.resume(other.Uploads, p, r); again.State().Item == nil || again.State().Item.ID != r.State().ItemID {
				t.Error("after it was completed, the upload is not complete")
			}
		})
	}
}

// The core compares the offset itself: bytes at another one would become part of the file.
func TestResumable_RejectsAnotherOffset(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.Tenant(1 << 30)
	file := random(2000)
	r := b.create(p, int64(len(file)))
	_, err := r.Append(t.Context(), 0, bytes.NewReader(file[:1000]), -1, nil)
	must(t, err)
	for _, offset := range []int64{0, 999, 1001} {
		if wrote, err := b.resume(b.Uploads, p, r).Append(t.Context(), offset, bytes.NewReader(random(10)), -1, nil); wrote != 0 || !fault.Is(err, fault.Conflict) {
			t.Errorf("at offset %d: %d bytes, %v", offset, wrote, err)
		}
	}
	r = b.resume(b.Uploads, p, r)
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
	p := b.Tenant(1 << 30)
	file := random(25 << 20)
	for _, cut := range []int{1, 4 << 20, 6 << 20, upload.PartSize, upload.PartSize + 1, upload.MaxSinglePut + 1, 2 * upload.PartSize, 24 << 20} {
		r := b.create(p, int64(len(file)))
		broken := io.MultiReader(bytes.NewReader(file[:cut]), iotest.ErrReader(errGone))
		wrote, err := r.Append(t.Context(), 0, broken, -1, nil)
		if !errors.Is(err, errGone) || wrote != int64(cut) {
			t.Fatalf("cut at %d: %d bytes, %v", cut, wrote, err)
		}
		r = b.resume(b.Uploads, p, r)
		must(t, check.ErrorOf(r.Append(t.Context(), wrote, bytes.NewReader(file[wrote:]), -1, nil)))
		must(t, check.ErrorOf(r.Finish(t.Context())))
		b.settled(p, r, file)
	}
}

// Bytes that do not match their checksum are discarded.
func TestResumable_DiscardsBytesWithAWrongChecksum(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.Tenant(1 << 30)
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
		r = b.resume(b.Uploads, p, r)
	}
	must(t, check.ErrorOf(r.Append(t.Context(), 1000, bytes.NewReader(file[1000:]), -1, func() error { return nil })))
	must(t, check.ErrorOf(r.Finish(t.Context())))
	b.settled(p, r, file)
}

// S3 accepts 10,000 parts: a large file that arrived in small pieces, each stored as a part,
// could not exceed 50 GB.
func TestResumable_PartsSufficeForTheLargestFile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.Tenant(200 << 30)
	p.Account.MaxUploadSize = upload.MaxFile
	for name, c := range map[string]struct{ length, part int64 }{
		"a file of any size":   {upload.UnknownLength, 33 << 18}, // from 8 MiB on, in steps of 256 KiB
		"a large file":         {60 << 30, 25 << 18},
		"a file like others":   {1 << 30, 5 << 20},
		"the largest of those": {48 << 30, 5 << 20},
	} {
		r := b.create(p, c.length)
		for at, piece := int64(0), int64(5<<20); len(r.State().Progress.Parts) == 0; at += piece {
			must(t, check.ErrorOf(b.resume(b.Uploads, p, r).Append(t.Context(), at, bytes.NewReader(random(int(piece))), -1, nil)))
			if r = b.resume(b.Uploads, p, r); at > 20<<20 {
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
	p := b.Tenant(1 << 30)
	for _, size := range []int{10, 3 << 20, 20 << 20} {
		r := b.create(p, 1<<25)
		must(t, check.ErrorOf(r.Append(t.Context(), 0, bytes.NewReader(random(size)), -1, nil)))
	}
	kept := b.create(p, 1<<25)
	b.Clock.Advance(mediatest.Config.ResumableTTL - time.Minute)
	_, err := b.resume(b.Uploads, p, kept).Append(t.Context(), 0, bytes.NewReader(random(100)), -1, nil)
	must(t, err)
	b.Clock.Advance(mediatest.PurgeConfig.UploadGrace + 2*time.Minute)
	for range 2 {
		must(t, check.ErrorOf(b.Purger.Run(t.Context())))
	}
	b.Counts(1<<25, "bytes are reserved for the one running upload", `SELECT bytes FROM account_usage WHERE account_id = $1`, p.Account.ID)
	b.Counts(1, "uploads exist", `SELECT count(*) FROM resumable_upload`)
	must(t, b.resume(b.Uploads, p, kept).Cancel(t.Context()))
	b.Clock.Advance(2 * mediatest.Config.ResumableTTL)
	must(t, check.ErrorOf(b.Purger.Run(t.Context())))
	if left := b.Stored(p); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	b.Balanced(p)
	b.nothingIncomplete(p)
	b.Counts(0, "uploads exist", `SELECT count(*) FROM resumable_upload`)
}

// The purge frees the storage of every upload that returns NotFound, also of one whose
// length was declared late, which once extended the lease but not the expiry.
func TestResumable_ExpiresAtTheSecondOfUploadExpires(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.Tenant(1 << 30)
	r := b.create(p, upload.UnknownLength)
	b.Clock.Advance(mediatest.Config.ResumableTTL - time.Hour)
	must(t, r.DeclareLength(t.Context(), 10))
	b.Clock.Advance(2 * time.Hour)
	if again := b.resume(b.Uploads, p, r); !again.State().Expires.Equal(r.State().Expires) {
		t.Errorf("one call returns %s, the next %s", r.State().Expires, again.State().Expires)
	}
	expires := r.State().Expires.Truncate(time.Second)
	b.Clock.Advance(expires.Sub(b.Clock.Now()) - time.Nanosecond)
	b.resume(b.Uploads, p, r)
	b.Clock.Advance(time.Nanosecond)
	for name, replica := range map[string]mediatest.Replica{"here": b.Replica, "another replica": b.Another(mediatest.Config)} {
		if _, err := replica.Uploads.FindResumable(t.Context(), p, r.State().ItemID); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	b.Clock.Advance(mediatest.PurgeConfig.UploadGrace + time.Second)
	must(t, check.ErrorOf(b.Purger.Run(t.Context())))
	b.Counts(0, "bytes are used after the purge", `SELECT bytes FROM account_usage WHERE account_id = $1`, p.Account.ID)
}

func TestResumable_OfAnotherAppIsNotFound(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, otherTenant := b.Tenant(1<<30), b.Tenant(1<<30)
	r := b.create(p, 10)
	if _, err := b.Uploads.FindResumable(t.Context(), otherTenant, r.State().ItemID); !fault.Is(err, fault.NotFound) {
		t.Errorf("another tenant: %v", err)
	}
	// An item that was not a resumable upload has no state here.
	plain := b.Upload(p, random(10), media.Fields{})
	if _, err := b.Uploads.FindResumable(t.Context(), p, plain.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("an item: %v", err)
	}
}

func TestResumable_HoldsCapAndLength(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.Tenant(30 << 20)
	if _, err := b.Uploads.CreateResumable(t.Context(), p, 31<<20, media.Fields{}, ""); !fault.Is(err, fault.QuotaExceeded) {
		t.Errorf("over the cap: %v", err)
	}
	if _, err := b.Uploads.CreateResumable(t.Context(), p, p.Account.MaxUploadSize+1, media.Fields{}, ""); !fault.Is(err, fault.TooLarge) {
		t.Errorf("over the size: %v", err)
	}
	b.Counts(0, "rows of rejected uploads", `SELECT (SELECT count(*) FROM upload) + (SELECT count(*) FROM resumable_upload)`)
	// An upload of unknown length reserves as it grows.
	file := random(18 << 20)
	r := b.create(p, upload.UnknownLength)
	_, err := r.Append(t.Context(), 0, bytes.NewReader(file[:17<<20]), -1, nil)
	must(t, err)
	if held := b.Number(`SELECT bytes FROM account_usage WHERE account_id = $1`, p.Account.ID); held != 17<<20 {
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
	r = b.resume(b.Uploads, p, r)
	must(t, check.ErrorOf(r.Append(t.Context(), 17<<20, bytes.NewReader(file[17<<20:]), -1, nil)))
	must(t, check.ErrorOf(r.Finish(t.Context())))
	b.settled(p, r, file)
	if err := r.Cancel(t.Context()); !fault.Is(err, fault.Conflict) {
		t.Errorf("ending a complete upload: %v", err)
	}
	if wrote, err := r.Append(t.Context(), int64(len(file)), bytes.NewReader([]byte("x")), -1, nil); wrote != 0 || !fault.Is(err, fault.Conflict) {
		t.Errorf("writing to a complete upload: %d, %v", wrote, err)
	}
}

// The last bytes may be in an incomplete part, which was not assembled by the request that
// received them: the upload must not be finished without it. A length that is declared after
// the last byte is the simplest such case.
func TestResumable_IncompletePartIsPartOfTheFile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.Tenant(1 << 30)
	for _, size := range []int{1000, 16<<20 + 10, 18 << 20} {
		file := random(size)
		r := b.create(p, upload.UnknownLength)
		must(t, check.ErrorOf(r.Append(t.Context(), 0, bytes.NewReader(file), -1, nil)))
		must(t, r.DeclareLength(t.Context(), int64(size)))
		b.settled(p, b.resume(b.Uploads, p, r), file)
	}
}
