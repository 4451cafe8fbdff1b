package objectstore

import (
	"context"

	"github.com/minio/minio-go/v7"

	"mediastack.dev/runtime/media"
)

var _ media.CheckObjects = (*Store)(nil)

// OwnerID returns the id of the account that the bucket's marker names; NotFound when
// the bucket or its marker is missing.
func (s *Store) OwnerID(ctx context.Context, bucket string) (string, error) {
	owner, err := s.Owner(ctx, bucket)
	return owner.AccountID, err
}

// BucketExists reports whether there is such a bucket.
func (s *Store) BucketExists(ctx context.Context, bucket string) (bool, error) {
	exists, err := s.client.BucketExists(ctx, bucket)
	return exists, classify(err, "look for bucket "+bucket)
}

// ListUnfinished calls visit for every unfinished multipart upload, the keys of some
// coming more than once, until visit returns an error, which ListUnfinished then
// returns. prefix is empty or an exact key: some stores list nothing else.
func (s *Store) ListUnfinished(ctx context.Context, bucket, prefix string, visit func(media.Unfinished) error) error {
	return s.eachUnfinished(ctx, bucket, prefix, func(upload minio.ObjectMultipartInfo) error {
		return visit(media.Unfinished{Key: upload.Key, Begun: upload.Initiated})
	})
}
