package objectstore

import (
	"context"

	"github.com/minio/minio-go/v7"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
)

// ListIncomplete calls visit for every incomplete multipart upload, for the keys of some more
// than once, until visit returns an error, which ListIncomplete then returns. prefix is empty
// or an exact key: some stores list nothing else.
func (s *Store) ListIncomplete(ctx context.Context, bucket, prefix string, visit func(media.IncompleteUpload) error) error {
	return s.eachIncomplete(ctx, bucket, prefix, func(upload minio.ObjectMultipartInfo) error {
		return visit(media.IncompleteUpload{Key: upload.Key, Initiated: upload.Initiated})
	})
}

// AbortIncomplete implements media.ObjectRemover.
func (s *Store) AbortIncomplete(ctx context.Context, bucket, key string) error {
	err := s.eachIncomplete(ctx, bucket, key, func(upload minio.ObjectMultipartInfo) error {
		if upload.Key != key {
			return nil
		}
		return s.ignoreMissing(s.core.AbortMultipartUpload(ctx, bucket, key, upload.UploadID), "abort uploads of "+key)
	})
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// eachIncomplete calls visit for every incomplete multipart upload until visit returns an
// error, which eachIncomplete then returns. Entries without an UploadID, which OpenStack Swift
// lists, are no uploads that could be aborted; they are left out.
func (s *Store) eachIncomplete(ctx context.Context, bucket, prefix string, visit func(minio.ObjectMultipartInfo) error) error {
	listing, cancel := context.WithCancel(ctx)
	defer cancel()
	for upload := range s.client.ListIncompleteUploads(listing, bucket, prefix, true) {
		if upload.Err != nil {
			return s.classify(upload.Err, "list incomplete uploads of "+bucket)
		}
		if upload.UploadID == "" {
			continue
		}
		if err := visit(upload); err != nil {
			return err
		}
	}
	return s.classify(ctx.Err(), "list incomplete uploads of "+bucket) // the listing just ends with ctx
}
