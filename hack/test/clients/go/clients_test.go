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
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	mediastack "mediastack.dev/clients/go"
	"mediastack.dev/clients/go/api"
	"mediastack.dev/hack/test/clients/clienttest"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// The tests of this function share one service. Planned faults are for the next request, so they run one after the other.
func TestClient_UploadsReadsAndRetries(t *testing.T) {
	t.Parallel()
	service := clienttest.New(t)
	for name, test := range map[string]func(*testing.T, *fixture){
		"a small file is sent as a form and sealed in one call":          testForm,
		"a large file is resumed after broken connections":               testResumed,
		"an upload whose context ends is continued by another call":      testContinued,
		"an upload whose context ends is removed without a URL":          testRemoved,
		"all pages are listed, each item once":                           testPages,
		"items are found by every filter, and read by cursor":            testFind,
		"items are found by words, and by when and where they were made": testSearch,
		"an item is changed, and values are removed":                     testUpdate,
		"items are deleted and restored, one and many":                   testUndo,
		"a delete says until when it can be undone, or is permanent":     testPermanent,
		"all deleted items are restored while they are listed":           testRestoreAll,
		"running uploads are listed and ended":                           testRunning,
		"events are followed over restarts":                              testEvents,
		"members of documents are selected, and totals filtered":         testFields,
		"a file is uploaded from a URL, and sealed":                      testFromURL,
		"an item is read in part and deleted":                            testDelete,
		"settings, totals and every other route are reached":             testRoutes,
		"a signature uploads into its group, and seals if it may":        testSignature,
		"each error has its code, status, detail and request id":         testErrors,
		"503 with Retry-After is waited for":                             testUnavailable,
		"the rate limit of the service is waited for":                    testRateLimit,
		"a request whose answer is lost is repeated, but a form is not":  testLostAnswers,
		"the program of the README runs":                                 testReadme,
		"a call ends with its context, also while it waits":              testCancel,
	} {
		t.Run(name, func(t *testing.T) { test(t, newFixture(t, service)) })
	}
}

