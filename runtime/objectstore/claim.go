package objectstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/minio/minio-go/v7"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/installation"
)

// ClaimRequest is a bucket, the account that shall own it, and what is known about both.
type ClaimRequest struct {
	Bucket string
	Owner  Owner
	Epoch  int64 // of the installation
	// Adopt permits to claim a bucket that holds objects and has no marker.
	Adopt bool
	// Claimed: the marker was written before, so that a bucket without one was the account's. It
	// may have been deleted and made again by another user meanwhile.
	Claimed bool
	// HasMedia: the account has items, so that a bucket without its files was lost.
	HasMedia bool
	// Files are the keys of some files of the account. A bucket without a marker that has one of
	// them is the account's.
	Files []string
	// Acknowledged: a cluster admin accepts that the media is lost.
	Acknowledged bool
	// ReadOnly: one request reads the marker, and nothing is written. The other fields than Bucket, Owner
	// and Epoch have no meaning then.
	ReadOnly bool
}

// ClaimResult is what Claim wrote.
type ClaimResult int

// The results of Claim.
const (
	// ClaimUnchanged: the bucket belongs to the account already.
	ClaimUnchanged ClaimResult = iota
	// ClaimUpdated: the marker names the account, and was rewritten for its new epoch, namespace or name.
	ClaimUpdated
	// BucketClaimed: the bucket belongs to the account now.
	BucketClaimed
	// BucketRestored: the bucket or its marker was missing, and was created again.
	BucketRestored
	// ClaimDiffers: a claim that is not ReadOnly would write.
	ClaimDiffers
)

// Claim makes a bucket exist and belong to an account. It writes nothing, and returns Conflict,
// for the bucket of another account or installation (reason OtherInstallation), for one with
// objects that must be adopted, and for one whose media is lost (reason MediaLost). It returns
// Unavailable with reason Held if the marker is of a later epoch. Of two concurrent claims of one
// bucket exactly one succeeds, by a conditional put.
func (s *Store) Claim(ctx context.Context, request ClaimRequest) (ClaimResult, error) {
	marker, err := s.Marker(ctx, request.Bucket)
	switch {
	case err == nil:
		return s.updateMarker(ctx, request, marker)
	case !fault.Is(err, fault.NotFound):
		return ClaimUnchanged, err
	case request.ReadOnly:
		return ClaimDiffers, nil
	}
	if err := s.prepareBucket(ctx, request); err != nil {
		return ClaimUnchanged, err
	}
	if err := s.markBucket(ctx, request); err != nil {
		return ClaimUnchanged, err
	}
	if request.Claimed {
		return BucketRestored, nil
	}
	return BucketClaimed, nil
}

// updateMarker returns a fault if the marker names another owner, and rewrites one that is behind.
func (s *Store) updateMarker(ctx context.Context, request ClaimRequest, marker installation.Marker) (ClaimResult, error) {
	if err := checkOwner(request, marker); err != nil {
		return ClaimUnchanged, err
	}
	if marker.Epoch == request.Epoch && ownerOf(marker) == request.Owner {
		return ClaimUnchanged, nil
	}
	if request.ReadOnly {
		return ClaimDiffers, nil
	}
	marker.Epoch, marker.Namespace, marker.Name = request.Epoch, request.Owner.Namespace, request.Owner.Name
	if err := s.replaceMarker(ctx, request.Bucket, marker); fault.Is(err, fault.Conflict) {
		return ClaimUnchanged, fault.Wrap(err, fault.Unavailable, "the marker of bucket %s was changed at the same time", request.Bucket)
	} else if err != nil {
		return ClaimUnchanged, err
	}
	return ClaimUpdated, nil
}

// checkOwner returns a fault unless the marker names the account and is not of a later epoch.
func checkOwner(request ClaimRequest, marker installation.Marker) error {
	switch {
	case marker.InstallationID != request.Owner.InstallationID:
		return fault.WithReason(fault.Wrap(otherOwner(request, marker), fault.Conflict, "bucket %s belongs to installation %s, not to installation %s",
			request.Bucket, marker.InstallationID, request.Owner.InstallationID), fault.OtherInstallation)
	case marker.AccountID != request.Owner.AccountID:
		return fault.Wrap(otherOwner(request, marker), fault.Conflict, "bucket %s is owned by another account", request.Bucket)
	case marker.Epoch > request.Epoch:
		return fault.WithReason(fault.New(fault.Unavailable, "the database was restored: it has epoch %d, and the marker of bucket %s has epoch %d; run mediastack-runtime resume-after-restore", request.Epoch, request.Bucket, marker.Epoch), fault.Held)
	}
	return nil
}

