package go_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	mediastack "mediastack.dev/clients/go"
	"mediastack.dev/clients/go/api"
	"mediastack.dev/hack/test/clients/clienttest"
)

func testErrors(t *testing.T, f *fixture) {
	wrong := func(context.Context) (string, error) { return "wrong", nil }
	upload := func(client *mediastack.Client, size int, options mediastack.UploadOptions) error {
		_, err := client.Upload(t.Context(), bytes.NewReader(make([]byte, size)), options)
		return err
	}
	get := func(credential mediastack.Credential) error {
		_, err := f.with(t, credential).Get(t.Context(), unknownID)
		return err
	}
	_, listErr := f.client.List(t.Context(), mediastack.ListOptions{Limit: 1000})
	for _, one := range []struct {
		err    error
		code   api.ErrorCode
		status int
	}{
		{get(mediastack.APIKey(f.APIKey)), api.ErrorCodeNotFound, 404},
		{get(mediastack.APIKey("msk_wrong")), api.ErrorCodeUnauthorized, 401},
		{get(mediastack.AccessToken(wrong)), api.ErrorCodeUnauthorized, 401},
		{listErr, api.ErrorCodeInvalidRequest, 400},
		{upload(f.with(t, mediastack.UploadSignature(wrong)), 10, mediastack.UploadOptions{}), api.ErrorCodeInvalidSignature, 403},
		{upload(f.client, clienttest.MaxUploadSize+1, mediastack.UploadOptions{}), api.ErrorCodePayloadTooLarge, 413},
		{upload(f.client, 10, mediastack.UploadOptions{Access: "secret"}), api.ErrorCodeInvalidRequest, 400},
		{upload(f.client, 10, mediastack.UploadOptions{Access: "secret", ResumableFrom: -1}), api.ErrorCodeInvalidRequest, 400},
	} {
		answered := checkError(t, one.err, one.code, one.status)
		if answered.Detail == "" || answered.RequestID == "" {
			t.Errorf("%+v has no detail or no id", answered)
		}
	}
	f.Front.Plan(clienttest.Fault{Method: http.MethodGet, Path: "/media/get/count", Count: 1, Status: http.StatusBadGateway, Body: "<h1>Bad Gateway</h1>"})
	_, err := f.client.Count(t.Context(), mediastack.Filter{})
	checkError(t, err, mediastack.CodeUnknown, http.StatusBadGateway)
	f.Front.Plan(clienttest.Fault{Method: http.MethodGet, Path: "/media/get/count", Count: 1, Status: http.StatusOK, Body: "<h1>Log in to the network</h1>"})
	_, err = f.client.Count(t.Context(), mediastack.Filter{})
	checkError(t, err, mediastack.CodeUnknown, http.StatusOK)
	f.Front.Plan(clienttest.Fault{Method: http.MethodGet, Path: "/media/get/count", Count: 2, BreakAnswer: true})
	_, err = f.client.Count(t.Context(), mediastack.Filter{})
	must(t, err) // the third answer is whole
	for _, address := range []string{"media.example.org", "ftp://media.example.org", ""} {
		if _, err := mediastack.New(address, mediastack.APIKey("x"), mediastack.Options{}); err == nil {
			t.Errorf("%q is a base URL", address)
		}
	}
}

func testUnavailable(t *testing.T, f *fixture) {
	unavailable := func(method, path string, count int) {
		f.Front.Plan(clienttest.Fault{Method: method, Path: path, Count: count, Status: http.StatusServiceUnavailable, RetryAfter: "7", Body: `{"error": "Service Unavailable", "code": "unavailable"}`})
	}
	seconds := func(n int) []time.Duration { return slices.Repeat([]time.Duration{7 * time.Second}, n) }
	unavailable(http.MethodPost, "/media/create", 2)
	unavailable(http.MethodPost, "/media/seal/", 2)
	item, err := f.client.Upload(t.Context(), strings.NewReader("a text"), mediastack.UploadOptions{Seal: true})
	must(t, err)
	f.stored(t, item, []byte("a text"))
	if !slices.Equal(f.waits, seconds(4)) {
		t.Errorf("waits of the form and the seal: %v", f.waits)
	}
	f.waits = nil
	unavailable(http.MethodPatch, resumables, 2)
	_, err = f.client.Upload(t.Context(), bytes.NewReader(random(9<<20)), mediastack.UploadOptions{})
	must(t, err)
	if !slices.Equal(f.waits, seconds(2)) {
		t.Errorf("waits of the resumable upload: %v", f.waits)
	}
	f.waits = nil
	unavailable(http.MethodPatch, resumables, 9)
	_, err = f.client.Upload(t.Context(), strings.NewReader("a text"), mediastack.UploadOptions{ResumableFrom: -1})
	checkError(t, err, api.ErrorCodeUnavailable, http.StatusServiceUnavailable)
	unavailable(http.MethodGet, "/media/get/size", 9)
	_, err = f.client.Totals(t.Context(), mediastack.Filter{})
	if checkError(t, err, api.ErrorCodeUnavailable, http.StatusServiceUnavailable).RetryAfter != 7*time.Second || !slices.Equal(f.waits, seconds(5)) {
		t.Errorf("%v after %v", err, f.waits)
	}
	f.Front.Reset()
	f.waits = nil
	f.Front.Plan(clienttest.Fault{Method: http.MethodGet, Path: "/media/get/size", Count: 1, Status: http.StatusTooManyRequests, RetryAfter: "3600"})
	if _, err = f.client.Totals(t.Context(), mediastack.Filter{}); checkError(t, err, api.ErrorCodeTooManyRequests, http.StatusTooManyRequests).RetryAfter != time.Hour || f.waits != nil {
		t.Errorf("a wait over MaxDelay: %v after %v", err, f.waits)
	}
}

