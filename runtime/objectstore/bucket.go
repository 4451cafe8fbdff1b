package objectstore

import (
	"context"

	"github.com/minio/minio-go/v7"

	"mediastack.dev/runtime/fault"
)

// empty reports whether the bucket holds no object.
func (s *Store) empty(ctx context.Context, bucket string) (bool, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for object := range s.client.ListObjects(ctx, bucket, minio.ListObjectsOptions{Recursive: true, MaxKeys: 1}) {
		if object.Err != nil {
			return false, classify(object.Err, "list bucket "+bucket)
		}
		return false, nil //nolint:staticcheck // SA4004: one object is enough
	}
	return true, nil
}

// Drain removes up to batch objects, then the incomplete uploads and the marker of the bucket,
// and reports whether the bucket is empty now. A missing bucket is empty. Drain does not check
// whose bucket it is: check Owner first.
func (s *Store) Drain(ctx context.Context, bucket string, batch int) (empty bool, err error) {
	var keys []string
	hasMarker := false
	listing, stop := context.WithCancel(ctx)
	defer stop()
	for object := range s.client.ListObjects(listing, bucket, minio.ListObjectsOptions{Recursive: true}) {
		if err := classify(object.Err, "list bucket "+bucket); fault.Is(err, fault.NotFound) {
			return true, nil
		} else if err != nil {
			return false, err
		}
		if object.Key == MarkerKey {
			hasMarker = true
			continue
		}
		if keys = append(keys, object.Key); len(keys) >= batch {
			break
		}
	}
	if len(keys) > 0 {
		return false, s.Remove(ctx, bucket, keys)
	}
	if err := s.eachIncomplete(ctx, bucket, "", func(upload minio.ObjectMultipartInfo) error {
		return classify(s.core.AbortMultipartUpload(ctx, bucket, upload.Key, upload.UploadID), "abort an upload in "+bucket)
	}); err != nil {
		return false, err
	}
	if hasMarker {
		return true, s.Remove(ctx, bucket, []string{MarkerKey})
	}
	return true, nil
}

// RemoveBucket removes an empty bucket; a missing one is success.
func (s *Store) RemoveBucket(ctx context.Context, bucket string) error {
	return ignoreMissing(s.client.RemoveBucket(ctx, bucket), "remove bucket "+bucket)
}

// BucketExists reports whether the bucket exists.
func (s *Store) BucketExists(ctx context.Context, bucket string) (bool, error) {
	exists, err := s.client.BucketExists(ctx, bucket)
	return exists, classify(err, "look for bucket "+bucket)
}
