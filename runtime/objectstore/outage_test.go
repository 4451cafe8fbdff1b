package objectstore_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/objectstore"
)

// between opens the store at access through a proxy that answers a request itself where
// answer returns true.
func between(t *testing.T, access testenv.S3Access, answer func(w http.ResponseWriter, r *http.Request) bool) *objectstore.Store {
	t.Helper()
	access = testenv.S3Proxy(t, access, answer)
	return open(t, access)
}

// s3Error is an error as S3 stores write it.
func s3Error(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>%s</Code><Message>m</Message><RequestId>r</RequestId></Error>", code)
}

// Every call of a store that is down or fails returns Unavailable, however the response ends.
// A truncated object once caused a 500.
func TestStore_UnavailableOnErrorResponses(t *testing.T) {
	t.Parallel()
	access := testenv.S3(t)
	bucket, _ := claimed(t, open(t, access))
	put(t, open(t, access), bucket, "media/x", "text/plain", []byte("x"))
	for name, answer := range map[string]http.HandlerFunc{
		"an internal error": func(w http.ResponseWriter, _ *http.Request) { s3Error(w, 500, "InternalError") },
		"slow down":         func(w http.ResponseWriter, _ *http.Request) { s3Error(w, 503, "SlowDown") },
		"a page of a gateway": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "<html>Bad Gateway</html>", http.StatusBadGateway)
		},
		"a failure without a body": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
		"a key that is rejected":   func(w http.ResponseWriter, _ *http.Request) { s3Error(w, 403, "InvalidAccessKeyId") },
		"no answer":                func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"half an answer": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte("<?xml version"))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := between(t, access, func(w http.ResponseWriter, r *http.Request) bool { answer(w, r); return true })
			parts := func() media.Multipart {
				return store.ResumeMultipart(bucket, "media/x", "an id", []media.Part{{ETag: "e", Bytes: 1}})
			}
			calls := map[string]func(ctx context.Context) error{
				"Put": func(ctx context.Context) error {
					return store.Put(ctx, bucket, "media/y", "text/plain", strings.NewReader("y"), 1)
				},
				"StartMultipart": func(ctx context.Context) error {
					_, err := store.StartMultipart(ctx, bucket, "media/y", "text/plain")
					return err
				},
				"Part":     func(ctx context.Context) error { return parts().Part(ctx, strings.NewReader("y"), 1) },
				"Complete": func(ctx context.Context) error { return parts().Complete(ctx, "text/plain") },
				"Abort":    func(ctx context.Context) error { return parts().Abort(ctx) },
				"Open": func(ctx context.Context) error {
					body, err := store.Open(ctx, bucket, "media/x", 0, -1)
					if err != nil {
						return err
					}
					defer func() { _ = body.Close() }()
					_, err = io.ReadAll(body)
					return err
				},
				"Stat": func(ctx context.Context) error { _, err := store.Stat(ctx, bucket, "media/x"); return err },
				"List": func(ctx context.Context) error {
					return store.List(ctx, bucket, "", func(media.ObjectInfo) error { return nil })
				},
				"Remove":          func(ctx context.Context) error { return store.Remove(ctx, bucket, []string{"media/y"}) },
				"Remove of two":   func(ctx context.Context) error { return store.Remove(ctx, bucket, []string{"media/y", "media/z"}) },
				"AbortIncomplete": func(ctx context.Context) error { return store.AbortIncomplete(ctx, bucket, "media/y") },
				"ListIncomplete": func(ctx context.Context) error {
					return store.ListIncomplete(ctx, bucket, "", func(media.IncompleteUpload) error { return nil })
				},
				"Owner":        func(ctx context.Context) error { _, err := store.Owner(ctx, bucket); return err },
				"BucketExists": func(ctx context.Context) error { _, err := store.BucketExists(ctx, bucket); return err },
				"Claim": func(ctx context.Context) error {
					_, err := store.Claim(ctx, newClaim(bucket))
					return err
				},
				"Drain":         func(ctx context.Context) error { _, err := store.Drain(ctx, bucket, "", always); return err },
				"RemoveDrained": func(ctx context.Context) error { return store.RemoveDrained(ctx, bucket) },
				"Ping":          store.Ping,
			}
			var all sync.WaitGroup
			for call, do := range calls {
				all.Go(func() {
					if err := do(t.Context()); err != nil && !fault.Is(err, fault.Unavailable) || err == nil && needsBody(name, call) {
						t.Errorf("%s: %v, want Unavailable", call, err)
					}
				})
			}
			all.Wait()
		})
	}
}

// needsBody reports whether a truncated response with status 200 must fail a call: it does not
// matter to a call that reads no body.
func needsBody(answer, call string) bool {
	if answer != "half an answer" {
		return true
	}
	switch call {
	case "Put", "Part", "Abort", "Stat", "Remove", "BucketExists", "Ping":
		return false
	}
	return true
}

// A read from a store that is killed while it sends an object returns Unavailable, and the
// bytes before that are correct.
func TestOpen_UnavailableWhenTheStoreIsKilledWhileItSends(t *testing.T) {
	t.Parallel()
	server := testenv.S3Server(t)
	store := open(t, server.Server.Access)
	bucket, _ := claimed(t, store)
	data := bytes.Repeat([]byte("0123456789abcdef"), 4<<20) // more than all buffers can hold
	put(t, store, bucket, "media/x", "text/plain", data)
	body, err := store.Open(t.Context(), bucket, "media/x", 0, -1)
	must(t, err)
	defer func() { _ = body.Close() }()
	head := make([]byte, 1000)
	if _, err := io.ReadFull(body, head); err != nil || !bytes.Equal(head, data[:1000]) {
		t.Fatalf("the first bytes: %v", err)
	}
	server.Kill()
	rest, err := io.ReadAll(body)
	if !fault.Is(err, fault.Unavailable) || !bytes.Equal(rest, data[1000:1000+len(rest)]) {
		t.Errorf("%d bytes and %v, want Unavailable", len(rest), err)
	}
}
