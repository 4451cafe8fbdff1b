package upload_test

import (
	"bytes"
	"crypto/sha256"
	"encoding"
	"errors"
	stdhash "hash" // another test has a variable of that name
	"io"
	"sync/atomic"
	"testing"

	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/upload"
)

// countingHash is SHA-256 that counts the bytes that it hashes.
type countingHash struct {
	stdhash.Hash
	hashed *atomic.Int64
}

// Write implements hash.Hash.
func (c countingHash) Write(p []byte) (int, error) {
	c.hashed.Add(int64(len(p)))
	return c.Hash.Write(p)
}

// MarshalBinary implements encoding.BinaryMarshaler.
func (c countingHash) MarshalBinary() ([]byte, error) {
	return c.Hash.(encoding.BinaryMarshaler).MarshalBinary()
}

// UnmarshalBinary implements encoding.BinaryUnmarshaler.
func (c countingHash) UnmarshalBinary(state []byte) error {
	return c.Hash.(encoding.BinaryUnmarshaler).UnmarshalBinary(state)
}

// countHashed returns the count of the bytes that uploads hash.
func countHashed(uploads *upload.Service) *atomic.Int64 {
	hashed := new(atomic.Int64)
	uploads.SetHash(func() stdhash.Hash { return countingHash{sha256.New(), hashed} })
	return hashed
}

func TestUpload_HashesEachByteOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.Tenant(1 << 30)
	hashed := countHashed(b.Uploads)
	for _, size := range []int{0, 1, 100_000, upload.PartSize, upload.PartSize + 1, upload.MaxSinglePut, upload.MaxSinglePut + 1, 3 * upload.PartSize, 3*upload.PartSize + 4711} {
		file := random(size)
		hashed.Store(0)
		item, err := uploadFile(t.Context(), b.Uploads, p, bytes.NewReader(file), media.Fields{})
		must(t, err)
		if got := hashed.Load(); got != int64(size) {
			t.Errorf("of %d bytes %d were hashed", size, got)
		}
		if sum := sha256.Sum256(file); !bytes.Equal(item.Objects[0].SHA256, sum[:]) {
			t.Errorf("a file of %d bytes has another hash", size)
		}
	}
}

// What a request leaves as the incomplete part is read again by the next one, which checks it: these
// bytes are hashed a second time, as they come from the object store.
func TestResumable_HashesEachByteOnceInARequest(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.Tenant(1 << 30)
	hashed := countHashed(b.Uploads)
	file := random(2*upload.PartSize + 12345)
	u, err := b.Uploads.CreateResumable(t.Context(), p, int64(len(file)), media.Fields{}, "")
	must(t, err)
	at := 0
	// An incomplete part; one that is continued; parts and an incomplete part after a body that was
	// cut; the rest.
	for _, n := range []int{1 << 20, 2 << 20, upload.PartSize + 1<<20, len(file) - upload.PartSize - 4<<20} {
		u, err = b.Uploads.FindResumable(t.Context(), p, u.State().ItemID)
		must(t, err)
		hashed.Store(0)
		again := u.State().Progress.IncompleteBytes
		var body io.Reader = bytes.NewReader(file[at : at+n])
		cut := errors.New("cut")
		if at+n < len(file) {
			body = io.MultiReader(body, failingReader{cut})
		}
		if _, err := u.Append(t.Context(), int64(at), body, -1, nil); err != nil && !errors.Is(err, cut) {
			t.Fatal(err)
		}
		at += n
		if got := hashed.Load(); got != int64(n)+again {
			t.Errorf("of %d bytes and %d of the incomplete part %d were hashed", n, again, got)
		}
	}
	item, err := u.Finish(t.Context())
	must(t, err)
	if sum := sha256.Sum256(file); !bytes.Equal(item.Objects[0].SHA256, sum[:]) {
		t.Error("the file has another hash")
	}
}

// failingReader fails.
type failingReader struct{ err error }

// Read implements io.Reader.
func (f failingReader) Read([]byte) (int, error) { return 0, f.err }
