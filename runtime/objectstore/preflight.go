package objectstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
	"github.com/minio/minio-go/v7"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/preflight"
)

const (
	preflightPart = "objects"
	// preflightPrefix begins the names of the buckets that a preflight creates and removes.
	preflightPrefix = "mediastack-preflight-"
	// cleanupTimeout bounds the removal of that bucket, also after the preflight was interrupted.
	cleanupTimeout = 30 * time.Second
)

// Preflight reports whether the store has what the service needs. It creates a bucket, and removes
// it again.
func (s *Store) Preflight(ctx context.Context, report *preflight.Report) {
	endpoint := s.client.EndpointURL().String()
	if err := s.Ping(ctx); err != nil {
		report.Missing(preflightPart, "%s", explain(endpoint, err))
		return
	}
	report.Works(preflightPart, "the S3 store at %s accepts the access key", endpoint)
	bucket := preflightPrefix + uuid.NewString()
	if err := s.client.MakeBucket(ctx, bucket, minio.MakeBucketOptions{Region: s.region}); err != nil {
		report.Missing(preflightPart, "no bucket can be created, and each account needs one: %s", explain(endpoint, s.classify(err, "make bucket")))
		return
	}
	report.Works(preflightPart, "buckets can be created")
	s.tryBucket(ctx, bucket, report)
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	drained, err := s.Drain(cleanup, bucket, "", func() bool { return true })
	if err == nil && drained.Kept > 0 {
		err = errors.New(drained.Denial)
	}
	if err == nil {
		err = s.RemoveDrained(cleanup, bucket)
	}
	if err != nil {
		report.Missing(preflightPart, "objects and buckets cannot be removed: %s: remove the bucket %s", explain(endpoint, err), bucket)
		return
	}
	report.Works(preflightPart, "objects, their versions and buckets can be removed")
}

// tryBucket tries what the service does with the objects of a bucket.
func (s *Store) tryBucket(ctx context.Context, bucket string, report *preflight.Report) {
	endpoint := s.client.EndpointURL().String()
	switch err := s.tryConditionalPut(ctx, bucket); {
	case errors.Is(err, errNoConditionalPut):
		report.Missing(preflightPart, "the store lacks conditional puts (If-None-Match: *), without which two accounts could own one bucket: use another store, or a newer version of it")
	case err != nil:
		report.Missing(preflightPart, "an object cannot be put: %s", explain(endpoint, err))
	default:
		report.Works(preflightPart, "conditional puts are honored")
	}
	if err := s.tryMultipart(ctx, bucket); err != nil {
		report.Missing(preflightPart, "a multipart upload fails: %s", explain(endpoint, err))
	} else {
		report.Works(preflightPart, "multipart uploads and reads of ranges")
	}
	switch versioning, err := s.client.GetBucketVersioning(ctx, bucket); {
	case err != nil:
		report.Note(preflightPart, "the store does not say whether buckets keep versions: %s", explain(endpoint, s.classify(err, "read the versioning")))
	case versioning.Enabled():
		report.Note(preflightPart, "new buckets keep versions: deleted media takes space until lifecycle rules remove its versions, or the account is deleted")
	default:
		report.Works(preflightPart, "new buckets keep no versions: deleted media frees its space")
	}
}

// tryConditionalPut returns nil if the second put of a marker is rejected.
func (s *Store) tryConditionalPut(ctx context.Context, bucket string) error {
	marker := []byte("{}")
	if err := s.putMarker(ctx, bucket, marker); err != nil {
		return err
	}
	return s.proveConditionalPut(ctx, bucket, marker)
}

// tryMultipart puts an object in parts, and reads a range of it.
func (s *Store) tryMultipart(ctx context.Context, bucket string) error {
	const key, text = "media/preflight", "preflight"
	upload, err := s.StartMultipart(ctx, bucket, key, "text/plain")
	if err != nil {
		return err
	}
	if err := upload.Part(ctx, bytes.NewReader([]byte(text)), int64(len(text))); err != nil {
		return err
	}
	if err := upload.Complete(ctx, "text/plain"); err != nil {
		return err
	}
	body, err := s.Open(ctx, bucket, key, 3, 3)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	got, err := io.ReadAll(body)
	if err == nil && string(got) != text[3:6] {
		err = fmt.Errorf("a read of a range returned %d other bytes", len(got))
	}
	return err
}

// explain says what an administrator can do about an error of the store.
func explain(endpoint string, err error) string {
	found := fault.From(err)
	switch found.Reason { //nolint:exhaustive // the others do not come from the store
	case fault.Credentials:
		return fmt.Sprintf("the store at %s rejects the credentials (%s): check SERVICE_S3_ACCESS_KEY, SERVICE_S3_SECRET_KEY, and what the key may do", endpoint, found.Detail)
	case fault.Region:
		return fmt.Sprintf("the store at %s expects another region (%s): correct SERVICE_S3_REGION", endpoint, found.Detail)
	case fault.Clock:
		return fmt.Sprintf("the store at %s rejects the time of the request (%s): correct the clock of this machine, or that of the store", endpoint, found.Detail)
	case fault.StoreFull:
		return fmt.Sprintf("the store is full, or allows no more buckets (%s)", found.Detail)
	}
	reason := preflight.Cause(err)
	if response := minio.ToErrorResponse(reason); response.StatusCode != 0 {
		return fmt.Sprintf("%s answers %d %s", endpoint, response.StatusCode, response.Code)
	}
	return fmt.Sprintf("%s cannot be reached: %v: check SERVICE_S3_ENDPOINT, and networkPolicy.s3 of the chart", endpoint, reason)
}
