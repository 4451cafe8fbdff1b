package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/testenv"
	testwait "mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/runtimetest"
)

// A request that waits for events would hold a process up for as long as it waits, or be aborted.
func TestServe_EndsWaitsForEventsWhenItShutsDown(t *testing.T) {
	t.Parallel()
	database, s3 := testenv.Postgres(t), testenv.S3(t)
	tenant := runtimetest.NewWith(t, database, s3).Tenant(t, account.Spec{Name: "one", MaxStorage: 1 << 20, MaxUploadSize: 1 << 20, Journal: time.Hour})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var logs buffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"serve", "--base-url=http://media.test", "--secret=" + goodSecret, "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--drain-delay=0s", "--no-image-enabled",
			"--events-max-wait=60s", "--shutdown-timeout=30s",
			"--database-url=" + database, "--s3-endpoint=" + s3.Endpoint, "--s3-region=" + s3.Region, "--s3-access-key=" + s3.AccessKey, "--s3-secret-key=" + s3.SecretKey},
			stdio{out: &logs, err: &logs})
	}()
	var address, admin string
	testwait.Until(t, "the runtime serves", func() bool {
		address, admin = attribute(logs.String(), "listening", "address"), attribute(logs.String(), "listening", "admin")
		return admin != ""
	})
	get := func(url string) (status int, body string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			return 0, err.Error()
		}
		request.Header.Set("x-service-apikey", tenant.Key)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return 0, err.Error()
		}
		defer func() { _ = response.Body.Close() }()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			return 0, err.Error()
		}
		return response.StatusCode, string(text)
	}
	type answer struct {
		status int
		body   string
	}
	waiting := make(chan answer, 1)
	go func() {
		status, body := get("http://" + address + "/events?after=now&wait=60")
		waiting <- answer{status, body}
	}()
	testwait.Until(t, "the request waits", func() bool {
		_, metrics := get("http://" + admin + "/metrics")
		return strings.Contains(metrics, "mediastack_events_waiting 1\n")
	})
	stop()
	got := testwait.Receive(t, "the answer", waiting)
	var page struct {
		Events []any
		Next   string
	}
	if err := json.Unmarshal([]byte(got.body), &page); err != nil || got.status != http.StatusOK || len(page.Events) > 0 || page.Next == "" {
		t.Errorf("%d %s, want an empty page with a cursor", got.status, got.body)
	}
	if code := <-ended; code != 0 || strings.Contains(logs.String(), "requests aborted at shutdown") {
		t.Errorf("serve ended with %d: %s", code, logs.String())
	}
}