// The program of the README, in a module that requires nothing but the client.
func testReadme(t *testing.T, f *fixture) {
	client := filepath.Join(testenv.RepoRoot(t), "clients/go")
	text, err := os.ReadFile(filepath.Join(client, "README.md"))
	must(t, err)
	_, code, _ := strings.Cut(string(text), "```go\n")
	code, _, _ = strings.Cut(code, "```")
	sums, err := os.ReadFile(filepath.Join(client, "go.sum"))
	must(t, err)
	folder := t.TempDir()
	for name, content := range map[string]string{
		"main.go": code, "go.sum": string(sums), "photo.jpg": "a photo",
		"go.mod": "module example.org/user\n\ngo 1.26.0\n\nrequire mediastack.dev/clients/go v0.0.0\n\nreplace mediastack.dev/clients/go => " + client + "\n",
	} {
		must(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600))
	}
	out := testenv.Run(t, 3*time.Minute, folder, "env", "GOFLAGS=-mod=mod", "URL="+f.BaseURL, "API_KEY="+f.APIKey, "go", "run", ".")
	if lines := strings.Split(out, "\n"); len(lines) < 2 || !strings.HasPrefix(lines[0], "sealed ") || lines[1] != "photo.jpg 7" {
		t.Errorf("it printed %s", out)
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

// pausedAfter is the size of a chunk, in bytes. The connection may send the rest of the second one before it ends, so a
// file that must not be complete then has three.
const pausedAfter = 5 << 20

// stopAfter returns options of an upload that end its context in the second chunk.
func stopAfter(cancel context.CancelCauseFunc) mediastack.UploadOptions {
	return mediastack.UploadOptions{ChunkSize: pausedAfter, OnProgress: func(sent, _ int64) {
		if sent > pausedAfter {
			cancel(errors.New("paused"))
		}
	}}
}

func testContinued(t *testing.T, f *fixture) {
	content := random(3 * pausedAfter)
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
	if requests, _ := f.Front.Seen(); count(requests, "POST "+resumables) != 0 || len(progress) > 0 && progress[0] < pausedAfter {
		t.Errorf("it began again, after %d bytes: %v", progress[0], requests)
	}
	f.stored(t, item, content)
}

func testRemoved(t *testing.T, f *fixture) {
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err := f.client.Upload(ctx, bytes.NewReader(random(3*pausedAfter)), stopAfter(cancel))
	requests, _ := f.Front.Seen()
	removal := slices.IndexFunc(requests, func(request string) bool { return strings.HasPrefix(request, "DELETE "+resumables) })
	if err == nil || removal < 0 {
		t.Fatalf("%v after %v", err, requests)
	}
	address := f.BaseURL + strings.TrimPrefix(requests[removal], "DELETE ")
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
	for item, err := range f.client.Items(t.Context(), mediastack.ListOptions{Filter: mediastack.Filter{Group: "list"}}) {
		must(t, err)
		listed = append(listed, item.MediaID)
	}
	if !slices.Equal(listed, ids) {
		t.Errorf("listed %v, want %v", listed, ids)
	}
	page, err := f.client.List(t.Context(), mediastack.ListOptions{Filter: mediastack.Filter{Group: "list"}, Page: 2, Limit: 2})
	must(t, err)
	if page.Total == nil || *page.Total != 5 || len(page.Items) != 2 || page.Items[0].MediaID != ids[2] {
		t.Errorf("page 2: %+v", page)
	}
	if n, err := f.client.Count(t.Context(), mediastack.Filter{Group: "list"}); err != nil || n.Count != 5 {
		t.Errorf("the count is %+v, %v", n, err)
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
	_, err = f.client.Delete(t.Context(), draft.MediaID)
	must(t, err)
	_, err = f.client.Get(t.Context(), draft.MediaID)
	checkError(t, err, api.ErrorCodeNotFound, http.StatusNotFound)
	_, err = f.client.Delete(t.Context(), draft.MediaID)
	checkError(t, err, api.ErrorCodeNotFound, http.StatusNotFound)
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
	totals, err := f.client.Totals(t.Context(), mediastack.Filter{})
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
		group := "signed"
		signature, err := f.client.CreateSignature(ctx, mediastack.SignatureRequest{Group: &group})
		if err != nil {
			return "", err
		}
		return signature.Signature, nil
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
	var unsealed *mediastack.NotSealedError
	if _, err := signed.Upload(t.Context(), strings.NewReader("x"), mediastack.UploadOptions{Seal: true}); !errors.As(err, &unsealed) {
		t.Fatalf("a signature that does not seal: %v", err)
	}
	_, err := f.client.Seal(t.Context(), unsealed.MediaID)
	must(t, err)
	count, seal := 1, true
	capability, err := f.client.CreateSignature(t.Context(), mediastack.SignatureRequest{Count: &count, Seal: &seal, Types: &[]string{"text/*"}})
	must(t, err)
	if capability.UploadURL != f.BaseURL+"/media/create" || capability.ResumableURL != f.BaseURL+resumables || !capability.ExpiresAt.After(time.Now()) {
		t.Errorf("the signature is %+v", capability)
	}
	once, err := mediastack.NewOfSignature(*capability, mediastack.Options{Retry: f.retry})
	must(t, err)
	if _, err := once.Upload(t.Context(), strings.NewReader("%PDF-1.4"), mediastack.UploadOptions{ResumableFrom: -1}); err == nil {
		t.Error("a PDF is accepted")
	}
	sealed, err := once.Upload(t.Context(), strings.NewReader("abc"), mediastack.UploadOptions{ResumableFrom: -1, Seal: true})
	must(t, err)
	if sealed.Temp || sealed.SealedAt == nil {
		t.Errorf("the item is %+v", sealed)
	}
	if _, err := once.Upload(t.Context(), strings.NewReader("abc"), mediastack.UploadOptions{}); err == nil {
		t.Error("it is used twice")
	}
	long := mediastack.UploadOptions{Caption: strings.Repeat("ä", 2000), ResumableFrom: -1}
	item, err := f.client.Upload(t.Context(), strings.NewReader("x"), long)
	must(t, err)
	if item.Caption != long.Caption {
		t.Errorf("the caption has %d bytes", len(item.Caption))
	}
	var missing *mediastack.MissingDocumentError
	if _, err := signed.Upload(t.Context(), strings.NewReader("x"), long); !errors.As(err, &missing) {
		t.Fatalf("a document that is too long for a header: %v", err)
	}
	_, err = f.client.Get(t.Context(), missing.MediaID)
	must(t, err)
	broken := errors.New("no signature")
	failing := f.with(t, mediastack.UploadSignature(func(context.Context) (string, error) { return "", broken }))
	if _, err := failing.Upload(t.Context(), strings.NewReader("x"), mediastack.UploadOptions{}); !errors.Is(err, broken) {
		t.Errorf("the error of the function is %v", err)
	}
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

var must = check.NoError