func testRateLimit(t *testing.T, f *fixture) {
	once, err := mediastack.New(f.LimitedURL, mediastack.APIKey(f.APIKey), mediastack.Options{Retry: mediastack.Retry{Attempts: 1}})
	must(t, err)
	for err == nil {
		_, err = once.Totals(t.Context(), mediastack.Filter{})
	}
	if limited := checkError(t, err, api.ErrorCodeTooManyRequests, http.StatusTooManyRequests); limited.RetryAfter < time.Second || limited.RetryAfter > 2*time.Second { // the service spreads them
		t.Errorf("the error is %+v", limited)
	}
	waiting, err := mediastack.New(f.LimitedURL, mediastack.APIKey(f.APIKey), mediastack.Options{})
	must(t, err)
	_, err = waiting.Totals(t.Context(), mediastack.Filter{})
	must(t, err)
}

func testLostAnswers(t *testing.T, f *fixture) {
	lose := func(method, path string, count int) {
		f.Front.Plan(clienttest.Fault{Method: method, Path: path, Count: count, BreakAnswer: true})
	}
	draft, err := f.client.Upload(t.Context(), strings.NewReader("a text"), mediastack.UploadOptions{})
	must(t, err)
	lose(http.MethodPost, "/media/seal/", 2)
	sealed, err := f.client.Seal(t.Context(), draft.MediaID)
	must(t, err)
	if sealed.Temp || len(f.waits) != 2 {
		t.Errorf("after %v: %+v", f.waits, sealed)
	}
	lose(http.MethodDelete, "/media/delete/", 1)
	_, err = f.client.Delete(t.Context(), draft.MediaID)
	must(t, err)
	f.Front.Reset()
	lose(http.MethodPost, "/media/create", 1)
	_, err = f.client.Upload(t.Context(), strings.NewReader("a text"), mediastack.UploadOptions{})
	if requests, _ := f.Front.Seen(); err == nil || len(requests) != 1 {
		t.Errorf("the form: %v after %v", err, requests)
	}
	lose(http.MethodGet, "/media/get/size", 9)
	_, err = f.client.Totals(t.Context(), mediastack.Filter{})
	var answered *mediastack.Error
	if err == nil || errors.As(err, &answered) {
		t.Errorf("after all attempts: %v", err)
	}
}

func testCancel(t *testing.T, f *fixture) {
	stopped := errors.New("stopped")
	for _, fault := range []clienttest.Fault{{Hold: true}, {Status: http.StatusServiceUnavailable, RetryAfter: "20"}} {
		fault.Method, fault.Path, fault.Count = http.MethodGet, "/media/get/size", 1
		f.Front.Plan(fault)
		waiting, err := mediastack.New(f.BaseURL, mediastack.APIKey(f.APIKey), mediastack.Options{})
		must(t, err)
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := waiting.Totals(ctx, mediastack.Filter{})
			ended <- err
		}()
		for requests := []string(nil); len(requests) == 0; requests, _ = f.Front.Seen() {
		}
		cancel(stopped)
		if err := <-ended; !errors.Is(err, stopped) {
			t.Errorf("%+v: %v", fault, err)
		}
	}
}

func checkError(t *testing.T, err error, code api.ErrorCode, status int) mediastack.Error {
	t.Helper()
	var answered *mediastack.Error
	if !errors.As(err, &answered) {
		t.Fatalf("the error is %v", err)
	}
	if answered.Code != code || answered.Status != status {
		t.Errorf("the error is %+v, want %s %d", answered, code, status)
	}
	return *answered
}
