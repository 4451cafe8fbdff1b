package erasure

import (
	"context"
	"fmt"
	"time"

	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/objectstore"
)

// emptyBucket empties and removes the bucket of an account, if it is the account's. done reports
// whether that is over.
func (r *erasure) emptyBucket(ctx context.Context, deps Deps, erasing account.Account, more func() bool) (progress Progress, done bool) {
	buckets := deps.Buckets
	if err := deps.Installation.Beat(ctx); err != nil {
		return r.failed(err), false
	}
	retained, err := r.verifyOwner(ctx, deps, erasing)
	if err != nil {
		return r.failed(err), false
	}
	if retained != "" {
		return Progress{BucketRetained: retained}, true
	}
	for {
		drained, err := buckets.Drain(ctx, erasing.Bucket, r.cursor, more)
		r.add(drained)
		switch {
		case err != nil:
			return r.failed(err), false
		case drained.Next != "" && drained.Removed == 0:
			return r.blocked(denial(erasing.Bucket, "at least ", r.pass), minPause), false
		case drained.Next == "":
			pass := r.pass
			r.pass = objectstore.Drained{}
			if progress, done := r.endPass(ctx, buckets, erasing.Bucket, pass); done || progress.Blocked != nil {
				return progress, done
			}
		}
		if !more() {
			return r.proceeding(erasing.Bucket), false
		}
	}
}

// endPass removes the bucket after a pass that left nothing in it. Without an error and without
// done, another pass removes what an upload stored that was in progress when the account was
// closed.
func (r *erasure) endPass(ctx context.Context, buckets Buckets, bucket string, pass objectstore.Drained) (progress Progress, done bool) {
	if pass.Kept > 0 {
		progress = r.failed(denial(bucket, "", pass))
		progress.ObjectsLeft = pass.Kept
		return progress, false
	}
	err := buckets.RemoveDrained(ctx, bucket)
	if err == nil {
		return Progress{}, true
	}
	if fault.Is(err, fault.Conflict) && fault.ReasonOf(err) == "" && pass.Removed > 0 {
		return Progress{}, false
	}
	return r.failed(err), false
}

// verifyOwner returns why the bucket is not removed; empty if it is the account's. After the
// marker was read once, a missing marker is one that this process removed.
func (r *erasure) verifyOwner(ctx context.Context, deps Deps, erasing account.Account) (retained string, err error) {
	marker, err := deps.Installation.CheckBucket(ctx, installation.Bucket{AccountID: erasing.ID, Name: erasing.Bucket, Erasing: true})
	switch {
	case err == nil:
		r.verified = true
		return "", nil
	case fault.ReasonOf(err) == fault.OtherInstallation:
		return fmt.Sprintf("it belongs to installation %s", marker.InstallationID), nil
	case fault.Is(err, fault.Conflict) && marker.AccountID != "":
		return "it belongs to another account", nil
	case fault.Is(err, fault.Conflict):
		return "its owner cannot be read", nil
	case !fault.Is(err, fault.NotFound):
		return "", err
	case r.verified:
		return "", nil
	}
	// The bucket or its marker is missing. An interrupted removal leaves an empty bucket without a
	// marker, which is removed here; S3 does not remove a bucket with objects.
	if err := deps.Buckets.RemoveDrained(ctx, erasing.Bucket); !fault.Is(err, fault.Conflict) {
		return "", err
	}
	return "it has no owner and is not empty", nil
}

// add adds what a call of Drain did to the pass through the bucket.
func (r *erasure) add(drained objectstore.Drained) {
	r.cursor = drained.Next
	r.removed += drained.Removed
	r.pass.Removed += drained.Removed
	r.pass.Kept += drained.Kept
	if r.pass.Denial == "" {
		r.pass.Denial = drained.Denial
	}
	if drained.Removed > 0 {
		r.failures = 0
	}
}

// denial returns the error of a store that keeps objects. extent is "at least " while the pass
// has not reached the end of the bucket.
func denial(bucket, extent string, pass objectstore.Drained) error {
	return fault.WithReason(fault.New(fault.Conflict, "the object store denies the removal of %s%s versions in bucket %s: %s",
		extent, formatThousands(pass.Kept), bucket, pass.Denial), fault.DeletionBlocked)
}

// failed returns the Progress of a slice that ended with an error. The pause doubles each time.
func (r *erasure) failed(err error) Progress {
	longest := maxPause
	if fault.Is(err, fault.Unavailable) {
		longest = maxOutagePause
	}
	pause := min(minPause<<min(r.failures, 10), longest)
	r.failures++
	return r.blocked(err, pause)
}

func (r *erasure) blocked(err error, pause time.Duration) Progress {
	failure := reconcile.NewError(reconcile.ObjectStore, err)
	return Progress{ObjectsLeft: -1, Message: failure.Message(), Blocked: failure, RetryAfter: pause}
}

func (r *erasure) proceeding(bucket string) Progress {
	return Progress{
		ObjectsLeft: -1, RetryAfter: time.Millisecond,
		Message: fmt.Sprintf("Emptying bucket %s: %s versions removed", bucket, formatThousands(r.removed)),
	}
}
