package upload_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"testing"
	"time"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/internal/runtimetest/mediatest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/upload"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// harness is a database, a bucket and a replica that uses them.
type harness struct{ *mediatest.Harness }

func setup(t *testing.T) *harness {
	t.Helper()
	return &harness{mediatest.New(t)}
}

// What runs a whole upload, deletes an item with an API key, and makes a file.
var (
	uploadFile = runtimetest.Upload
	deleteItem = runtimetest.DeleteItem
	random     = runtimetest.Noise
)

// create creates a resumable upload.
func (b *harness) create(p account.Principal, length int64) *upload.Resumable {
	b.T.Helper()
	r, err := b.Uploads.CreateResumable(b.T.Context(), p, length, media.Fields{FileName: "a.bin"}, "")
	must(b.T, err)
	return r
}

// resume loads the upload, as the next request does, at any replica.
func (b *harness) resume(uploads *upload.Service, p account.Principal, r *upload.Resumable) *upload.Resumable {
	b.T.Helper()
	again, err := uploads.FindResumable(b.T.Context(), p, r.State().ItemID)
	must(b.T, err)
	must(b.T, again.FinishReceived(b.T.Context()))
	return again
}

// settled checks that an upload became an item with the content file, and left nothing else.
func (b *harness) settled(p account.Principal, r *upload.Resumable, file []byte) {
	b.T.Helper()
	item := r.State().Item
	if item == nil {
		b.T.Fatalf("the upload is not committed: %+v", r.State())
	}
	original := item.File()
	sum := sha256.Sum256(file)
	if got := b.BytesOf(p, original); !bytes.Equal(got, file) || !bytes.Equal(original.SHA256, sum[:]) || original.Bytes != int64(len(file)) {
		b.T.Errorf("the item has %d bytes, want %d", len(got), len(file))
	}
	b.Clock.Advance(2 * time.Minute)
	must(b.T, check.ErrorOf(b.Purger.Run(b.T.Context())))
	b.Balanced(p)
	b.nothingIncomplete(p)
}

func (b *harness) nothingIncomplete(p account.Principal) {
	b.T.Helper()
	must(b.T, b.Objects.ListIncomplete(b.T.Context(), p.Account.Bucket, "", func(u media.IncompleteUpload) error {
		b.T.Errorf("an incomplete upload of %s is left", u.Key)
		return nil
	}))
}

var errGone = errors.New("the client has gone")

var must = check.NoError
