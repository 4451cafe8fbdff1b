package installation

import (
	"context"
	"errors"

	"mediastack.dev/runtime/fault"
)

// ErrNoBucket and ErrNoMarker are wrapped by the NotFound faults of CheckBucket. The operator
// writes a marker that is missing again.
var (
	ErrNoBucket = errors.New("the bucket does not exist")
	ErrNoMarker = errors.New("the bucket has no marker")
)

// CheckBucket reads the marker of a bucket before anything in it is removed. It returns NotFound
// without bucket or marker, and Conflict if the marker names another account or installation
// (reason OtherInstallation). A marker that is ahead of the row holds the installation.
func (g *Guard) CheckBucket(ctx context.Context, bucket Bucket) (Marker, error) {
	marker, state, err := g.compareMarker(ctx, bucket)
	if err != nil {
		return marker, err
	}
	if reason := behind(state, witnessed{bucket: bucket.Name, marker: marker}); reason != "" {
		return marker, g.decide(ctx, g.hold(ctx, reason))
	}
	return marker, nil
}

// compareMarker reads the marker, then the row, and compares whose bucket it is.
func (g *Guard) compareMarker(ctx context.Context, bucket Bucket) (Marker, State, error) {
	marker, err := g.deps.Markers.Marker(ctx, bucket.Name)
	if fault.Is(err, fault.NotFound) {
		exists, err := g.deps.Markers.BucketExists(ctx, bucket.Name)
		switch {
		case err != nil:
			return Marker{}, State{}, err
		case !exists:
			return Marker{}, State{}, fault.Wrap(ErrNoBucket, fault.NotFound, "bucket %s does not exist", bucket.Name)
		}
		return Marker{}, State{}, fault.Wrap(ErrNoMarker, fault.NotFound, "bucket %s has no marker of its owner; the operator writes it again", bucket.Name)
	}
	if err != nil {
		return Marker{}, State{}, err
	}
	state, err := g.deps.Store.Installation(ctx)
	if err != nil {
		return Marker{}, State{}, err
	}
	switch {
	case marker.InstallationID != state.ID:
		err = fault.WithReason(fault.New(fault.Conflict, "bucket %s belongs to account %s of installation %s, not to account %s of installation %s", bucket.Name, marker.AccountID, marker.InstallationID, bucket.AccountID, state.ID), fault.OtherInstallation)
	case marker.AccountID != bucket.AccountID.String():
		err = fault.New(fault.Conflict, "bucket %s is owned by another account: it belongs to account %s, not to account %s", bucket.Name, marker.AccountID, bucket.AccountID)
	}
	return marker, state, err
}

// ReadOnly is a Guard of a program that only reads, for which a restored database is no error.
type ReadOnly struct{ guard *Guard }

// ReadOnly returns the guard of a program that only reads.
func (g *Guard) ReadOnly() ReadOnly { return ReadOnly{g} }

// CheckBucket is that of Guard, and holds nothing.
func (r ReadOnly) CheckBucket(ctx context.Context, bucket Bucket) (Marker, error) {
	marker, _, err := r.guard.compareMarker(ctx, bucket)
	return marker, err
}

// Writable returns a fault: nothing may be removed.
func (ReadOnly) Writable() error {
	return fault.New(fault.Unavailable, "this program removes nothing")
}
