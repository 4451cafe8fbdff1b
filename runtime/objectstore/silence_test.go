package objectstore_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/objectstore"
)

// openSilent opens a store that may send nothing for five seconds: far more than one that works needs.
func openSilent(t *testing.T, a testenv.S3Access) *objectstore.Store {
	t.Helper()
	store, err := objectstore.New(objectstore.Config{Endpoint: a.Endpoint, Region: a.Region, AccessKey: a.AccessKey, SecretKey: a.SecretKey, ReadTimeout: 5 * time.Second})
	must(t, err)
	return store
}

// A read of a store that hangs once waited for three minutes, and one that hangs later without an end.
func TestOpen_UnavailableWhenTheStoreSendsNothing(t *testing.T) {
	t.Parallel()
	access := testenv.S3(t)
	proxy := testenv.NewTCPProxy(t, strings.TrimPrefix(access.Endpoint, "http://"))
	access.Endpoint = "http://" + proxy.String()
	store := openSilent(t, access)
	bucket, _ := claimed(t, store)
	data := bytes.Repeat([]byte("0123456789abcdef"), 4<<20) // more than all buffers can hold
	put(t, store, bucket, "media/x", "text/plain", data)
	body, err := store.Open(t.Context(), bucket, "media/x", 0, -1)
	must(t, err)
	head := make([]byte, 1000)
	_, err = io.ReadFull(body, head)
	must(t, err)
	proxy.Set(testenv.ProxyStall)
	rest, err := io.ReadAll(body)
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "sent nothing") || !bytes.Equal(rest, data[1000:1000+len(rest)]) {
		t.Errorf("in the middle of an object: %d bytes, %v", len(rest), err)
	}
	must(t, body.Close())
	if _, err := store.Open(t.Context(), bucket, "media/x", 0, -1); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "sent nothing") {
		t.Errorf("before the first byte: %v", err)
	}
	proxy.Set(testenv.ProxyOpen)
	if got := read(t, store, bucket, "media/x", 16, 4); string(got) != "0123" {
		t.Errorf("once the store is back: %q", got)
	}
}

// The first attempt leaves time for another one: a single connection may hang.
func TestOpen_RepeatsARequestThatHangs(t *testing.T) {
	t.Parallel()
	hung := make(chan struct{}, 10)
	access := testenv.S3Proxy(t, testenv.S3(t), func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/original") || len(hung) > 0 {
			return false
		}
		hung <- struct{}{}
		<-r.Context().Done()
		return true
	})
	store := openSilent(t, access)
	bucket, _ := claimed(t, store)
	put(t, store, bucket, "media/x/original", "image/png", []byte("abcdef"))
	if got := read(t, store, bucket, "media/x/original", 1, 3); string(got) != "bcd" || len(hung) != 1 {
		t.Errorf("read %q after %d requests that hung", got, len(hung))
	}
}

func TestConfig_BoundsReadTimeout(t *testing.T) {
	t.Parallel()
	for timeout, good := range map[time.Duration]bool{0: true, time.Second: true, 10 * time.Minute: true, -time.Second: false, 999 * time.Millisecond: false, 11 * time.Minute: false} {
		cfg := objectstore.Config{AccessKey: "a", SecretKey: "s", ReadTimeout: timeout}
		if err := cfg.Validate(); (err == nil) != good || err != nil && !strings.Contains(err.Error(), "SERVICE_S3_READ_TIMEOUT") {
			t.Errorf("%s: %v", timeout, err)
		}
	}
}
