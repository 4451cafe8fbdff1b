package objectstore_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/objectstore"
)

func always() bool { return true }

func never() bool { return false }

func TestDrain_EmptiesABucket(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, store *objectstore.Store) {
		bucket, _ := claimed(t, store)
		for i := range 7 {
			put(t, store, bucket, fmt.Sprintf("media/%d/original", i), "text/plain", []byte("x"))
		}
		must(t, check.ErrorOf(store.StartMultipart(t.Context(), bucket, "media/unfinished/original", "text/plain")))
		drained, err := store.Drain(t.Context(), bucket, "", never)
		must(t, err)
		if drained.Removed != 8 || drained.Kept != 0 || drained.Next != "" {
			t.Errorf("drained %+v", drained)
		}
		if _, err := store.Owner(t.Context(), bucket); err != nil {
			t.Errorf("the marker must be removed last: %v", err)
		}
		must(t, store.RemoveDrained(t.Context(), bucket))
		must(t, store.RemoveDrained(t.Context(), bucket))
		if exists, err := store.BucketExists(t.Context(), bucket); err != nil || exists {
			t.Errorf("the bucket exists: %t, %v", exists, err)
		}
		if drained, err := store.Drain(t.Context(), bucket, "", always); err != nil || drained != (objectstore.Drained{}) {
			t.Errorf("a missing bucket is empty: %+v, %v", drained, err)
		}
	})
}

func TestRemoveDrained_KeepsABucketWithObjects(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, store *objectstore.Store) {
		bucket, of := claimed(t, store)
		put(t, store, bucket, "media/late/original", "text/plain", []byte("x"))
		if err := store.RemoveDrained(t.Context(), bucket); !fault.Is(err, fault.Conflict) {
			t.Errorf("a bucket with an object: %v", err)
		}
		if _, err := store.Stat(t.Context(), bucket, "media/late/original"); err != nil {
			t.Errorf("the object: %v", err)
		}
		// Without its marker, the bucket would belong to nobody for an operator that begins again.
		if owner, err := store.Owner(t.Context(), bucket); err != nil || owner != of {
			t.Errorf("the owner is %+v, %v", owner, err)
		}
	})
}

// A store without versions may not have the request that lists them.
func TestDrain_EmptiesABucketOfAStoreWithoutVersions(t *testing.T) {
	t.Parallel()
	store := between(t, testenv.S3(t), func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Has("versions") {
			s3Error(w, http.StatusNotImplemented, "NotImplemented")
			return true
		}
		return false
	})
	bucket := "b-" + uuid.NewString()
	must(t, check.ErrorOf(store.Claim(t.Context(), request(bucket, objectstore.Owner{AccountID: uuid.NewString(), InstallationID: installationID}))))
	put(t, store, bucket, "media/x/original", "text/plain", []byte("x"))
	if drained, err := store.Drain(t.Context(), bucket, "", always); err != nil || drained.Removed != 1 {
		t.Errorf("drained %+v, %v", drained, err)
	}
	must(t, store.RemoveDrained(t.Context(), bucket))
}
