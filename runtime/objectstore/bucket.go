package objectstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/minio/minio-go/v7"

	"mediastack.dev/runtime/fault"
)

// MarkerKey is the key of the object that names the owner of the bucket. It is not media: it
// counts towards no total.
const MarkerKey = "_mediastack/owner.json"

// maxMarker bounds what is read of a marker, in bytes.
const maxMarker = 4096

// Owner is the content of a bucket's marker.
type Owner struct {
	AccountID string `json:"accountID"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Claim makes bucket exist and belong to owner, and reports whether it had to write
// anything. An existing bucket without a marker is claimed only if adopt is set, and is
// otherwise a Conflict, as is the bucket of another account. Of two concurrent claims of one
// bucket exactly one succeeds, by a conditional put.
func (s *Store) Claim(ctx context.Context, bucket string, owner Owner, adopt bool) (changed bool, err error) {
	current, err := s.Owner(ctx, bucket)
	switch {
	case err == nil:
		return false, ownershipConflict(bucket, current, owner)
	case !fault.Is(err, fault.NotFound):
		return false, err
	}
	exists, err := s.client.BucketExists(ctx, bucket)
	if err != nil {
		return false, classify(err, "look for bucket "+bucket)
	}
	if exists && !adopt {
		// A crash between the creation of a bucket and that of its marker leaves an empty bucket
		// without a marker, which can be claimed.
		empty, err := s.empty(ctx, bucket)
		if err != nil {
			return false, err
		}
		if !empty {
			return false, fault.New(fault.Conflict, "bucket %s exists, holds objects and has no owner: set spec.storage.bucket.adopt to take it over", bucket)
		}
	}
	if !exists {
		err := s.client.MakeBucket(ctx, bucket, minio.MakeBucketOptions{Region: s.region})
		if code := minio.ToErrorResponse(err).Code; err != nil && code != "BucketAlreadyOwnedByYou" {
			return false, classify(err, "make bucket "+bucket)
		}
	}
	marker, err := json.Marshal(owner)
	if err != nil {
		return false, err
	}
	if err := s.putMarker(ctx, bucket, marker); fault.Is(err, fault.Conflict) {
		current, err := s.Owner(ctx, bucket)
		if err != nil {
			return false, err
		}
		return false, ownershipConflict(bucket, current, owner)
	} else if err != nil {
		return false, err
	}
	// If the store ignores the condition, another claim may have succeeded as well: then no
	// claim is valid.
	if err := s.proveConditionalPut(ctx, bucket, marker); err != nil {
		if errors.Is(err, errNoConditionalPut) {
			err = errors.Join(err, s.Remove(ctx, bucket, []string{MarkerKey}))
		}
		return false, err
	}
	return true, nil
}

// ownershipConflict returns a Conflict unless current is owner.
func ownershipConflict(bucket string, current, owner Owner) error {
	if current.AccountID == owner.AccountID {
		return nil
	}
	return fault.New(fault.Conflict, "bucket %s is owned by another account", bucket)
}

// Owner reads the marker; NotFound when the bucket or its marker is missing.
func (s *Store) Owner(ctx context.Context, bucket string) (Owner, error) {
	_, owner, err := s.readMarker(ctx, bucket)
	return owner, err
}

// readMarker returns the marker as it is stored, and its content.
func (s *Store) readMarker(ctx context.Context, bucket string) (text []byte, owner Owner, err error) {
	object, _, _, err := s.core.GetObject(ctx, bucket, MarkerKey, minio.GetObjectOptions{})
	if err != nil {
		return nil, Owner{}, classify(err, "read the owner of bucket "+bucket)
	}
	defer func() { _ = object.Close() }()
	if text, err = io.ReadAll(io.LimitReader(object, maxMarker)); err != nil {
		return nil, Owner{}, classify(err, "read the owner of bucket "+bucket)
	}
	if err := json.Unmarshal(text, &owner); err != nil || owner.AccountID == "" {
		return nil, Owner{}, fault.Wrap(errors.Join(err, fmt.Errorf("%s is not an owner marker", MarkerKey)), fault.Conflict,
			"bucket %s has an owner marker that can't be read", bucket)
	}
	return text, owner, nil
}

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

// RemoveBucket removes an empty bucket; a missing one is success.
func (s *Store) RemoveBucket(ctx context.Context, bucket string) error {
	return ignoreMissing(s.client.RemoveBucket(ctx, bucket), "remove bucket "+bucket)
}

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
