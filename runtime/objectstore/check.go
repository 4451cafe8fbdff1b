package objectstore

import (
	"context"

	"github.com/minio/minio-go/v7"

	"mediastack.dev/runtime/consistency"
	"mediastack.dev/runtime/media"
)

var _ consistency.ObjectStore = (*Store)(nil)

// OwnerID returns the id of the account that the bucket's marker names; NotFound when
// the bucket or its marker is missing.
func (s *Store) OwnerID(ctx context.Context, bucket string) (string, error) {
	owner, err := s.Owner(ctx, bucket)
	return owner.AccountID, err
}

// BucketExists reports whether the bucket exists.
func (s *Store) BucketExists(ctx context.Context, bucket string) (bool, error) {
	exists, err := s.client.BucketExists(ctx, bucket)
	return exists, classify(err, "look for bucket "+bucket)
}

// ListIncomplete calls visit for every incomplete multipart upload, for the keys of some more
// than once, until visit returns an error, which ListIncomplete then returns. prefix is empty
// or an exact key: some stores list nothing else.
func (s *Store) ListIncomplete(ctx context.Context, bucket, prefix string, visit func(media.IncompleteUpload) error) error {
	return s.eachUnfinished(ctx, bucket, prefix, func(upload minio.ObjectMultipartInfo) error {
		return visit(media.IncompleteUpload{Key: upload.Key, Initiated: upload.Initiated})
	})
}
