// Package go_test tests the Go client with the shipped runtime.
package go_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	mediastack "mediastack.dev/clients/go"
	"mediastack.dev/clients/go/api"
	"mediastack.dev/hack/test/clients/clienttest"
	"mediastack.dev/hack/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// The tests of this function share one service. Planned faults are for the next request, so they run one after the other.
func TestClient_UploadsReadsAndRetries(t *testing.T) {
	t.Parallel()
	service := clienttest.New(t)
	for name, test := range map[string]func(*testing.T, *fixture){
		"a small file is sent as a form and sealed in one call":         testForm,
		"a large file is resumed after broken connections":              testResumed,
		"an upload whose context ends is continued by another call":     testContinued,
		"an upload whose context ends is removed without a URL":         testRemoved,
		"all pages are listed, each item once":                          testPages,
		"an item is read in part and deleted":                           testDelete,
		"settings, totals and every other route are reached":            testRoutes,
		"a signature uploads into its group, and cannot seal":           testSignature,
		"each error has its code, status, detail and request id":        testErrors,
		"503 with Retry-After is waited for":                            testUnavailable,
		"the rate limit of the service is waited for":                   testRateLimit,
		"a request whose answer is lost is repeated, but a form is not": testLostAnswers,
		"a call ends with its context, also while it waits":             testCancel,
	} {
		t.Run(name, func(t *testing.T) { test(t, newFixture(t, service)) })
	}
}

// fixture is the service with a client of it, whose waits are recorded and end at once.
type fixture struct {
	*clienttest.Service
	client *mediastack.Client
	retry  mediastack.Retry
	waits  []time.Duration
}

func newFixture(t *testing.T, service *clienttest.Service) *fixture {
	t.Helper()
	service.Front.Reset()
	f := &fixture{Service: service}
	f.retry = mediastack.Retry{Attempts: 3, UploadAttempts: 4, Wait: func(ctx context.Context, delay time.Duration) error {
		f.waits = append(f.waits, delay)
		return ctx.Err()
	}}
	f.client = f.with(t, mediastack.APIKey(service.APIKey))
	return f
}

func (f *fixture) with(t *testing.T, credential mediastack.Credential) *mediastack.Client {
	t.Helper()
	client, err := mediastack.New(f.BaseURL, credential, mediastack.Options{Retry: f.retry})
	must(t, err)
	return client
}

// stored checks the file of an item.
func (f *fixture) stored(t *testing.T, item *mediastack.Item, want []byte) {
	t.Helper()
	sum := sha256.Sum256(want)
	if item.Size != int64(len(want)) || item.Sha256 != hex.EncodeToString(sum[:]) {
		t.Errorf("the item has %d bytes and the checksum %s", item.Size, item.Sha256)
	}
	file, err := f.client.Open(t.Context(), item.File, 0)
	must(t, err)
	defer file.Close()
	if got, err := io.ReadAll(file); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the file has %d bytes: %v", len(got), err)
	}
}

const (
	resumables = "/media/create/resumable"
	unknownID  = "00000000-0000-4000-8000-000000000000"
)

func random(size int) []byte {
	content := make([]byte, size)
	_, _ = rand.Read(content)
	return content
}

func testForm(t *testing.T, f *fixture) {
	var progress []int64
	item, err := f.client.Upload(t.Context(), strings.NewReader("a text"), mediastack.UploadOptions{FileName: "Ferien 🏖 \"1\".txt", Caption: "Größe", Group: "form", Access: mediastack.Public, Seal: true,
		OnProgress: func(sent, total int64) { progress = append(progress, sent, total) }})
	must(t, err)
	if item.OriginalFileName != "Ferien 🏖 \"1\".txt" || item.Caption != "Größe" || item.Group != "form" || item.Access != mediastack.Public || item.Temp {
		t.Errorf("the item is %+v", item)
	}
	if !slices.Equal(progress, []int64{6, 6}) {
		t.Errorf("progress: %v", progress)
	}
	if requests, _ := f.Front.Seen(); !slices.Equal(requests, []string{"POST /media/create", "POST /media/seal/" + item.MediaID}) {
		t.Errorf("requests: %v", requests)
	}
	f.stored(t, item, []byte("a text"))
	empty, err := f.client.Upload(t.Context(), strings.NewReader(""), mediastack.UploadOptions{ResumableFrom: -1})
	must(t, err)
	f.stored(t, empty, nil)
}

func testResumed(t *testing.T, f *fixture) {
	content := random(9 << 20)
	for _, chunk := range []int64{0, 5 << 20} {
		f.Front.Reset()
		f.Front.Plan(clienttest.Fault{Method: http.MethodPatch, Path: resumables, Count: 1, CutAfter: 4 << 20})
		f.Front.Plan(clienttest.Fault{Method: http.MethodHead, Path: resumables, Count: 1, Status: http.StatusLocked})
		item, err := f.client.Upload(t.Context(), bytes.NewReader(content), mediastack.UploadOptions{FileName: "large.bin", Seal: true, ChunkSize: chunk})
		must(t, err)
		requests, sent := f.Front.Seen()
		if created := count(requests, "POST "+resumables); created != 1 || sent >= 2*int64(len(content)) {
			t.Errorf("%d uploads were created and %d bytes were sent: %v", created, sent, requests)
		}
		if item.OriginalFileName != "large.bin" || item.Temp {
			t.Errorf("the item is %+v", item)
		}
		f.stored(t, item, content)
	}
}

