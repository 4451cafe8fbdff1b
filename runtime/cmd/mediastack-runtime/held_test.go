package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv"
	testwait "mediastack.dev/hack/testenv/wait"
)

// countingProxy returns the flag of an S3 store whose writes are counted.
func countingProxy(t *testing.T) (flag string, writes *atomic.Int64) {
	t.Helper()
	writes = new(atomic.Int64)
	access := testenv.S3Proxy(t, testenv.S3(t), func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			writes.Add(1)
		}
		return false
	})
	return "--s3-endpoint=" + access.Endpoint, writes
}

// statement runs a statement.
func statement(t *testing.T, database, text string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), database)
	must(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	_, err = conn.Exec(t.Context(), text)
	must(t, err)
}

// send sends a request with the tenant's key, and returns the status and the body.
func (s *service) send(t *testing.T, method, path, contentType, body string, headers ...string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.address+path, strings.NewReader(body))
	must(t, err)
	request.Header.Set("x-service-apikey", s.tenant.Key)
	request.Host = "media.test"
	request.Header.Set("Content-Type", contentType)
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, string(text)
}

// readyz returns the status of the readiness and the text of one check.
func (s *service) readyz(t *testing.T, check string) (int, string) {
	t.Helper()
	response, err := http.Get("http://" + s.admin + "/readyz")
	must(t, err)
	defer func() { _ = response.Body.Close() }()
	var answer struct{ Checks map[string]string }
	must(t, json.NewDecoder(response.Body).Decode(&answer))
	return response.StatusCode, answer.Checks[check]
}

// A runtime beside a restored database serves what it has, and changes nothing.
func TestServe_ReadsOnlyWhileTheDatabaseIsHeld(t *testing.T) {
	t.Parallel()
	flag, writes := countingProxy(t)
	s := whole(t, flag, "--installation-check-interval=1s")
	testwait.Until(t, "the service is ready", func() bool { status, _ := s.readyz(t, "installation"); return status == http.StatusOK })
	const multipart = "multipart/form-data; boundary=x"
	const form = "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\nContent-Type: text/plain\r\n\r\nbytes\r\n--x--\r\n"
	status, text := s.send(t, http.MethodPost, "/media/create", multipart, form)
	var created struct {
		ID string `json:"mediaId"`
	}
	if err := json.Unmarshal([]byte(text), &created); err != nil || status >= 300 || uuid.Validate(created.ID) != nil {
		t.Fatalf("an upload: %d %s %v", status, text, err)
	}

	statement(t, s.database, "UPDATE installation SET hold_reason = 'the database was restored: epoch 1', held_at = now()")
	testwait.Until(t, "the service is not ready", func() bool { status, _ := s.readyz(t, "installation"); return status == http.StatusServiceUnavailable })
	if _, text := s.readyz(t, "installation"); !strings.Contains(text, "epoch 1") || !strings.Contains(text, "mediastack-runtime resume-after-restore") {
		t.Errorf("/readyz says %q", text)
	}
	before := writes.Load()
	const tool = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`
	for _, change := range []struct {
		method, path, contentType, body string
		headers                         []string
	}{
		{http.MethodPost, "/media/create", multipart, form, nil},
		{http.MethodPost, "/media/seal/" + created.ID, "application/json", "{}", nil},
		{http.MethodDelete, "/media/delete/" + created.ID, "application/json", "", nil},
		{http.MethodPost, "/media/signature/create", "application/json", "{}", nil},
		{http.MethodPost, "/settings/media/create", "application/json", `{"useWebP":false}`, nil},
		{http.MethodPost, "/media/create/resumable", "", "", []string{"Tus-Resumable", "1.0.0", "Upload-Length", "5"}},
	} {
		status, text := s.send(t, change.method, change.path, change.contentType, change.body, change.headers...)
		if status != http.StatusServiceUnavailable || !strings.Contains(text, "accepts no changes") || strings.Contains(text, "epoch") {
			t.Errorf("%s %s: %d %s", change.method, change.path, status, text)
		}
	}
	for _, call := range []string{tool + `seal_media","arguments":{"mediaId":"` + created.ID + `"}}}`, tool + `delete_media","arguments":{"mediaId":"` + created.ID + `"}}}`} {
		if _, text := s.send(t, http.MethodPost, "/mcp", "application/json", call, "Accept", "application/json, text/event-stream"); !strings.Contains(text, "accepts no changes") || strings.Contains(text, "epoch") {
			t.Errorf("%s: %s", call, text)
		}
	}
	for _, path := range []string{"/media/get", "/media/get/" + created.ID, "/media/get/count", "/media/get/size", "/settings/media/get"} {
		if status, text := s.send(t, http.MethodGet, path, "", ""); status != http.StatusOK {
			t.Errorf("GET %s: %d %s", path, status, text)
		}
	}
	if n := writes.Load() - before; n != 0 {
		t.Errorf("%d writes to the object store", n)
	}
	if code, out, stderr := call(t.Context(), append([]string{"resume-after-restore", "--confirm"}, s.stores...)...); code != 0 || !strings.Contains(out, `"confirmed":true`) {
		t.Fatalf("resume-after-restore --confirm: %d %s %s", code, out, stderr)
	}
	testwait.Until(t, "the service is ready again", func() bool { status, _ := s.readyz(t, "installation"); return status == http.StatusOK })
	if status, text := s.send(t, http.MethodPost, "/media/seal/"+created.ID, "application/json", "{}"); status != http.StatusOK {
		t.Errorf("a seal after the resume: %d %s", status, text)
	}
}

func TestCommands_DoNothingWhileTheDatabaseIsHeld(t *testing.T) {
	t.Parallel()
	s := whole(t)
	statement(t, s.database, "UPDATE installation SET hold_reason = 'the database was restored: epoch 1', held_at = now()")
	code, out, stderr := call(t.Context(), append([]string{"purge"}, s.stores...)...)
	var summary struct {
		Ran  bool   `json:"ran"`
		Held string `json:"held"`
	}
	if err := json.Unmarshal([]byte(out), &summary); code != exitActionRequired || err != nil || !summary.Ran || !strings.Contains(summary.Held, "epoch 1") || !strings.Contains(stderr, "resume-after-restore") {
		t.Errorf("purge: %d %s %s", code, out, stderr)
	}
	code, out, stderr = call(t.Context(), append([]string{"check", "--all", "--repair"}, s.stores...)...)
	if code != exitActionRequired || out != "" || !strings.Contains(stderr, "epoch 1") || !strings.Contains(stderr, "resume-after-restore") {
		t.Errorf("check --repair: %d %s %s", code, out, stderr)
	}
	if code, out, stderr := call(t.Context(), append([]string{"check", "--all"}, s.stores...)...); code != 0 {
		t.Errorf("check: %d %s %s", code, out, stderr)
	}
}
