package objectstore_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/objectstore"
	"mediastack.dev/runtime/upload"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// onBoth runs a test against both stores that this project is tested with: they differ where
// S3 is not specified.
func onBoth(t *testing.T, test func(t *testing.T, store *objectstore.Store)) {
	for name, access := range testenv.Stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t, access(t)))
		})
	}
}

func open(t *testing.T, a testenv.S3Access) *objectstore.Store {
	t.Helper()
	store, err := objectstore.New(objectstore.Config{Endpoint: a.Endpoint, Region: a.Region, AccessKey: a.AccessKey, SecretKey: a.SecretKey})
	must(t, err)
	return store
}

func claimed(t *testing.T, store *objectstore.Store) (string, objectstore.Owner) {
	t.Helper()
	bucket, owner := "b-"+uuid.NewString(), objectstore.Owner{AccountID: uuid.NewString(), Namespace: "team-a", Name: "demo", InstallationID: installationID}
	if result, err := store.Claim(t.Context(), request(bucket, owner)); err != nil || result != objectstore.BucketClaimed {
		t.Fatalf("claim: %v, %v", result, err)
	}
	return bucket, owner
}

// installationID is the installation of the tests.
var installationID = uuid.New()

// request returns a claim in the first epoch.
func request(bucket string, owner objectstore.Owner) objectstore.ClaimRequest {
	return objectstore.ClaimRequest{Bucket: bucket, Owner: owner, Epoch: 1}
}

// newClaim returns the claim of a new account.
func newClaim(bucket string) objectstore.ClaimRequest {
	return request(bucket, objectstore.Owner{AccountID: uuid.NewString(), InstallationID: installationID})
}

func read(t *testing.T, store *objectstore.Store, bucket, key string, offset, length int64) []byte {
	t.Helper()
	body, err := store.Open(t.Context(), bucket, key, offset, length)
	must(t, err)
	defer func() { _ = body.Close() }()
	data, err := io.ReadAll(body)
	must(t, err)
	return data
}

func TestStore_ReturnsObjectsAsTheyWerePut(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, store *objectstore.Store) {
		bucket, _ := claimed(t, store)
		data := make([]byte, 2*upload.PartSize+12345)
		if _, err := rand.Read(data); err != nil {
			t.Fatal(err)
		}
		for name, put := range map[string]func(key string) []byte{
			"empty": func(key string) []byte { put(t, store, bucket, key, "text/plain", nil); return nil },
			"small": func(key string) []byte {
				put(t, store, bucket, key, "image/png", data[:1000])
				return data[:1000]
			},
			"multipart": func(key string) []byte {
				multipart, err := store.StartMultipart(t.Context(), bucket, key, "image/png")
				must(t, err)
				for start := 0; start < len(data); start += upload.PartSize {
					part := data[start:min(start+upload.PartSize, len(data))]
					must(t, multipart.Part(t.Context(), bytes.NewReader(part), int64(len(part))))
				}
				must(t, multipart.Complete(t.Context(), "image/png"))
				return data
			},
		} {
			key := "media/" + uuid.NewString() + "/original"
			want := put(key)
			if got := read(t, store, bucket, key, 0, -1); !bytes.Equal(got, want) {
				t.Errorf("%s: read %d bytes, want the %d that were put", name, len(got), len(want))
			}
			stored, err := store.Stat(t.Context(), bucket, key)
			if err != nil || stored.Bytes != int64(len(want)) {
				t.Errorf("%s: stat returned %d bytes, %v", name, stored.Bytes, err)
			}
			if len(want) > 100 {
				if got := read(t, store, bucket, key, 10, 50); !bytes.Equal(got, want[10:60]) {
					t.Errorf("%s: a range is wrong", name)
				}
				if got := read(t, store, bucket, key, int64(len(want)-7), -1); !bytes.Equal(got, want[len(want)-7:]) {
					t.Errorf("%s: the suffix is wrong", name)
				}
			}
		}
	})
}

func TestStore_MissingObjectsAreNotFoundAndRemovingThemSucceeds(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, store *objectstore.Store) {
		bucket, _ := claimed(t, store)
		if _, err := store.Open(t.Context(), bucket, "media/none", 0, -1); !fault.Is(err, fault.NotFound) {
			t.Errorf("open of a missing key: %v", err)
		}
		if _, err := store.Stat(t.Context(), bucket, "media/none"); !fault.Is(err, fault.NotFound) {
			t.Errorf("stat of a missing key: %v", err)
		}
		if _, err := store.Owner(t.Context(), "b-"+uuid.NewString()); !fault.Is(err, fault.NotFound) {
			t.Errorf("owner of a missing bucket: %v", err)
		}
		must(t, store.Remove(t.Context(), bucket, []string{"media/none"}))
		must(t, store.Remove(t.Context(), bucket, []string{"media/none", "media/nothing"}))
		must(t, store.Remove(t.Context(), "b-"+uuid.NewString(), []string{"a"}))
		must(t, store.AbortIncomplete(t.Context(), bucket, "media/none"))
		must(t, store.RemoveBucket(t.Context(), "b-"+uuid.NewString()))
	})
}

