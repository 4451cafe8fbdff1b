package objectstore

import (
	"context"
	"fmt"
	"net/http"

	"github.com/minio/minio-go/v7"

	"mediastack.dev/runtime/fault"
)

// Drained is what a call of Drain did.
type Drained struct {
	// Removed counts the versions, delete markers and incomplete uploads that the store removed.
	Removed int64
	// Kept counts those that it did not remove. Denial describes the first.
	Kept   int64
	Denial string
	// Next is where the next call continues; empty when the call reached the end of the bucket.
	Next string
}

// Drain removes every version, delete marker and incomplete upload of a bucket, except for the
// owner marker. It begins after the key after and ends at the end of the bucket, when more returns
// false, or after a request that removed nothing. A missing bucket is empty. Drain does not
// check whose bucket it is: check Owner first.
func (s *Store) Drain(ctx context.Context, bucket, after string, more func() bool) (Drained, error) {
	result, err := s.drainObjects(ctx, bucket, minio.ListObjectsOptions{Recursive: true, WithVersions: true, StartAfter: after}, more)
	if isNotImplemented(err) {
		result, err = s.drainObjects(ctx, bucket, minio.ListObjectsOptions{Recursive: true, StartAfter: after}, more)
	}
	if err == nil && result.Next == "" {
		err = s.drainUploads(ctx, bucket, &result)
	}
	if err = s.classify(err, "empty bucket "+bucket); fault.Is(err, fault.NotFound) {
		return Drained{}, nil
	}
	return result, err
}

// isNotImplemented reports whether a store does not have an operation at all.
func isNotImplemented(err error) bool {
	response := minio.ToErrorResponse(err)
	return err != nil && (response.Code == "NotImplemented" || response.StatusCode == http.StatusNotImplemented)
}

// drainObjects lists the bucket and removes what is listed, with one request for each page.
func (s *Store) drainObjects(ctx context.Context, bucket string, options minio.ListObjectsOptions, more func() bool) (Drained, error) {
	listing, stop := context.WithCancel(ctx)
	defer stop()
	var result Drained
	page := make([]minio.ObjectInfo, 0, maxBulkDelete)
	previous := options.StartAfter // the last key before that of the listed version
	last := previous
	remove := func() (progress bool, err error) {
		removed, kept, denial, err := s.removeVersions(ctx, bucket, page)
		result.Removed, result.Kept, page = result.Removed+removed, result.Kept+kept, page[:0]
		if result.Denial == "" {
			result.Denial = denial
		}
		return removed > 0, err
	}
	for object := range s.client.ListObjects(listing, bucket, options) {
		if object.Err != nil {
			return result, object.Err
		}
		if object.Key != last {
			previous, last = last, object.Key
		}
		if object.Key == MarkerKey {
			continue
		}
		if page = append(page, object); len(page) < maxBulkDelete {
			continue
		}
		if progress, err := remove(); err != nil || !progress || !more() {
			result.Next = previous // further versions of the last key may follow
			return result, err
		}
	}
	if err := ctx.Err(); err != nil {
		return result, err // the listing just ends with ctx
	}
	if len(page) > 0 {
		_, err := remove()
		return result, err
	}
	return result, nil
}

// removeVersions removes a page of versions. What the store does not confirm was not removed.
func (s *Store) removeVersions(ctx context.Context, bucket string, page []minio.ObjectInfo) (removed, kept int64, denial string, err error) {
	batch := make(chan minio.ObjectInfo, len(page))
	for _, object := range page {
		batch <- minio.ObjectInfo{Key: object.Key, VersionID: object.VersionID}
	}
	close(batch)
	for result := range s.client.RemoveObjectsWithResult(ctx, bucket, batch, minio.RemoveObjectsOptions{}) {
		response := minio.ToErrorResponse(result.Err)
		switch {
		case result.Err == nil:
			removed++
		case response.Code == "" || response.StatusCode != 0 && response.StatusCode != http.StatusForbidden:
			err = result.Err // of the request, not of one version
		case denial == "":
			denial = fmt.Sprintf("%.64s for %s", response.Code, result.ObjectName)
		}
	}
	if err != nil {
		return removed, 0, "", err
	}
	kept = max(int64(len(page))-removed, 0)
	if kept > 0 && denial == "" {
		denial = "no reason for " + page[0].Key
	}
	return removed, kept, denial, nil
}

// drainUploads aborts the incomplete uploads.
func (s *Store) drainUploads(ctx context.Context, bucket string, result *Drained) error {
	err := s.eachIncomplete(ctx, bucket, "", func(upload minio.ObjectMultipartInfo) error {
		err := s.core.AbortMultipartUpload(ctx, bucket, upload.Key, upload.UploadID)
		switch {
		case err == nil:
			result.Removed++
		case minio.ToErrorResponse(err).Code == "AccessDenied":
			result.Kept++
			if result.Denial == "" {
				result.Denial = "AccessDenied for the incomplete upload of " + upload.Key
			}
		default:
			return s.ignoreMissing(err, "abort an upload in "+bucket)
		}
		return nil
	})
	if isNotImplemented(err) {
		return nil
	}
	return err
}

// RemoveDrained removes the owner marker, with its versions, and the bucket. A missing bucket is
// success. It is Conflict when the bucket is not empty, since an upload has ended meanwhile: then
// it writes the marker again, so that the next attempt knows whose bucket it is.
func (s *Store) RemoveDrained(ctx context.Context, bucket string) error {
	marker, _, err := s.readMarker(ctx, bucket)
	if err != nil && !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Conflict) {
		return err
	}
	err = s.removeMarkedBucket(ctx, bucket)
	if marker == nil || !fault.Is(err, fault.Conflict) {
		return err
	}
	if written := s.putMarker(ctx, bucket, marker); written != nil && !fault.Is(written, fault.Conflict) {
		return written
	}
	return err
}

// removeMarkedBucket removes the marker and the bucket.
func (s *Store) removeMarkedBucket(ctx context.Context, bucket string) error {
	options := minio.ListObjectsOptions{Prefix: MarkerKey, Recursive: true, WithVersions: true}
	markers, err := s.listVersions(ctx, bucket, options)
	if isNotImplemented(err) {
		options.WithVersions = false
		markers, err = s.listVersions(ctx, bucket, options)
	}
	if err := s.ignoreMissing(err, "list the owner marker of "+bucket); err != nil {
		return err
	}
	if len(markers) > 0 {
		_, kept, denial, err := s.removeVersions(ctx, bucket, markers)
		if err != nil {
			return s.ignoreMissing(err, "remove the owner marker of "+bucket)
		}
		if kept > 0 {
			return fault.WithReason(fault.New(fault.Conflict, "the object store denies the removal of the owner marker of bucket %s: %s", bucket, denial), fault.DeletionBlocked)
		}
	}
	return s.RemoveBucket(ctx, bucket)
}

// listVersions returns up to a page of versions.
func (s *Store) listVersions(ctx context.Context, bucket string, options minio.ListObjectsOptions) (versions []minio.ObjectInfo, err error) {
	listing, stop := context.WithCancel(ctx)
	defer stop()
	for object := range s.client.ListObjects(listing, bucket, options) {
		if object.Err != nil {
			return nil, object.Err
		}
		if versions = append(versions, object); len(versions) == maxBulkDelete {
			break
		}
	}
	return versions, ctx.Err()
}
