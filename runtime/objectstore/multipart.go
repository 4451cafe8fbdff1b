package objectstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/minio/minio-go/v7"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
)

// multipart is an object that is stored part by part. Nothing of it is visible before
// Complete. It is not safe for concurrent use.
type multipart struct {
	store       *Store
	bucket, key string
	uploadID    string
	parts       []media.Part
}

// StartMultipart begins an object of unknown size. The request is not retried: a retry after
// a lost response would leave an upload with an unknown id. After an error the caller calls
// AbortIncomplete.
func (s *Store) StartMultipart(ctx context.Context, bucket, key, contentType string) (media.Multipart, error) {
	id, err := s.noRetry.NewMultipartUpload(ctx, bucket, key, minio.PutObjectOptions{ContentType: contentType})
	if err != nil {
		return nil, s.classify(err, "begin "+key)
	}
	return &multipart{store: s, bucket: bucket, key: key, uploadID: id}, nil
}

// ResumeMultipart returns a multipart upload that StartMultipart began. It sends no request.
func (s *Store) ResumeMultipart(bucket, key, id string, parts []media.Part) media.Multipart {
	return &multipart{store: s, bucket: bucket, key: key, uploadID: id, parts: slices.Clone(parts)}
}

// ID returns the store's id of the upload.
func (m *multipart) ID() string { return m.uploadID }

// Parts returns the parts stored so far, in order.
func (m *multipart) Parts() []media.Part { return slices.Clone(m.parts) }

// Part stores the next part. All parts but the last have 5 MiB or more. body is read as by
// Store.Put.
func (m *multipart) Part(ctx context.Context, body io.ReadSeeker, size int64) error {
	number := len(m.parts) + 1
	part, err := m.store.core.PutObjectPart(ctx, m.bucket, m.key, m.uploadID, number,
		body, size, minio.PutObjectPartOptions{DisableContentSha256: true})
	if err != nil {
		// A store that rejects a request without reading its body ends the connection, and its
		// response is lost: then another request finds out whether the upload exists.
		if minio.ToErrorResponse(err).Code == "" && ctx.Err() == nil {
			if lost := m.checkUpload(ctx); lost != nil {
				return lost
			}
		}
		return m.classify(err, "put a part of "+m.key)
	}
	m.parts = append(m.parts, media.Part{ETag: part.ETag, Bytes: size})
	return nil
}

// Complete makes the object of its parts. It can be repeated. When it returns nil, the object
// is durable. The store's response alone does not prove that: a store that was killed while it
// completed an upload has reported success for the repeated request without an object, and
// Ceph RGW reports an internal error both for an upload that was completed before and for one
// that is gone. So Complete checks the object after every response, and the upload after an
// error.
func (m *multipart) Complete(ctx context.Context, contentType string) error {
	parts := make([]minio.CompletePart, len(m.parts))
	want := int64(0)
	for i, part := range m.parts {
		parts[i] = minio.CompletePart{PartNumber: i + 1, ETag: part.ETag}
		want += part.Bytes
	}
	_, response := m.store.core.CompleteMultipartUpload(ctx, m.bucket, m.key, m.uploadID, parts,
		minio.PutObjectOptions{ContentType: contentType})
	completeErr := m.classify(response, "complete "+m.key)
	if completeErr != nil && minio.ToErrorResponse(response).Code == "" {
		return completeErr // there was no response: the store may still be completing it
	}
	var lost error
	stored, statErr := m.store.Stat(ctx, m.bucket, m.key)
	if completeErr != nil && fault.Is(statErr, fault.NotFound) {
		if lost = m.checkUpload(ctx); lost != nil {
			// Another request may have completed it between the two checks.
			stored, statErr = m.store.Stat(ctx, m.bucket, m.key)
		}
	}
	switch {
	case statErr != nil && !fault.Is(statErr, fault.NotFound):
		return statErr
	case statErr != nil && lost != nil:
		return lost
	case statErr != nil && completeErr != nil:
		return completeErr
	case statErr != nil || stored.Bytes != want:
		return fault.Wrap(fmt.Errorf("s3: complete %s: the store holds %d bytes of %d: %w", m.key, stored.Bytes, want, errors.Join(completeErr, statErr, media.ErrPartsLost)),
			fault.Unavailable, partsLostText)
	}
	return nil
}

// checkUpload returns an error with media.ErrPartsLost if the store does not know the upload
// any more. It returns nil if the store knows it, and if that can't be found out.
func (m *multipart) checkUpload(ctx context.Context) error {
	if _, err := m.store.core.ListObjectParts(ctx, m.bucket, m.key, m.uploadID, 0, 1); isUploadGone(err) {
		return m.classify(err, "list the parts of "+m.key)
	}
	return nil
}

// classify is classify for an upload: it adds media.ErrPartsLost if the parts are lost.
func (m *multipart) classify(err error, what string) error {
	if isUploadGone(err) || minio.ToErrorResponse(err).Code == minio.InvalidPart {
		return fault.Wrap(errors.Join(media.ErrPartsLost, m.store.classify(err, what)), fault.Unavailable, partsLostText)
	}
	return m.store.classify(err, what)
}

// isUploadGone reports whether the error says that a multipart upload does not exist. Ceph RGW
// reports NoSuchKey where other stores report NoSuchUpload.
func isUploadGone(err error) bool {
	code := minio.ToErrorResponse(err).Code
	return code == minio.NoSuchUpload || code == minio.NoSuchKey
}

// partsLostText is the message about bytes that the store had accepted.
const partsLostText = "the object store has lost the parts of the upload"

// Abort removes the parts. It succeeds if there are none.
func (m *multipart) Abort(ctx context.Context) error {
	return m.store.ignoreMissing(m.store.core.AbortMultipartUpload(ctx, m.bucket, m.key, m.uploadID), "abort "+m.key)
}
