package objectstore_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/objectstore"
)

// openBehind returns a store whose first failures requests for an object are answered by answer, and
// the number of all such requests. The object media/x/original of the bucket has the bytes abcdef.
func openBehind(t *testing.T, failures int64, answer http.HandlerFunc) (store *objectstore.Store, bucket string, requests *atomic.Int64) {
	t.Helper()
	requests = &atomic.Int64{}
	store = between(t, testenv.S3(t), func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/original") || requests.Add(1) > failures {
			return false
		}
		answer(w, r)
		return true
	})
	bucket, _ = claimed(t, store)
	put(t, store, bucket, "media/x/original", "image/png", []byte("abcdef"))
	return store, bucket, requests
}

func TestOpen_SendsOneRequest(t *testing.T) {
	t.Parallel()
	store, bucket, requests := openBehind(t, 0, nil)
	if got := read(t, store, bucket, "media/x/original", 1, 3); string(got) != "bcd" || requests.Load() != 1 {
		t.Errorf("read %q with %d requests", got, requests.Load())
	}
}

func TestOpen_RepeatsWhatMayEndByItself(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"an internal error": func(w http.ResponseWriter, _ *http.Request) {
			s3Error(w, http.StatusInternalServerError, "InternalError")
		},
		"slow down":         func(w http.ResponseWriter, _ *http.Request) { s3Error(w, http.StatusServiceUnavailable, "SlowDown") },
		"too many requests": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) },
		"no response":       func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, bucket, requests := openBehind(t, 2, answer)
			if got := read(t, store, bucket, "media/x/original", 1, 3); string(got) != "bcd" || requests.Load() != 3 {
				t.Errorf("read %q with %d requests, want bcd with 3", got, requests.Load())
			}
			store, bucket, requests = openBehind(t, 1000, answer)
			if _, err := store.Open(t.Context(), bucket, "media/x/original", 1, 3); !fault.Is(err, fault.Unavailable) {
				t.Errorf("a lasting failure: %v", err)
			}
			// The transport repeats a request on a connection that was lost by itself.
			if n := requests.Load(); n < 3 || n > 3 && name != "no response" {
				t.Errorf("a lasting failure took %d attempts, want 3", n)
			}
		})
	}
}

func TestOpen_ReturnsWhatTheStoreRejects(t *testing.T) {
	t.Parallel()
	store, bucket, _ := openBehind(t, 1000, func(w http.ResponseWriter, _ *http.Request) {
		s3Error(w, http.StatusForbidden, "InvalidAccessKeyId")
	})
	if _, err := store.Open(t.Context(), bucket, "media/x/original", 0, 3); fault.ReasonOf(err) != fault.Credentials || !strings.Contains(err.Error(), "InvalidAccessKeyId") {
		t.Errorf("rejected keys: %v", err)
	}
	store, bucket, requests := openBehind(t, 1000, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Path+"-elsewhere", http.StatusTemporaryRedirect)
	})
	if _, err := store.Open(t.Context(), bucket, "media/x/original", 0, 3); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "307") || requests.Load() != 2 {
		t.Errorf("a redirect, which is not followed: %v after %d requests", err, requests.Load())
	}
	onBoth(t, func(t *testing.T, store *objectstore.Store) {
		bucket, _ := claimed(t, store)
		put(t, store, bucket, "media/x/original", "image/png", []byte("abcdef"))
		if _, err := store.Open(t.Context(), bucket, "media/y/original", 0, 3); !fault.Is(err, fault.NotFound) || errors.Is(err, installation.ErrNoBucket) {
			t.Errorf("a missing object: %v", err)
		}
		if _, err := store.Open(t.Context(), bucket+"x", "media/x/original", 0, 3); !fault.Is(err, fault.NotFound) || !errors.Is(err, installation.ErrNoBucket) {
			t.Errorf("a missing bucket: %v", err)
		}
		for _, key := range []string{"media/ä b+c&d=e?f#g%h/original", "media/50%25/original"} {
			want := []byte(key)
			put(t, store, bucket, key, "text/plain", want)
			if got := read(t, store, bucket, key, 0, int64(len(want))); string(got) != key {
				t.Errorf("%s: read %q", key, got)
			}
		}
	})
}

func TestOpen_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	store, bucket, requests := openBehind(t, 1000, func(http.ResponseWriter, *http.Request) {
		cancel()
		panic(http.ErrAbortHandler)
	})
	if _, err := store.Open(ctx, bucket, "media/x/original", 0, 3); !errors.Is(err, context.Canceled) || requests.Load() != 1 {
		t.Errorf("%v after %d requests", err, requests.Load())
	}
}
