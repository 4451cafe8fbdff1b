package objectstore_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"mediastack.dev/hack/testenv"
)

// versionedStore returns a store that keeps versions. versitygw, as the tests start it, does not.
func versionedStore(t *testing.T) testenv.S3Access {
	t.Helper()
	access := testenv.Stores()["minio"]
	if access == nil {
		return testenv.S3(t)
	}
	return access(t)
}

// rawClient returns a client for what the product does not do.
func rawClient(t *testing.T, access testenv.S3Access) *minio.Client {
	t.Helper()
	u, err := url.Parse(access.Endpoint)
	must(t, err)
	client, err := minio.New(u.Host, &minio.Options{Creds: credentials.NewStaticV4(access.AccessKey, access.SecretKey, ""), Region: access.Region})
	must(t, err)
	return client
}

// countVersions counts the versions and delete markers in a bucket.
func countVersions(t *testing.T, client *minio.Client, bucket string) (versions int) {
	t.Helper()
	for object := range client.ListObjects(t.Context(), bucket, minio.ListObjectsOptions{Recursive: true, WithVersions: true}) {
		must(t, object.Err)
		versions++
	}
	return versions
}

// A bucket with versions was once released with 61 versions left, after requests without an end:
// a plain delete of the latest versions only adds delete markers.
func TestDrain_RemovesEveryVersion(t *testing.T) {
	t.Parallel()
	objects, puts := 1500, 3
	if size := os.Getenv("MEDIASTACK_TEST_OBJECTS"); size != "" { // make test-erasure
		var err error
		objects, err = strconv.Atoi(size)
		must(t, err)
	}
	access := versionedStore(t)
	store, client := open(t, access), rawClient(t, access)
	bucket, owner := claimed(t, store)
	must(t, client.EnableVersioning(t.Context(), bucket))
	start := time.Now()
	parallel(t, objects, func(ctx context.Context, i int) error {
		key := fmt.Sprintf("media/%d/original", i)
		for range puts {
			if _, err := client.PutObject(ctx, bucket, key, strings.NewReader("x"), 1, minio.PutObjectOptions{DisableContentSha256: true}); err != nil {
				return err
			}
		}
		return client.RemoveObject(ctx, bucket, key, minio.RemoveObjectOptions{}) // adds a delete marker
	})
	marker := request(bucket, owner)
	marker.Epoch++
	_, err := store.Claim(t.Context(), marker) // a second version of the marker
	must(t, err)
	_, err = store.StartMultipart(t.Context(), bucket, "media/unfinished/original", "image/png")
	must(t, err)
	t.Logf("stored in %s", time.Since(start))

	calls, removed, after := 0, int64(0), ""
	for {
		drained, err := store.Drain(t.Context(), bucket, after, func() bool { calls++; return calls%3 != 0 })
		must(t, err)
		removed += drained.Removed
		if drained.Kept != 0 || drained.Removed == 0 {
			t.Fatalf("drained %+v", drained)
		}
		if after = drained.Next; after == "" {
			break
		}
	}
	if want := int64(objects*(puts+1) + 1); removed != want {
		t.Errorf("%d versions removed, want %d", removed, want)
	}
	if left := countVersions(t, client, bucket); left != 2 {
		t.Errorf("%d versions left, want the 2 of the marker", left)
	}
	must(t, store.RemoveDrained(t.Context(), bucket))
	if exists, err := client.BucketExists(t.Context(), bucket); err != nil || exists {
		t.Errorf("the bucket exists: %t, %v", exists, err)
	}
	t.Logf("%d versions removed in %s with %d pages", removed, time.Since(start), calls)
}

// A version under a legal hold stays: it is counted, also behind pages of others, and the bucket
// with its marker too.
func TestDrain_CountsWhatTheStoreKeeps(t *testing.T) {
	t.Parallel()
	access := versionedStore(t)
	store, client := open(t, access), rawClient(t, access)
	bucket := "b-" + strings.ToLower(t.Name()[len("TestDrain_"):])
	must(t, client.MakeBucket(t.Context(), bucket, minio.MakeBucketOptions{Region: access.Region, ObjectLocking: true}))
	const held, others = 61, 1100
	parallel(t, held+others, func(ctx context.Context, i int) error {
		options := minio.PutObjectOptions{}
		if i < held {
			options.LegalHold = minio.LegalHoldEnabled
		}
		_, err := client.PutObject(ctx, bucket, fmt.Sprintf("media/%05d/original", i), strings.NewReader("x"), 1, options)
		return err
	})
	for _, want := range []int64{others, 0} {
		drained, err := store.Drain(t.Context(), bucket, "", always)
		must(t, err)
		if drained.Kept != held || drained.Removed != want || drained.Next != "" || !strings.Contains(drained.Denial, "for media/0") {
			t.Errorf("drained %+v, want %d removed", drained, want)
		}
	}
	if left := countVersions(t, client, bucket); left != held {
		t.Errorf("%d versions left, want %d", left, held)
	}
}

// parallel calls do with 0 to n-1.
func parallel(t *testing.T, n int, do func(ctx context.Context, i int) error) {
	t.Helper()
	var all sync.WaitGroup
	for worker := range 16 {
		all.Go(func() {
			for i := worker; i < n; i += 16 {
				if err := do(t.Context(), i); err != nil {
					t.Errorf("object %d: %v", i, err)
					return
				}
			}
		})
	}
	all.Wait()
}
