package objectstore

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/minio/minio-go/v7"

	"mediastack.dev/runtime/media"
)

// Put stores size bytes of body under key in one request. When it returns nil, the object is
// as durable as the store makes it. body may be read again from its start and, if Put fails,
// for a while after it returned.
func (s *Store) Put(ctx context.Context, bucket, key, contentType string, body io.ReadSeeker, size int64) error {
	err := repeatPut(ctx, func() error {
		_, err := s.core.PutObject(ctx, bucket, key, body, size, "", "", minio.PutObjectOptions{
			ContentType: contentType,
			// Signed streaming uploads leave "aws-chunked" on the object in some stores.
			DisableContentSha256: true,
		})
		return err
	})
	return s.classify(err, "put "+key)
}

// Open returns a reader of length bytes of an object from offset on; a negative length reads
// to the end. The caller closes the reader.
func (s *Store) Open(ctx context.Context, bucket, key string, offset, length int64) (io.ReadCloser, error) {
	if length == 0 {
		return io.NopCloser(bytes.NewReader(nil)), nil
	}
	span, err := rangeOf(offset, length)
	if err != nil {
		return nil, err
	}
	body, err := s.openBounded(ctx, bucket, key, span)
	if err != nil {
		return nil, s.classify(err, "get "+key)
	}
	return &objectReader{ReadCloser: body, store: s, key: key}, nil
}

// objectReader maps the errors of reading an object to faults: a store that ends in the
// middle of a response is Unavailable, like one that does not respond.
type objectReader struct {
	io.ReadCloser
	store *Store
	key   string
}

// Read implements io.Reader.
func (r *objectReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = r.store.classify(err, "read "+r.key)
	}
	return n, err
}

// Stat returns the size and time of an object; NotFound when it is missing.
func (s *Store) Stat(ctx context.Context, bucket, key string) (media.ObjectInfo, error) {
	info, err := s.client.StatObject(ctx, bucket, key, minio.StatObjectOptions{})
	if err != nil {
		return media.ObjectInfo{}, s.classify(err, "stat "+key)
	}
	return media.ObjectInfo{Key: info.Key, Bytes: info.Size, Modified: info.LastModified}, nil
}

// List calls visit for every object whose key begins with prefix, in key order,
// until visit returns an error, which List then returns.
func (s *Store) List(ctx context.Context, bucket, prefix string, visit func(media.ObjectInfo) error) error {
	return s.ListAfter(ctx, bucket, prefix, "", visit)
}

// ListAfter is List for the keys that are larger than after.
func (s *Store) ListAfter(ctx context.Context, bucket, prefix, after string, visit func(media.ObjectInfo) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for info := range s.client.ListObjects(ctx, bucket, minio.ListObjectsOptions{Prefix: prefix, StartAfter: after, Recursive: true}) {
		if info.Err != nil {
			return s.classify(info.Err, "list "+bucket)
		}
		if err := visit(media.ObjectInfo{Key: info.Key, Bytes: info.Size, Modified: info.LastModified}); err != nil {
			return err
		}
	}
	return nil
}

// maxBulkDelete is the maximum number of keys in one bulk request of S3.
const maxBulkDelete = 1000

// Remove implements media.ObjectRemover. If it fails, some objects may have been removed;
// it is safe to repeat.
func (s *Store) Remove(ctx context.Context, bucket string, keys []string) error {
	if len(keys) == 1 {
		return s.ignoreMissing(s.client.RemoveObject(ctx, bucket, keys[0], minio.RemoveObjectOptions{}), "remove "+keys[0])
	}
	for len(keys) > 0 {
		n := min(len(keys), maxBulkDelete)
		batch := make(chan minio.ObjectInfo, n)
		for _, key := range keys[:n] {
			batch <- minio.ObjectInfo{Key: key}
		}
		close(batch)
		var firstErr error
		for failed := range s.client.RemoveObjects(ctx, bucket, batch, minio.RemoveObjectsOptions{}) {
			if err := s.ignoreMissing(failed.Err, "remove "+failed.ObjectName); err != nil && firstErr == nil {
				firstErr = err
			}
		}
		if firstErr != nil {
			return firstErr
		}
		keys = keys[n:]
	}
	return nil
}