func TestAbortIncomplete_AbortsTheUploadsOfAKey(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, store *objectstore.Store) {
		bucket, _ := claimed(t, store)
		key := "media/" + uuid.NewString() + "/original"
		multipart, err := store.StartMultipart(t.Context(), bucket, key, "image/png")
		must(t, err)
		must(t, multipart.Part(t.Context(), bytes.NewReader(make([]byte, upload.PartSize)), upload.PartSize))
		must(t, store.AbortIncomplete(t.Context(), bucket, key))
		if err := multipart.Complete(t.Context(), "image/png"); err == nil {
			t.Error("an upload that was removed could still be completed")
		}
		if _, err := store.Stat(t.Context(), bucket, key); !fault.Is(err, fault.NotFound) {
			t.Errorf("the object exists: %v", err)
		}
	})
}

func TestClaim_ConflictsWithAnotherOwner(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, store *objectstore.Store) {
		bucket, owner := claimed(t, store)
		if result, err := store.Claim(t.Context(), request(bucket, owner)); err != nil || result != objectstore.ClaimUnchanged {
			t.Errorf("claiming one's own bucket again must change nothing: %v, %v", result, err)
		}
		for _, adopt := range []bool{false, true} {
			other := newClaim(bucket)
			other.Adopt = adopt
			if _, err := store.Claim(t.Context(), other); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), owner.AccountID) || !strings.Contains(err.Error(), other.Owner.AccountID) {
				t.Errorf("another account's claim (adopt=%v) must be a conflict that names both, not %v", adopt, err)
			}
		}
	})
}

func TestClaim_AdoptsABucketWithObjectsOnlyOnRequest(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, store *objectstore.Store) {
		bucket, _ := claimed(t, store)
		put(t, store, bucket, "precious", "text/plain", []byte("x"))
		must(t, store.Remove(t.Context(), bucket, []string{objectstore.MarkerKey}))
		claim := newClaim(bucket)
		if _, err := store.Claim(t.Context(), claim); !fault.Is(err, fault.Conflict) {
			t.Errorf("an unmarked bucket that holds objects must be rejected, not %v", err)
		}
		claim.Adopt = true
		if result, err := store.Claim(t.Context(), claim); err != nil || result != objectstore.BucketClaimed {
			t.Errorf("adopt must take it: %v, %v", result, err)
		}
		if got := read(t, store, bucket, "precious", 0, -1); string(got) != "x" {
			t.Error("adopting a bucket must keep its objects")
		}
	})
}

func TestClaim_ExactlyOneOfManyWins(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, store *objectstore.Store) {
		bucket := "b-" + uuid.NewString()
		var won atomic.Int32
		var all sync.WaitGroup
		for range 12 {
			all.Go(func() {
				switch _, err := store.Claim(t.Context(), newClaim(bucket)); {
				case err == nil:
					won.Add(1)
				case !fault.Is(err, fault.Conflict) && !fault.Is(err, fault.Unavailable):
					t.Errorf("a claim that lost: %v", err)
				}
			})
		}
		all.Wait()
		if won.Load() != 1 {
			t.Errorf("%d claims won", won.Load())
		}
	})
}

func TestList_VisitsEveryObjectUnderAPrefix(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, store *objectstore.Store) {
		bucket, _ := claimed(t, store)
		for _, key := range []string{"media/a/original", "media/b/original", "other"} {
			put(t, store, bucket, key, "text/plain", []byte("abc"))
		}
		var keys []string
		must(t, store.List(t.Context(), bucket, "media/", func(s media.ObjectInfo) error {
			keys = append(keys, fmt.Sprintf("%s=%d", s.Key, s.Bytes))
			return nil
		}))
		if got := strings.Join(keys, " "); got != "media/a/original=3 media/b/original=3" {
			t.Errorf("listed %s", got)
		}
		stop := errors.New("enough")
		if err := store.List(t.Context(), bucket, "", func(media.ObjectInfo) error { return stop }); !errors.Is(err, stop) {
			t.Errorf("List must return what visit returned, not %v", err)
		}
	})
}

func TestStore_UnavailableWhenTheStoreIsDown(t *testing.T) {
	t.Parallel()
	server := testenv.S3Server(t)
	store := open(t, server.Server.Access)
	must(t, store.Ping(t.Context()))
	bucket, _ := claimed(t, store)
	server.Stop()
	if err := store.Ping(t.Context()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("ping of a stopped store: %v", err)
	}
	server.Start()
	put(t, store, bucket, "media/x", "text/plain", []byte("x"))
}

func TestNew_NamesTheConfigurationError(t *testing.T) {
	t.Parallel()
	for _, endpoint := range []string{"", "localhost:9000", "ftp://host", "http://host/path", "http://"} {
		if _, err := objectstore.New(objectstore.Config{Endpoint: endpoint, AccessKey: "a", SecretKey: "b"}); err == nil || !strings.Contains(err.Error(), "https://host") {
			t.Errorf("%q must be rejected with an example, not %v", endpoint, err)
		}
	}
}

func put(t *testing.T, store *objectstore.Store, bucket, key, contentType string, data []byte) {
	t.Helper()
	must(t, store.Put(t.Context(), bucket, key, contentType, bytes.NewReader(data), int64(len(data))))
}

var must = check.NoError
