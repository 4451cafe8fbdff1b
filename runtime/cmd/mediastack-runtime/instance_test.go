package main

import (
	"bytes"
	"context"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"mediastack.dev/hack/testenv"
	testwait "mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/upload"
)

// twoRuntimes are two processes of the shipped runtime, with a tenant.
type twoRuntimes struct {
	*runtimetest.Env
	tenant     runtimetest.Tenant
	first      *testenv.RuntimeProcess
	second     *testenv.RuntimeProcess
	storeFlags []string
}

// startTwo starts two processes that are declared dead after 10 s, with more settings.
func startTwo(t *testing.T, maxStorage int64, settings ...string) *twoRuntimes {
	t.Helper()
	database, s3 := testenv.Postgres(t), testenv.S3(t)
	r := &twoRuntimes{Env: runtimetest.NewWith(t, database, s3), storeFlags: storesOf(database, s3)}
	r.tenant = r.Tenant(t, account.Spec{Name: "one", Owners: []string{"ana@people.example"}, MaxStorage: maxStorage, MaxUploadSize: maxStorage})
	start := func() *testenv.RuntimeProcess {
		return testenv.Runtime(t, testenv.RuntimeConfig{Secret: goodSecret, Stores: testenv.StoreSettings(database, s3),
			Env: append([]string{"SERVICE_INSTANCE_TIMEOUT=10s", "SERVICE_RATE_LIMIT_KEY=0", "SERVICE_RATE_LIMIT_IP=0", "SERVICE_LOG_LEVEL=info"}, settings...)})
	}
	r.first, r.second = start(), start()
	testwait.Until(t, "both processes have a lease", func() bool {
		return r.QueryInt(t, `SELECT count(*) FROM runtime_instance WHERE lease_ends > now()`) == 2
	})
	return r
}

// send uploads a file, and returns the status of the response; 0 = none.
func (r *twoRuntimes) send(ctx context.Context, to *testenv.RuntimeProcess, file io.Reader) (status int, header http.Header, text string) {
	reader, writer := io.Pipe()
	form := multipart.NewWriter(writer)
	go func() {
		part, err := form.CreateFormFile("file", "large.bin")
		if err == nil {
			_, err = io.Copy(part, file)
		}
		if err == nil {
			err = form.Close()
		}
		_ = writer.CloseWithError(err)
	}()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to.BaseURL+"/media/create", reader)
	if err != nil {
		return 0, nil, err.Error()
	}
	request.Header.Set("Content-Type", form.FormDataContentType())
	request.Header.Set("x-service-apikey", r.tenant.Key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	body, _ := io.ReadAll(response.Body)
	return response.StatusCode, response.Header, string(body)
}

// held is a file that is sent until its rest is released.
type held struct {
	io.Reader
	rest *io.PipeWriter
}

func newHeld(first int) held {
	reader, writer := io.Pipe()
	return held{io.MultiReader(bytes.NewReader(runtimetest.RandomBytes(first)), reader), writer}
}

// swept runs the purge as if a minute had passed, and checks that the bucket holds what items name.
func (r *twoRuntimes) swept(t *testing.T, items int64) {
	t.Helper()
	r.QueryInt(t, `WITH due AS (UPDATE object_removal SET not_before = now() - interval '1 second' RETURNING 1) SELECT count(*) FROM due`)
	var out bytes.Buffer
	if code := run(t.Context(), append([]string{"purge"}, r.storeFlags...), stdio{out: &out, err: &out}); code != 0 {
		t.Errorf("the purge: %d: %s", code, out.String())
	}
	out.Reset()
	if code := run(t.Context(), append([]string{"check", "--all", "--deep", "--grace=0s"}, r.storeFlags...), stdio{out: &out, err: &out}); code != 0 {
		t.Errorf("the check: %d: %s", code, out.String())
	}
	if got := r.QueryInt(t, `SELECT count(*) FROM item`); got != items {
		t.Errorf("%d items, want %d", got, items)
	}
}

// The bytes that the uploads of a killed process reserved are free again soon, without the purge.
func TestKilledRuntime_ReleasesTheBytesOfItsUploads(t *testing.T) {
	t.Parallel()
	r := startTwo(t, 40<<20)
	file := newHeld(20 << 20)
	broken := make(chan int, 1)
	go func() { status, _, _ := r.send(context.Background(), r.first, file); broken <- status }()
	testwait.Until(t, "the upload has reserved bytes", func() bool {
		return r.QueryInt(t, `SELECT coalesce(sum(reserved), 0)::bigint FROM upload`) >= upload.PartSize
	})
	must(t, r.first.Signal(syscall.SIGKILL))
	_ = file.rest.Close()
	if status := <-broken; status != 0 {
		t.Errorf("a killed runtime answered %d", status)
	}
	next := runtimetest.RandomBytes(39 << 20)
	if status, _, text := r.send(t.Context(), r.second, bytes.NewReader(next)); status != http.StatusRequestEntityTooLarge {
		t.Errorf("an upload without room was answered %d %s", status, text)
	}
	testwait.Until(t, "an upload that needs the bytes succeeds", func() bool {
		status, _, _ := r.send(t.Context(), r.second, bytes.NewReader(next))
		return status == http.StatusCreated
	})
	r.swept(t, 1)
	r.Counts(t, int64(len(next)), "bytes are used", `SELECT bytes FROM account_usage`)
}

// A process that was paused, and declared dead meanwhile, commits nothing of what it had begun.
func TestPausedRuntime_CommitsNothingAfterItWasDeclaredDead(t *testing.T) {
	t.Parallel()
	r := startTwo(t, 40<<20)
	file := newHeld(20 << 20)
	type response struct {
		status int
		header http.Header
		text   string
	}
	answered := make(chan response, 1)
	go func() {
		status, header, text := r.send(context.Background(), r.first, file)
		answered <- response{status, header, text}
	}()
	testwait.Until(t, "the upload has reserved bytes", func() bool {
		return r.QueryInt(t, `SELECT coalesce(sum(reserved), 0)::bigint FROM upload`) >= upload.PartSize
	})
	must(t, r.first.Signal(syscall.SIGSTOP))
	t.Cleanup(func() { _ = r.first.Signal(syscall.SIGCONT) })
	testwait.Until(t, "the upload is ended", func() bool {
		return r.QueryInt(t, `SELECT count(*) FROM upload`) == 0 && r.QueryInt(t, `SELECT bytes FROM account_usage`) == 0
	})
	must(t, r.first.Signal(syscall.SIGCONT))
	_ = file.rest.Close() // the file is complete
	if got := <-answered; got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" || !strings.Contains(got.text, "try again") {
		t.Errorf("a commit after the end was answered %d %v %s", got.status, got.header, got.text)
	}
	testwait.Until(t, "the process has noticed", func() bool {
		log, err := os.ReadFile(r.first.Spec.LogFile)
		return err == nil && strings.Contains(string(log), "did not renew its lease in time")
	})
	if status, _, text := r.send(t.Context(), r.first, bytes.NewReader(runtimetest.RandomBytes(20<<20))); status != http.StatusCreated {
		t.Errorf("an upload after that was answered %d %s", status, text)
	}
	r.swept(t, 1)
	r.Counts(t, 20<<20, "bytes are used", `SELECT bytes FROM account_usage`)
}