// stopAfter returns options of an upload that end its context after some bytes.
func stopAfter(cancel context.CancelCauseFunc) mediastack.UploadOptions {
	return mediastack.UploadOptions{ChunkSize: 5 << 20, OnProgress: func(sent, _ int64) {
		if sent > 5<<20 {
			cancel(errors.New("paused"))
		}
	}}
}

func testContinued(t *testing.T, f *fixture) {
	content := random(9 << 20)
	ctx, cancel := context.WithCancelCause(t.Context())
	options := stopAfter(cancel)
	var uploadURL string
	options.OnUploadURL = func(address string) { uploadURL = address }
	if _, err := f.client.Upload(ctx, bytes.NewReader(content), options); err == nil || err.Error() != "paused" {
		t.Fatalf("the error is %v", err)
	}
	f.Front.Reset()
	var progress []int64
	item, err := f.client.Upload(t.Context(), bytes.NewReader(content), mediastack.UploadOptions{UploadURL: uploadURL, OnProgress: func(sent, _ int64) { progress = append(progress, sent) }})
	must(t, err)
	if requests, _ := f.Front.Seen(); count(requests, "POST "+resumables) != 0 || len(progress) > 0 && progress[0] < 5<<20 {
		t.Errorf("it began again, after %d bytes: %v", progress[0], requests)
	}
	f.stored(t, item, content)
}

func testRemoved(t *testing.T, f *fixture) {
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err := f.client.Upload(ctx, bytes.NewReader(random(9<<20)), stopAfter(cancel))
	requests, _ := f.Front.Seen()
	last := requests[len(requests)-1]
	if err == nil || !strings.HasPrefix(last, "DELETE "+resumables) {
		t.Fatalf("%v, and the last request is %s", err, last)
	}
	address := f.BaseURL + strings.TrimPrefix(last, "DELETE ")
	must(t, f.client.CancelUpload(t.Context(), address)) // there is none
	_, err = f.client.Upload(t.Context(), bytes.NewReader(nil), mediastack.UploadOptions{UploadURL: address})
	checkError(t, err, api.ErrorCodeNotFound, http.StatusNotFound)
	if err := f.client.CancelUpload(t.Context(), "https://example.org/media/create/resumable/1"); err == nil {
		t.Error("the credential is sent elsewhere")
	}
}

func testPages(t *testing.T, f *fixture) {
	var ids, listed []string
	for i := range 5 {
		item, err := f.client.Upload(t.Context(), strings.NewReader(fmt.Sprint("item ", i)), mediastack.UploadOptions{Seal: true, Group: "list"})
		must(t, err)
		ids = append([]string{item.MediaID}, ids...)
	}
	for item, err := range f.client.Items(t.Context(), mediastack.Filter{Group: "list"}) {
		must(t, err)
		listed = append(listed, item.MediaID)
	}
	if !slices.Equal(listed, ids) {
		t.Errorf("listed %v, want %v", listed, ids)
	}
	page, err := f.client.List(t.Context(), mediastack.ListOptions{Filter: mediastack.Filter{Group: "list"}, Page: 2, Limit: 2})
	must(t, err)
	if page.Total != 5 || len(page.Items) != 2 || page.Items[0].MediaID != ids[2] {
		t.Errorf("page 2: %+v", page)
	}
	if n, err := f.client.Count(t.Context(), mediastack.Filter{Group: "list"}); err != nil || n != 5 {
		t.Errorf("the count is %d, %v", n, err)
	}
}

func testDelete(t *testing.T, f *fixture) {
	draft, err := f.client.Upload(t.Context(), strings.NewReader("0123456789"), mediastack.UploadOptions{})
	must(t, err)
	file, err := f.client.Open(t.Context(), draft.File, 7)
	must(t, err)
	defer file.Close()
	if rest, err := io.ReadAll(file); err != nil || string(rest) != "789" {
		t.Errorf("the rest is %q, %v", rest, err)
	}
	_, err = f.client.Open(t.Context(), draft.File, 100)
	checkError(t, err, api.ErrorCodeRangeNotSatisfiable, http.StatusRequestedRangeNotSatisfiable)
	must(t, f.client.Delete(t.Context(), draft.MediaID))
	_, err = f.client.Get(t.Context(), draft.MediaID)
	checkError(t, err, api.ErrorCodeNotFound, http.StatusNotFound)
	checkError(t, f.client.Delete(t.Context(), draft.MediaID), api.ErrorCodeNotFound, http.StatusNotFound)
}

