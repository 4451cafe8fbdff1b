package upload_test

import (
	"bytes"
	"context"
	"io"
	"path"
	"testing"

	"mediastack.dev/runtime/internal/runtimetest/mediatest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/objectstore"
	"mediastack.dev/runtime/upload"
)

// watchedStore is the real store; it calls before ahead of every write, with the bytes
// that the upload has then sent, these included.
type watchedStore struct {
	*objectstore.Store
	before func(key string, sent int64)
}

func (s *watchedStore) Put(ctx context.Context, bucket, key, contentType string, body io.ReadSeeker, size int64) error {
	s.before(key, size)
	return s.Store.Put(ctx, bucket, key, contentType, body, size)
}

func (s *watchedStore) StartMultipart(ctx context.Context, bucket, key, contentType string) (media.Multipart, error) {
	s.before(key, 0)
	parts, err := s.Store.StartMultipart(ctx, bucket, key, contentType)
	return &watchedParts{Multipart: parts, store: s, key: key}, err
}

type watchedParts struct {
	media.Multipart
	store *watchedStore
	key   string
	sent  int64
}

func (p *watchedParts) Part(ctx context.Context, body io.ReadSeeker, size int64) error {
	p.sent += size
	p.store.before(p.key, p.sent)
	return p.Multipart.Part(ctx, body, size)
}

// Invariants 1 and 5: before a byte reaches S3 there is a row that knows of it, and no item names it yet. A file that is stored in one
// request is known by its writer. Parts are reserved under the cap before they are sent.
func TestUpload_RecordsAndReservesBytesBeforeItSendsThem(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"one request": 1000, "several parts": 2*upload.PartSize + 5} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := b.Tenant(1 << 30)
			writes := 0
			store := &watchedStore{Store: b.Objects, before: func(key string, sent int64) {
				writes++
				id := path.Base(path.Dir(key))
				if n := b.Number(`SELECT count(*) FROM item WHERE id = $1`, id); n != 0 {
					t.Error("an item names bytes that are not stored yet")
				}
				if _, writer, ok := media.WriterOfKey(key); ok != (size <= upload.MaxSinglePut) {
					t.Errorf("the key is %s", key)
				} else if ok {
					if n := b.Number(`SELECT count(*) FROM upload_writer WHERE number = $1 AND account_id = $2 AND since <= $3`, writer, p.Account.ID, id); n != 1 {
						t.Errorf("%s is about to be stored, and %d writers are registered", key, n)
					}
					return
				}
				if reserved := b.Number(`SELECT coalesce(sum(reserved), -1)::bigint FROM upload WHERE item_id = $1`, id); reserved < sent {
					t.Errorf("%d bytes are about to be sent, %d are reserved (-1: no row knows of them)", sent, reserved)
				}
			}}
			replica := b.Another(mediatest.Config, mediatest.Over(store))
			_, err := uploadFile(t.Context(), replica.Uploads, p, bytes.NewReader(random(size)), media.Fields{})
			must(t, err)
			if writes == 0 {
				t.Error("nothing was written")
			}
			b.Balanced(p)
		})
	}
}
