package mediaaccount

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"k8s.io/client-go/tools/events"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/objectstore"
)

// bigStore is an account of many items; every batch takes a while on the clock.
type bigStore struct {
	account.Store
	left int64
	now  *time.Time
}

// EraseAccount takes four seconds for a batch.
func (s *bigStore) EraseAccount(_ context.Context, _, _ string, _ uuid.UUID, batch int) (int64, error) {
	*s.now = s.now.Add(4 * time.Second)
	s.left = max(s.left-int64(batch), 0)
	return s.left, nil
}

// bigBucket is a bucket of many objects.
type bigBucket struct {
	Buckets
	id      string
	batches int
	now     *time.Time
	removed bool
}

// Owner says whose it is.
func (b *bigBucket) Owner(context.Context, string) (objectstore.Owner, error) {
	return objectstore.Owner{AccountID: b.id}, nil
}

// Drain takes four seconds for a batch.
func (b *bigBucket) Drain(context.Context, string, int) (bool, error) {
	*b.now = b.now.Add(4 * time.Second)
	b.batches--
	return b.batches <= 0, nil
}

// RemoveBucket notes that it was called.
func (b *bigBucket) RemoveBucket(context.Context, string) error { b.removed = true; return nil }

func TestALongDeletionComesInSlicesAndShowsItsProgress(t *testing.T) {
	t.Parallel()
	now, id := time.Unix(1000, 0), uuid.New()
	bucket := &bigBucket{id: id.String(), batches: 5, now: &now}
	clock := func() time.Time { return now }
	r := New(nil, nil, events.NewFakeRecorder(10), account.NewRegistry(&bigStore{left: 6000, now: &now}, "media", clock), bucket, Config{}, clock)
	object := &v1alpha1.MediaAccount{}
	object.Spec.DeletionPolicy = v1alpha1.DeletionDelete
	slice := func(step step) (bool, string) {
		run := &run{object: object, account: account.Account{ID: id, Bucket: "b"}}
		run.seen.removal = &removal{}
		done := step(t.Context(), run)
		if !done && (run.next.IsZero() || run.next.After(now)) {
			t.Error("a slice that is not the last asks for the next at once")
		}
		return done, run.seen.removal.progress
	}
	for _, want := range []string{
		"Deleting the media: 4,500 items left", "Deleting the media: 3,000 items left", "Deleting the media: 1,500 items left",
	} {
		if done, progress := slice(r.eraseItems); done || progress != want {
			t.Errorf("done %t, %q, want %q", done, progress, want)
		}
	}
	if done, _ := slice(r.eraseItems); !done {
		t.Error("the items are not gone after the last slice")
	}
	if done, progress := slice(r.removeBucket); done || progress != "Emptying bucket b: about 3,000 objects removed" {
		t.Errorf("done %t, %q", done, progress)
	}
	if done, _ := slice(r.removeBucket); !done || !bucket.removed {
		t.Error("the bucket is not gone after the last slice")
	}
}