// otherOwner names the owner of a bucket. It is for the log: a tenant may name any bucket, and must
// not learn whose it is.
func otherOwner(request ClaimRequest, marker installation.Marker) error {
	return fmt.Errorf("bucket %s belongs to %s, not to %s", request.Bucket, ownerOf(marker), request.Owner)
}

// prepareBucket makes a bucket without a marker exist, or returns a Conflict if it must not be
// claimed.
func (s *Store) prepareBucket(ctx context.Context, request ClaimRequest) error {
	exists, err := s.BucketExists(ctx, request.Bucket)
	if err != nil {
		return err
	}
	lost := request.Claimed && request.HasMedia && !request.Acknowledged
	if !exists {
		if lost {
			return mediaLost("bucket %s does not exist any more, and the account has items: their files are lost unless the bucket is restored", request.Bucket)
		}
		err := s.client.MakeBucket(ctx, request.Bucket, minio.MakeBucketOptions{Region: s.region})
		if code := minio.ToErrorResponse(err).Code; err != nil && code != "BucketAlreadyOwnedByYou" {
			return s.classify(err, "make bucket "+request.Bucket)
		}
		return nil
	}
	if !lost && (request.Claimed && request.Acknowledged || request.Adopt) {
		return nil
	}
	if request.Claimed {
		if holds, err := s.holdsAny(ctx, request.Bucket, request.Files); holds || err != nil {
			return err
		}
	}
	// A crash between the creation of a bucket and that of its marker leaves an empty bucket
	// without a marker, which can be claimed.
	empty, err := s.empty(ctx, request.Bucket)
	switch {
	case err != nil:
		return err
	case lost && empty:
		return mediaLost("bucket %s is empty and has no marker, and the account has items: their files are lost unless the bucket is restored", request.Bucket)
	case lost:
		return mediaLost("bucket %s has no marker and holds objects, but not the files of this account's items: they are lost unless the bucket is restored", request.Bucket)
	case request.Claimed && !empty:
		return fault.New(fault.Conflict, "bucket %s has no marker any more and holds objects, but this account has no items: another program may use it; it is used again when they are removed", request.Bucket)
	case !empty:
		return fault.New(fault.Conflict, "bucket %s exists, holds objects and has no owner: set spec.storage.bucket.adopt to take it over", request.Bucket)
	}
	return nil
}

// mediaLost returns the Conflict of an account with items whose bucket does not hold their files.
func mediaLost(format, bucket string) error {
	return fault.WithReason(fault.New(fault.Conflict, format, bucket), fault.MediaLost)
}

// holdsAny reports whether the bucket holds an object with one of the keys.
func (s *Store) holdsAny(ctx context.Context, bucket string, keys []string) (bool, error) {
	for _, key := range keys {
		if _, err := s.Stat(ctx, bucket, key); !fault.Is(err, fault.NotFound) {
			return err == nil, err
		}
	}
	return false, nil
}

// markBucket writes the first marker of a bucket.
func (s *Store) markBucket(ctx context.Context, request ClaimRequest) error {
	text, err := json.Marshal(installation.Marker{
		AccountID: request.Owner.AccountID, Namespace: request.Owner.Namespace, Name: request.Owner.Name,
		Witness: installation.Witness{InstallationID: request.Owner.InstallationID, Epoch: request.Epoch},
	})
	if err != nil {
		return err
	}
	if err := s.putMarker(ctx, request.Bucket, text); fault.Is(err, fault.Conflict) {
		marker, err := s.Marker(ctx, request.Bucket)
		if err != nil {
			return err
		}
		return checkOwner(request, marker)
	} else if err != nil {
		return err
	}
	// If the store ignores the condition, another claim may have succeeded as well: then no
	// claim is valid.
	err = s.proveConditionalPut(ctx, request.Bucket, text)
	if errors.Is(err, errNoConditionalPut) {
		err = errors.Join(err, s.Remove(ctx, request.Bucket, []string{MarkerKey}))
	}
	return err
}