func testRoutes(t *testing.T, f *fixture) {
	before, err := f.client.Settings(t.Context())
	must(t, err)
	quality := before.WebpOutputQuality - 1
	after, err := f.client.UpdateSettings(t.Context(), mediastack.SettingsChange{WebpOutputQuality: &quality})
	must(t, err)
	if after.WebpOutputQuality != quality || after.Changed == nil || !slices.Equal(*after.Changed, []string{"webpOutputQuality"}) {
		t.Errorf("the settings are %+v", after)
	}
	totals, err := f.client.Totals(t.Context())
	must(t, err)
	if totals.MaxStorage != 1<<30 {
		t.Errorf("the totals are %+v", totals)
	}
	listed, err := f.client.API.ListMediaByPostWithResponse(t.Context(), nil, api.ListQuery{})
	if err != nil || listed.JSON200 == nil {
		t.Errorf("a list by POST: %v, %v", listed, err)
	}
}

func testSignature(t *testing.T, f *fixture) {
	made := 0
	signed := f.with(t, mediastack.UploadSignature(func(ctx context.Context) (string, error) {
		made++
		return f.client.CreateSignature(ctx, "signed")
	}))
	content := random(9 << 20)
	for _, from := range []int64{1 << 30, -1} {
		draft, err := signed.Upload(t.Context(), bytes.NewReader(content), mediastack.UploadOptions{Group: "another", ResumableFrom: from})
		must(t, err)
		if draft.Group != "signed" || !draft.Temp {
			t.Errorf("the draft is %+v", draft)
		}
		f.stored(t, draft, content)
	}
	if made != 3 {
		t.Errorf("%d signatures, want one for each request", made)
	}
	if _, err := signed.Upload(t.Context(), strings.NewReader("x"), mediastack.UploadOptions{Seal: true}); err == nil {
		t.Error("a signature seals")
	}
	broken := errors.New("no signature")
	failing := f.with(t, mediastack.UploadSignature(func(context.Context) (string, error) { return "", broken }))
	if _, err := failing.Upload(t.Context(), strings.NewReader("x"), mediastack.UploadOptions{}); !errors.Is(err, broken) {
		t.Errorf("the error of the function is %v", err)
	}
}

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
	_, err = f.client.Totals(t.Context())
	if checkError(t, err, api.ErrorCodeUnavailable, http.StatusServiceUnavailable).RetryAfter != 7*time.Second || !slices.Equal(f.waits, seconds(5)) {
		t.Errorf("%v after %v", err, f.waits)
	}
	f.Front.Reset()
	f.waits = nil
	f.Front.Plan(clienttest.Fault{Method: http.MethodGet, Path: "/media/get/size", Count: 1, Status: http.StatusTooManyRequests, RetryAfter: "3600"})
	if _, err = f.client.Totals(t.Context()); checkError(t, err, api.ErrorCodeTooManyRequests, http.StatusTooManyRequests).RetryAfter != time.Hour || f.waits != nil {
		t.Errorf("a wait over MaxDelay: %v after %v", err, f.waits)
	}
}

func testRateLimit(t *testing.T, f *fixture) {
	once, err := mediastack.New(f.LimitedURL, mediastack.APIKey(f.APIKey), mediastack.Options{Retry: mediastack.Retry{Attempts: 1}})
	must(t, err)
	for err == nil {
		_, err = once.Totals(t.Context())
	}
	if limited := checkError(t, err, api.ErrorCodeTooManyRequests, http.StatusTooManyRequests); limited.RetryAfter != time.Second {
		t.Errorf("the error is %+v", limited)
	}
	waiting, err := mediastack.New(f.LimitedURL, mediastack.APIKey(f.APIKey), mediastack.Options{})
	must(t, err)
	_, err = waiting.Totals(t.Context())
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
	must(t, f.client.Delete(t.Context(), draft.MediaID))
	f.Front.Reset()
	lose(http.MethodPost, "/media/create", 1)
	_, err = f.client.Upload(t.Context(), strings.NewReader("a text"), mediastack.UploadOptions{})
	if requests, _ := f.Front.Seen(); err == nil || len(requests) != 1 {
		t.Errorf("the form: %v after %v", err, requests)
	}
	lose(http.MethodGet, "/media/get/size", 9)
	_, err = f.client.Totals(t.Context())
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
			_, err := waiting.Totals(ctx)
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

func checkError(t *testing.T, err error, code api.ErrorCode, status int) *mediastack.Error {
	t.Helper()
	var answered *mediastack.Error
	if !errors.As(err, &answered) {
		t.Fatalf("the error is %v", err)
	}
	if answered.Code != code || answered.Status != status {
		t.Errorf("the error is %+v, want %s %d", answered, code, status)
	}
	return answered
}

func count(requests []string, one string) int {
	n := 0
	for _, request := range requests {
		if request == one {
			n++
		}
	}
	return n
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
