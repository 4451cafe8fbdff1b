package mediaaccount

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"k8s.io/client-go/tools/events"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/reconcile"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/objectstore"
)

// bigStore is the store of an account with many items.
type bigStore struct {
	account.Store
	left int64
	now  *time.Time
}

// EraseAccount takes four seconds of the test's clock per batch.
func (s *bigStore) EraseAccount(_ context.Context, _, _ string, _ uuid.UUID, batch int) (int64, error) {
	*s.now = s.now.Add(4 * time.Second)
	s.left = max(s.left-int64(batch), 0)
	return s.left, nil
}

// bigBucket is a bucket with many objects.
type bigBucket struct {
	Buckets
	id      string
	batches int
	now     *time.Time
	removed bool
}

// Owner returns the account.
func (b *bigBucket) Owner(context.Context, string) (objectstore.Owner, error) {
	return objectstore.Owner{AccountID: b.id}, nil
}

// Drain takes four seconds of the test's clock per batch.
func (b *bigBucket) Drain(context.Context, string, int) (bool, error) {
	*b.now = b.now.Add(4 * time.Second)
	b.batches--
	return b.batches <= 0, nil
}

// RemoveBucket records that it was called.
func (b *bigBucket) RemoveBucket(context.Context, string) error { b.removed = true; return nil }

func TestDeletion_RunsInTimeSlicesAndReportsProgress(t *testing.T) {
	t.Parallel()
	now, id := time.Unix(1000, 0), uuid.New()
	bucket := &bigBucket{id: id.String(), batches: 5, now: &now}
	clock := func() time.Time { return now }
	shared := reconcile.Deps{Events: events.NewFakeRecorder(10), Now: clock}
	r := New(Config{}, Deps{Deps: shared, Accounts: account.NewRegistry(&bigStore{left: 6000, now: &now}, "media", clock), Buckets: bucket})
	object := &v1alpha1.MediaAccount{}
	object.Spec.DeletionPolicy = v1alpha1.DeletionDelete
	slice := func(step reconcile.Step[*scope]) (bool, string) {
		s := &scope{Run: reconcile.NewRun(shared, object), account: account.Account{ID: id, Bucket: "b"}}
		s.observed.deletion = &deletionProgress{}
		done := step(t.Context(), s)
		if result, err := s.Report(t.Context(), statusOf, reconcile.Observation{}); !done && (err != nil || result.RequeueAfter != time.Millisecond) {
			t.Errorf("a slice that is not the last must be followed at once: %v, %v", result, err)
		}
		return done, s.observed.deletion.message
	}
	for _, want := range []string{
		"Deleting the media: 4,500 items left", "Deleting the media: 3,000 items left", "Deleting the media: 1,500 items left",
	} {
		if done, progress := slice(r.deleteItems); done || progress != want {
			t.Errorf("done %t, %q, want %q", done, progress, want)
		}
	}
	if done, _ := slice(r.deleteItems); !done {
		t.Error("items are left after the last slice")
	}
	if done, progress := slice(r.removeBucket); done || progress != "Emptying bucket b: about 3,000 objects removed" {
		t.Errorf("done %t, %q", done, progress)
	}
	if done, _ := slice(r.removeBucket); !done || !bucket.removed {
		t.Error("the bucket exists after the last slice")
	}
}
