package objectstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/uuid"
	"github.com/minio/minio-go/v7"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/installation"
)

// errNoConditionalPut is wrapped by the error for a store without conditional puts. Without
// them two accounts could claim one bucket (docs/decisions/0010).
var errNoConditionalPut = errors.New("If-None-Match: * is not supported, or is ignored")

func noConditionalPut(cause error) error {
	return fault.WithReason(fault.Wrap(errors.Join(errNoConditionalPut, cause), fault.Unavailable,
		"the object store does not support conditional puts (If-None-Match: *) and cannot be used"), fault.Unsupported)
}

// putMarker puts a bucket's marker. Conflict when there is one.
func (s *Store) putMarker(ctx context.Context, bucket string, marker []byte) error {
	options := minio.PutObjectOptions{ContentType: "application/json", DisableContentSha256: true}
	options.SetMatchETagExcept("*")
	err := repeatPut(ctx, func() error {
		_, err := s.client.PutObject(ctx, bucket, MarkerKey, bytes.NewReader(marker), int64(len(marker)), options)
		return err
	})
	if minio.ToErrorResponse(err).StatusCode == http.StatusNotImplemented {
		return noConditionalPut(fmt.Errorf("s3: mark bucket %s: %w", bucket, err))
	}
	return s.classify(err, "mark bucket "+bucket)
}

// replaceMarker replaces the version of a marker that was read. Conflict when it has changed
// since. A store without If-Match replaces whatever there is: two databases that write to it are
// then found one heartbeat later. It does not repeat the request: a put that had succeeded would
// conflict with itself.
func (s *Store) replaceMarker(ctx context.Context, bucket string, marker installation.Marker) error {
	text, err := json.Marshal(marker)
	if err != nil {
		return err
	}
	put := func(options minio.PutObjectOptions) error {
		options.ContentType, options.DisableContentSha256 = "application/json", true
		_, err := s.noRetry.Client.PutObject(ctx, bucket, MarkerKey, bytes.NewReader(text), int64(len(text)), options)
		return err
	}
	var conditional minio.PutObjectOptions
	conditional.SetMatchETag(marker.Version)
	err = put(conditional)
	if s.withoutIfMatch(ctx, bucket, marker, err) {
		err = put(minio.PutObjectOptions{})
	}
	return s.classify(err, "rewrite the marker of bucket "+bucket)
}

// withoutIfMatch reports whether err, of a put with If-Match, shows that the store does not support
// it: it says so, or it rejects the version that the marker still has. Ceph RGW does the latter,
// because it compares the ETag with its quotes.
func (s *Store) withoutIfMatch(ctx context.Context, bucket string, read installation.Marker, err error) bool {
	switch minio.ToErrorResponse(err).StatusCode {
	case http.StatusNotImplemented:
		return true
	case http.StatusPreconditionFailed:
		current, err := s.Marker(ctx, bucket)
		return err == nil && current.Version == read.Version
	}
	return false
}

// proveConditionalPut puts the marker of a bucket that has one again, and returns nil if the
// store rejects that. marker is the existing one, so that a store which ignores the condition
// changes nothing. The marker may be removed at the same moment; so a put that succeeds is
// repeated once.
func (s *Store) proveConditionalPut(ctx context.Context, bucket string, marker []byte) error {
	for range 2 {
		if err := s.putMarker(ctx, bucket, marker); fault.Is(err, fault.Conflict) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return noConditionalPut(fmt.Errorf("s3: bucket %s was marked twice", bucket))
}

// probeWithoutBucket puts a marker into a bucket that does not exist. A store without
// conditional puts may reject that as not implemented; any other response proves nothing.
func (s *Store) probeWithoutBucket(ctx context.Context) error {
	bucket := "mediastack-probe-" + uuid.NewString()
	err := s.putMarker(ctx, bucket, nil)
	if err == nil { // the store creates buckets implicitly
		return errors.Join(s.Remove(ctx, bucket, []string{MarkerKey}), s.RemoveBucket(ctx, bucket))
	}
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}
