package objectstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/minio/minio-go/v7"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
)

var _ media.ObjectStore = (*Store)(nil)

// Put stores size bytes of body under key in one request; the object is durable, as
// far as the store promises that, when Put returns nil. body may be read again from
// its start, and, when Put fails, for a while after it returned.
func (s *Store) Put(ctx context.Context, bucket, key, contentType string, body io.ReadSeeker, size int64) error {
	_, err := s.core.PutObject(ctx, bucket, key, body, size, "", "", minio.PutObjectOptions{
		ContentType: contentType,
		// Signed streaming uploads leave "aws-chunked" on the object in some stores.
		DisableContentSha256: true,
	})
	return classify(err, "put "+key)
}

// multipart is an object that is being put part by part. It is not safe for
// concurrent use. Nothing of it is visible before Complete.
type multipart struct {
	store       *Store
	bucket, key string
	uploadID    string
	parts       []media.Part
}

// StartMultipart begins an object of unknown size. Nothing of it is visible before
// its Complete. It is tried once: a second try after an answer that was lost would
// leave an upload of which nobody knows. Whoever gets an error removes what is unfinished.
func (s *Store) StartMultipart(ctx context.Context, bucket, key, contentType string) (media.Multipart, error) {
	id, err := s.once.NewMultipartUpload(ctx, bucket, key, minio.PutObjectOptions{ContentType: contentType})
	if err != nil {
		return nil, classify(err, "begin "+key)
	}
	return &multipart{store: s, bucket: bucket, key: key, uploadID: id}, nil
}

// ResumeMultipart takes up an object that an earlier StartMultipart began. It sends nothing.
func (s *Store) ResumeMultipart(bucket, key, id string, parts []media.Part) media.Multipart {
	return &multipart{store: s, bucket: bucket, key: key, uploadID: id, parts: slices.Clone(parts)}
}

// ID is the store's name of the unfinished upload.
func (m *multipart) ID() string { return m.uploadID }

// Parts are the parts stored so far, in order.
func (m *multipart) Parts() []media.Part { return slices.Clone(m.parts) }

// Part stores the next part. All parts but the last are of 5 MiB or more. What
// Put says of body holds here too.
func (m *multipart) Part(ctx context.Context, body io.ReadSeeker, size int64) error {
	number := len(m.parts) + 1
	part, err := m.store.core.PutObjectPart(ctx, m.bucket, m.key, m.uploadID, number,
		body, size, minio.PutObjectPartOptions{DisableContentSha256: true})
	if err != nil {
		// A store that does not take the body of what it refuses ends the connection, and
		// its answer is lost: it is asked in another way.
		if minio.ToErrorResponse(err).Code == "" && ctx.Err() == nil {
			if lost := m.lookAtParts(ctx); lost != nil {
				return lost
			}
		}
		return m.judge(err, "put a part of "+m.key)
	}
	m.parts = append(m.parts, media.Part{ETag: part.ETag, Bytes: size})
	return nil
}

// Complete makes the object from its parts; it is durable when Complete returns nil.
// It can be repeated. The store's word is not enough: one that was killed while it
// joined the parts has answered a repeated request with success, and had no object; Ceph
// RGW refuses with an internal error what was completed before, and what is gone. So
// after every answer the object is looked at, and after a refusal the parts are, too.
func (m *multipart) Complete(ctx context.Context, contentType string) error {
	parts := make([]minio.CompletePart, len(m.parts))
	want := int64(0)
	for i, part := range m.parts {
		parts[i] = minio.CompletePart{PartNumber: i + 1, ETag: part.ETag}
		want += part.Bytes
	}
	_, answer := m.store.core.CompleteMultipartUpload(ctx, m.bucket, m.key, m.uploadID, parts,
		minio.PutObjectOptions{ContentType: contentType})
	refused := m.judge(answer, "complete "+m.key)
	if refused != nil && minio.ToErrorResponse(answer).Code == "" {
		return refused // there was no answer: nobody knows what the store does yet
	}
	var lost error
	stored, missing := m.store.Stat(ctx, m.bucket, m.key)
	if refused != nil && fault.Is(missing, fault.NotFound) {
		if lost = m.lookAtParts(ctx); lost != nil {
			// Another request may have joined them between the two looks.
			stored, missing = m.store.Stat(ctx, m.bucket, m.key)
		}
	}
	switch {
	case missing != nil && !fault.Is(missing, fault.NotFound):
		return missing
	case missing != nil && lost != nil:
		return lost
	case missing != nil && refused != nil:
		return refused
	case missing != nil || stored.Bytes != want:
		return fault.Wrap(fmt.Errorf("s3: complete %s: the store holds %d bytes of %d: %w", m.key, stored.Bytes, want, errors.Join(refused, missing, media.ErrPartsLost)),
			fault.Unavailable, notKept)
	}
	return nil
}

// lookAtParts returns an error with media.ErrPartsLost if the store does not know the
// upload any more. It returns nil if the store knows it, and if nobody can tell.
func (m *multipart) lookAtParts(ctx context.Context) error {
	if _, err := m.store.core.ListObjectParts(ctx, m.bucket, m.key, m.uploadID, 0, 1); gone(err) {
		return m.judge(err, "list the parts of "+m.key)
	}
	return nil
}

