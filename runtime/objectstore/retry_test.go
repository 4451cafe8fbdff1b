package objectstore_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/objectstore"
)

// The S3 client once retried the initiation of a multipart upload when the response was lost.
// The store then had two, of which the caller knew one: the other was never removed. A crash
// run found it.
func TestStartMultipart_IsNotRetriedWhenTheResponseIsLost(t *testing.T) {
	t.Parallel()
	access := testenv.S3(t)
	target, err := url.Parse(access.Endpoint)
	must(t, err)
	var initiated atomic.Int64
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = r.In.Host }, // the host is signed
		ModifyResponse: func(r *http.Response) error {
			if r.Request.Method == http.MethodPost && r.Request.URL.Query().Has("uploads") {
				initiated.Add(1)
				panic(http.ErrAbortHandler) // executed, and the response is lost
			}
			return nil
		},
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	behind := access
	behind.Endpoint = server.URL
	store, lossy := open(t, access), open(t, behind)
	bucket, _ := claimed(t, store)
	if _, err := lossy.StartMultipart(t.Context(), bucket, "media/x/original", "image/png"); err == nil {
		t.Fatal("StartMultipart succeeded without a response")
	}
	if n := initiated.Load(); n != 1 {
		t.Errorf("the upload was initiated %d times", n)
	}
	if n := unfinished(t, store, bucket); n != 1 {
		t.Errorf("%d uploads are incomplete", n)
	}
	must(t, store.AbortIncomplete(t.Context(), bucket, "media/x/original"))
	if n := unfinished(t, store, bucket); n != 0 {
		t.Errorf("%d uploads are left", n)
	}
}

func TestAbortIncomplete_AbortsEveryUploadOfTheKeyAndNoOther(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, store *objectstore.Store) {
		bucket, _ := claimed(t, store)
		for _, key := range []string{"media/x/original", "media/x/original", "media/x/original-not", "media/x/original"} {
			_, err := store.StartMultipart(t.Context(), bucket, key, "image/png")
			must(t, err)
		}
		must(t, store.AbortIncomplete(t.Context(), bucket, "media/x/original"))
		must(t, store.ListIncomplete(t.Context(), bucket, "media/x/original", func(u media.IncompleteUpload) error {
			if strings.HasSuffix(u.Key, "/original") {
				t.Error("an upload is left")
			}
			return nil
		}))
		must(t, store.AbortIncomplete(t.Context(), bucket, "media/x/original-not"))
	})
}

func unfinished(t *testing.T, store *objectstore.Store, bucket string) (n int) {
	t.Helper()
	must(t, store.ListIncomplete(t.Context(), bucket, "", func(media.IncompleteUpload) error { n++; return nil }))
	return n
}

// A store that was killed during Complete once answered the repeated request with success
// without an object: an item without its file was committed. A crash run found it.
func TestComplete_FailsWithoutItsObject(t *testing.T) {
	t.Parallel()
	access := testenv.S3(t)
	target, err := url.Parse(access.Endpoint)
	must(t, err)
	const lie = `<CompleteMultipartUploadResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Key>x</Key><ETag>"1"</ETag></CompleteMultipartUploadResult>`
	var lies atomic.Bool
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = r.In.Host }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if lies.Load() && r.Method == http.MethodPost && r.URL.Query().Has("uploadId") {
			_, _ = w.Write([]byte(lie))
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	access.Endpoint = server.URL
	store := open(t, access)
	bucket, _ := claimed(t, store)
	upload, err := store.StartMultipart(t.Context(), bucket, "media/x/original", "image/png")
	must(t, err)
	must(t, upload.Part(t.Context(), strings.NewReader("abc"), 3))
	lies.Store(true)
	if err := upload.Complete(t.Context(), "image/png"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("completed without an object: %v", err)
	}
	lies.Store(false)
	must(t, upload.Complete(t.Context(), "image/png"))
	must(t, upload.Complete(t.Context(), "image/png")) // its answer may have been lost
	if got := read(t, store, bucket, "media/x/original", 0, -1); string(got) != "abc" {
		t.Errorf("the object is %q", got)
	}
}
