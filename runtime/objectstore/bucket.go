package objectstore

import (
	"context"

	"github.com/minio/minio-go/v7"
)

// empty reports whether the bucket holds no object.
func (s *Store) empty(ctx context.Context, bucket string) (bool, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for object := range s.client.ListObjects(ctx, bucket, minio.ListObjectsOptions{Recursive: true, MaxKeys: 1}) {
		if object.Err != nil {
			return false, s.classify(object.Err, "list bucket "+bucket)
		}
		return false, nil //nolint:staticcheck // SA4004: one object is enough
	}
	return true, nil
}

// RemoveBucket removes an empty bucket; a missing one is success.
func (s *Store) RemoveBucket(ctx context.Context, bucket string) error {
	return s.ignoreMissing(s.client.RemoveBucket(ctx, bucket), "remove bucket "+bucket)
}

// BucketExists reports whether the bucket exists.
func (s *Store) BucketExists(ctx context.Context, bucket string) (bool, error) {
	exists, err := s.client.BucketExists(ctx, bucket)
	return exists, s.classify(err, "look for bucket "+bucket)
}
