package objectstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/objectstore"
)

// A gateway on a file system removes the folders that the removal of an object empties. A put that
// needed one of them at that moment was once rejected with ExistingObjectIsDirectory, and the upload
// failed although nothing was wrong. Against versitygw it did so once in a thousand puts of this kind.
func TestPut_SucceedsWhileTheFolderOfItsKeyIsRemoved(t *testing.T) {
	t.Parallel()
	store := open(t, testenv.S3(t))
	bucket, _ := claimed(t, store)
	create := map[string]func(ctx context.Context, key string) error{
		"put": func(ctx context.Context, key string) error {
			return store.Put(ctx, bucket, key, "image/png", strings.NewReader("abc"), 3)
		},
		"parts": func(ctx context.Context, key string) error {
			upload, err := store.StartMultipart(ctx, bucket, key, "image/png")
			if err != nil {
				return fmt.Errorf("start: %w", err)
			}
			if err := upload.Part(ctx, strings.NewReader("abc"), 3); err != nil {
				return fmt.Errorf("part: %w", err)
			}
			return upload.Complete(ctx, "image/png")
		},
	}
	var group sync.WaitGroup
	for _, kind := range []string{"put", "put", "parts"} {
		group.Go(func() {
			for range 300 {
				key := "media/" + uuid.NewString() + "/original"
				if err := create[kind](t.Context(), key); err != nil {
					t.Errorf("%s: %v", kind, err)
				} else if _, err := store.Stat(t.Context(), bucket, key); err != nil {
					t.Errorf("%s returned without an error, and the object: %v", kind, err)
				} else if err := store.Remove(t.Context(), bucket, []string{key}); err != nil {
					t.Errorf("remove: %v", err)
				}
			}
		})
	}
	group.Wait()
}

// missingFolder answers the first n puts of objects as versitygw does while their folder is removed:
// after it has read the body.
func missingFolder(n int64, puts *atomic.Int64) func(w http.ResponseWriter, r *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if _, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/"); r.Method != http.MethodPut || key == "" {
			return false
		}
		if puts.Add(1) > n {
			return false
		}
		_, _ = io.Copy(io.Discard, r.Body)
		s3Error(w, http.StatusConflict, "ExistingObjectIsDirectory")
		return true
	}
}

func TestPut_IsRepeatedWholeWhenItsFolderIsMissing(t *testing.T) {
	t.Parallel()
	access := testenv.S3(t)
	bucket, _ := claimed(t, open(t, access))
	var puts atomic.Int64
	store := between(t, access, missingFolder(2, &puts))
	must(t, store.Put(t.Context(), bucket, "media/x/original", "image/png", strings.NewReader("abc"), 3))
	if got := read(t, store, bucket, "media/x/original", 0, -1); string(got) != "abc" || puts.Load() != 3 {
		t.Errorf("the object is %q after %d puts", got, puts.Load())
	}
}

// A key that is a folder stays one.
func TestPut_EndsWhenItsKeyIsAFolder(t *testing.T) {
	t.Parallel()
	access := testenv.S3(t)
	bucket, _ := claimed(t, open(t, access))
	var puts atomic.Int64
	store := between(t, access, missingFolder(100, &puts))
	put := func(ctx context.Context) error {
		return store.Put(ctx, bucket, "media/x/original", "image/png", strings.NewReader("abc"), 3)
	}
	if err := put(t.Context()); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "ExistingObjectIsDirectory") || puts.Load() != 3 {
		t.Errorf("after %d puts: %v", puts.Load(), err)
	}
}

// A put that is repeated once its caller has left would occupy the store for nobody.
func TestPut_IsNotRepeatedForACallerThatLeft(t *testing.T) {
	t.Parallel()
	access := testenv.S3(t)
	bucket, _ := claimed(t, open(t, access))
	ctx, leave := context.WithCancel(t.Context())
	var puts atomic.Int64
	answer := missingFolder(100, &puts)
	store := between(t, access, func(w http.ResponseWriter, r *http.Request) bool {
		answered := answer(w, r)
		if answered {
			leave()
		}
		return answered
	})
	err := store.Put(ctx, bucket, "media/x/original", "image/png", strings.NewReader("abc"), 3)
	if !errors.Is(err, context.Canceled) || !fault.Is(err, fault.Unavailable) || puts.Load() != 1 {
		t.Errorf("after %d puts: %v", puts.Load(), err)
	}
}

// The put of the marker has a condition. That it is repeated must not let two claims succeed.
func TestClaim_SucceedsOnceWhileTheFolderOfTheMarkerIsRemoved(t *testing.T) {
	t.Parallel()
	access := testenv.S3(t)
	var puts atomic.Int64
	store, bucket := between(t, access, missingFolder(2, &puts)), "b-"+uuid.NewString()
	if result, err := store.Claim(t.Context(), newClaim(bucket)); err != nil || result != objectstore.BucketClaimed {
		t.Fatalf("%v, %v", result, err)
	}
	if result, err := store.Claim(t.Context(), newClaim(bucket)); !fault.Is(err, fault.Conflict) {
		t.Errorf("another account's claim: %v, %v", result, err)
	}
}
