package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"mediastack.dev/hack/testenv"
	testwait "mediastack.dev/hack/testenv/wait"
)

// A store without conditional puts answers all other requests, and the runtime was once ready.
func TestServe_NamesAStoreWithoutConditionalPut(t *testing.T) {
	t.Parallel()
	s3 := testenv.S3(t)
	target, err := url.Parse(s3.Endpoint)
	must(t, err)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = r.In.Host }} // the host is signed
	swift := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("If-None-Match") != "" {
			w.WriteHeader(http.StatusNotImplemented)
			_, _ = w.Write([]byte("<Error><Code>NotImplemented</Code></Error>"))
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(swift.Close)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var logs buffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"serve", "--base-url=http://media.test", "--secret=" + goodSecret, "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--drain-delay=0s", "--no-image-enabled",
			"--database-url=" + testenv.Postgres(t), "--s3-endpoint=" + swift.URL, "--s3-region=" + s3.Region, "--s3-access-key=" + s3.AccessKey, "--s3-secret-key=" + s3.SecretKey},
			stdio{out: &logs, err: &logs})
	}()
	const want = "the object store does not support conditional puts (If-None-Match: *) and cannot be used"
	testwait.Until(t, "the log names the store", func() bool { return strings.Contains(logs.String(), want) })
	var admin string
	testwait.Until(t, "the runtime serves", func() bool { admin = attribute(logs.String(), "listening", "admin"); return admin != "" })
	response, err := http.Get("http://" + admin + "/readyz")
	must(t, err)
	defer func() { _ = response.Body.Close() }()
	var answer struct{ Checks map[string]string }
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(answer.Checks["objects"], want) {
		t.Errorf("/readyz: %d %v %v", response.StatusCode, answer, err)
	}
	stop()
	if code := <-ended; code != 0 {
		t.Errorf("serve ended with %d: %s", code, logs.String())
	}
}
