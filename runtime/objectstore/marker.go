package objectstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"
	"github.com/minio/minio-go/v7"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/installation"
)

// MarkerKey is the key of the object that names the owner of the bucket. It is not media: it
// counts towards no total.
const MarkerKey = "_mediastack/owner.json"

// maxMarker bounds what is read of a marker, in bytes.
const maxMarker = 4096

// Owner is the account that owns a bucket, as the bucket's marker names it.
type Owner struct {
	AccountID      string
	Namespace      string
	Name           string
	InstallationID uuid.UUID
}

// String names the owner in messages.
func (o Owner) String() string {
	return fmt.Sprintf("account %s (%s/%s) of installation %s", o.AccountID, o.Namespace, o.Name, o.InstallationID)
}

func ownerOf(m installation.Marker) Owner {
	return Owner{AccountID: m.AccountID, Namespace: m.Namespace, Name: m.Name, InstallationID: m.InstallationID}
}

// Owner reads the marker; NotFound when the bucket or its marker is missing.
func (s *Store) Owner(ctx context.Context, bucket string) (Owner, error) {
	marker, err := s.Marker(ctx, bucket)
	return ownerOf(marker), err
}

// Marker implements installation.Markers.
func (s *Store) Marker(ctx context.Context, bucket string) (installation.Marker, error) {
	_, marker, err := s.readMarker(ctx, bucket)
	return marker, err
}

// WriteWitness implements installation.Markers.
func (s *Store) WriteWitness(ctx context.Context, bucket string, read installation.Marker, witness installation.Witness) error {
	next := read
	next.Witness = witness
	return s.replaceMarker(ctx, bucket, next)
}

// readMarker returns the marker as it is stored, and its content.
func (s *Store) readMarker(ctx context.Context, bucket string) (text []byte, marker installation.Marker, err error) {
	object, info, _, err := s.core.GetObject(ctx, bucket, MarkerKey, minio.GetObjectOptions{})
	if err != nil {
		return nil, marker, s.classify(err, "read the owner of bucket "+bucket)
	}
	defer func() { _ = object.Close() }()
	if text, err = io.ReadAll(io.LimitReader(object, maxMarker)); err != nil {
		return nil, marker, s.classify(err, "read the owner of bucket "+bucket)
	}
	if err := json.Unmarshal(text, &marker); err != nil || marker.AccountID == "" {
		return nil, installation.Marker{}, fault.Wrap(errors.Join(err, fmt.Errorf("%s is not an owner marker", MarkerKey)), fault.Conflict,
			"bucket %s has an owner marker that cannot be read", bucket)
	}
	if !marker.ValidCounters() {
		return nil, installation.Marker{}, fault.New(fault.Conflict,
			"the owner marker of bucket %s is not valid: epoch and heartbeat must be from 0 to %d; correct the object %s, or remove it and the operator writes it again", bucket, installation.MaxCounter, MarkerKey)
	}
	marker.Version = info.ETag
	if marker.ClaimedAt.IsZero() { // it was written once
		marker.ClaimedAt = info.LastModified
	}
	return text, marker, nil
}