// judge is classify that knows when the parts are lost.
func (m *multipart) judge(err error, what string) error {
	if gone(err) || minio.ToErrorResponse(err).Code == minio.InvalidPart {
		return fault.Wrap(errors.Join(media.ErrPartsLost, classify(err, what)), fault.Unavailable, notKept)
	}
	return classify(err, what)
}

// gone reports whether the error says that a multipart upload does not exist. Ceph RGW
// says NoSuchKey where others say NoSuchUpload.
func gone(err error) bool {
	code := minio.ToErrorResponse(err).Code
	return code == minio.NoSuchUpload || code == minio.NoSuchKey
}

// notKept is what is said of bytes that the store had taken.
const notKept = "the object store did not keep the file"

// Abort removes the parts that were put.
func (m *multipart) Abort(ctx context.Context) error {
	return ignoreMissing(m.store.core.AbortMultipartUpload(ctx, m.bucket, m.key, m.uploadID), "abort "+m.key)
}

// Open reads length bytes of an object from offset on; length below 0 reads to the
// end. The caller closes the reader.
func (s *Store) Open(ctx context.Context, bucket, key string, offset, length int64) (io.ReadCloser, error) {
	options := minio.GetObjectOptions{}
	var err error
	switch {
	case length == 0:
		return io.NopCloser(bytes.NewReader(nil)), nil
	case length > 0:
		err = options.SetRange(offset, offset+length-1)
	case offset > 0:
		err = options.SetRange(offset, 0)
	}
	if err != nil {
		return nil, err
	}
	body, _, _, err := s.core.GetObject(ctx, bucket, key, options)
	if err != nil {
		return nil, classify(err, "get "+key)
	}
	return &objectReader{ReadCloser: body, key: key}, nil
}

// objectReader classifies the errors of reading an object: a store that is killed in the
// middle of an answer is Unavailable, like one that does not answer.
type objectReader struct {
	io.ReadCloser
	key string
}

// Read implements io.Reader.
func (r *objectReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = classify(err, "read "+r.key)
	}
	return n, err
}

// Stat describes an object; NotFound when it is missing.
func (s *Store) Stat(ctx context.Context, bucket, key string) (media.ObjectInfo, error) {
	info, err := s.client.StatObject(ctx, bucket, key, minio.StatObjectOptions{})
	if err != nil {
		return media.ObjectInfo{}, classify(err, "stat "+key)
	}
	return media.ObjectInfo{Key: info.Key, Bytes: info.Size, Modified: info.LastModified}, nil
}

// List calls visit for every object whose key begins with prefix, in key order,
// until visit returns an error, which List then returns.
func (s *Store) List(ctx context.Context, bucket, prefix string, visit func(media.ObjectInfo) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for info := range s.client.ListObjects(ctx, bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
		if info.Err != nil {
			return classify(info.Err, "list "+bucket)
		}
		if err := visit(media.ObjectInfo{Key: info.Key, Bytes: info.Size, Modified: info.LastModified}); err != nil {
			return err
		}
	}
	return nil
}

// removeTogether is S3's limit of keys in one bulk removal.
const removeTogether = 1000

// Remove removes the keys; missing ones, and a missing bucket, are success. On an
// error some may be gone already; removing again is safe.
func (s *Store) Remove(ctx context.Context, bucket string, keys []string) error {
	if len(keys) == 1 {
		return ignoreMissing(s.client.RemoveObject(ctx, bucket, keys[0], minio.RemoveObjectOptions{}), "remove "+keys[0])
	}
	for len(keys) > 0 {
		n := min(len(keys), removeTogether)
		batch := make(chan minio.ObjectInfo, n)
		for _, key := range keys[:n] {
			batch <- minio.ObjectInfo{Key: key}
		}
		close(batch)
		var first error
		for failed := range s.client.RemoveObjects(ctx, bucket, batch, minio.RemoveObjectsOptions{}) {
			if err := ignoreMissing(failed.Err, "remove "+failed.ObjectName); err != nil && first == nil {
				first = err
			}
		}
		if first != nil {
			return first
		}
		keys = keys[n:]
	}
	return nil
}

// AbortIncomplete aborts every unfinished multipart upload of exactly this key; a
// missing bucket is success.
func (s *Store) AbortIncomplete(ctx context.Context, bucket, key string) error {
	err := s.eachUnfinished(ctx, bucket, key, func(upload minio.ObjectMultipartInfo) error {
		if upload.Key != key {
			return nil
		}
		return ignoreMissing(s.core.AbortMultipartUpload(ctx, bucket, key, upload.UploadID), "abort uploads of "+key)
	})
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// eachUnfinished calls visit for every unfinished multipart upload until visit returns an
// error, which eachUnfinished then returns. An entry without an UploadID is no upload that
// anybody could abort (OpenStack Swift lists such entries); it is left out.
func (s *Store) eachUnfinished(ctx context.Context, bucket, prefix string, visit func(minio.ObjectMultipartInfo) error) error {
	listing, stop := context.WithCancel(ctx)
	defer stop()
	for upload := range s.client.ListIncompleteUploads(listing, bucket, prefix, true) {
		if upload.Err != nil {
			return classify(upload.Err, "list unfinished uploads of "+bucket)
		}
		if upload.UploadID == "" {
			continue
		}
		if err := visit(upload); err != nil {
			return err
		}
	}
	return classify(ctx.Err(), "list unfinished uploads of "+bucket) // the listing just ends with it
}
