package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"mediastack.dev/hack/testenv"
	testwait "mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/upload"
)

// requestedFile is a file that the assistant of the tenant has requested.
type requestedFile struct{ UploadURL, ResumableURL, UploadID string }

// rpc sends a request to the MCP endpoint of a process with the key of the tenant, and returns the answer.
func (r *twoRuntimes) rpc(t *testing.T, to *testenv.RuntimeProcess, method, params string) []byte {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, to.BaseURL+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`))
	must(t, err)
	for name, value := range map[string]string{"x-service-apikey": r.tenant.Key, "Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2025-06-18"} {
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	return text
}

// tool calls a tool of a process with the key of the tenant.
func (r *twoRuntimes) tool(t *testing.T, to *testenv.RuntimeProcess, name, arguments string, result any) {
	t.Helper()
	text := r.rpc(t, to, "tools/call", `{"name":"`+name+`","arguments":`+arguments+`}`)
	var message struct {
		Result struct{ StructuredContent json.RawMessage }
	}
	if json.Unmarshal(text, &message) != nil || json.Unmarshal(message.Result.StructuredContent, result) != nil {
		t.Fatalf("%s: %s", name, text)
	}
}

// handed sends a request to an address of a file that was requested, at a process. The status is 0 without an answer.
func handed(t *testing.T, to *testenv.RuntimeProcess, method, address string, body io.Reader, headers ...string) (status int, header http.Header) {
	t.Helper()
	_, path, _ := strings.Cut(strings.SplitN(address, "://", 2)[1], "/")
	request, err := http.NewRequestWithContext(t.Context(), method, to.BaseURL+"/"+path, body)
	must(t, err)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode, response.Header
}

// A process is killed while it receives two files that an assistant has requested. At the other one, the resumable upload goes on where it was, and
// the form can be sent again once the lease of the dead process has ended. Each address makes one item.
func TestKilledRuntime_LeavesTheFilesOfAHandoverToAnother(t *testing.T) {
	t.Parallel()
	r := startTwo(t, 256<<20, "SERVICE_IMAGE_ENABLED=false")
	r.Change(t, r.tenant, func(s *account.Spec) {
		s.ToolPolicy.Toolsets = []string{account.ToolsetCore, account.ToolsetHandover}
	})
	var form, resumed requestedFile
	for _, to := range []*testenv.RuntimeProcess{r.first, r.second} {
		testwait.Until(t, "the process knows of the toolset", func() bool { return bytes.Contains(r.rpc(t, to, "tools/list", "{}"), []byte("request_upload")) })
	}
	r.tool(t, r.first, "request_upload", `{}`, &form)
	r.tool(t, r.first, "request_upload", `{}`, &resumed)
	file := runtimetest.RandomBytes(30 << 20)

	status, header := handed(t, r.first, http.MethodPost, resumed.ResumableURL, http.NoBody, "Tus-Resumable", "1.0.0", "Upload-Length", strconv.Itoa(len(file)))
	if status != http.StatusCreated {
		t.Fatalf("begin a resumable upload: %d", status)
	}
	location := header.Get("Location")
	part, partWriter := io.Pipe()
	body, bodyWriter := io.Pipe()
	parts := multipart.NewWriter(bodyWriter)
	answers := make(chan int, 2)
	go func() {
		status, _ := handed(t, r.first, http.MethodPatch, location, part, "Tus-Resumable", "1.0.0", "Upload-Offset", "0", "Content-Type", "application/offset+octet-stream")
		answers <- status
	}()
	go func() {
		status, _ := handed(t, r.first, http.MethodPost, form.UploadURL, body, "Content-Type", parts.FormDataContentType())
		answers <- status
	}()
	go func() { _, _ = partWriter.Write(file[:20<<20]) }()
	go func() {
		if to, err := parts.CreateFormFile("file", "large.bin"); err == nil {
			_, _ = to.Write(file[:20<<20])
		}
	}()
	testwait.Until(t, "both uploads have stored parts", func() bool {
		return r.QueryInt(t, `SELECT count(*) FROM upload WHERE reserved >= $1`, int64(upload.PartSize)) == 2
	})
	must(t, r.first.Signal(syscall.SIGKILL))
	_, _ = partWriter.Close(), bodyWriter.Close() // a client waits for the end of its body
	for range 2 {
		if status := <-answers; status != 0 {
			t.Errorf("a killed process answered %d", status)
		}
	}

	offset := -1
	testwait.Until(t, "the resumable upload can go on", func() bool {
		status, header := handed(t, r.second, http.MethodHead, location, http.NoBody, "Tus-Resumable", "1.0.0")
		offset, _ = strconv.Atoi(header.Get("Upload-Offset"))
		return status == http.StatusOK
	})
	status, _ = handed(t, r.second, http.MethodPatch, location, bytes.NewReader(file[offset:]), "Tus-Resumable", "1.0.0", "Upload-Offset", strconv.Itoa(offset), "Content-Type", "application/offset+octet-stream")
	if status != http.StatusNoContent {
		t.Errorf("the rest from byte %d: %d", offset, status)
	}
	again := func() int {
		var whole bytes.Buffer
		parts := multipart.NewWriter(&whole)
		to, err := parts.CreateFormFile("file", "large.bin")
		must(t, err)
		_, err = to.Write(file)
		must(t, err)
		must(t, parts.Close())
		status, _ := handed(t, r.second, http.MethodPost, form.UploadURL, &whole, "Content-Type", parts.FormDataContentType())
		return status
	}
	testwait.Until(t, "the form can be sent again", func() bool { return again() == http.StatusCreated })
	if status := again(); status != http.StatusForbidden {
		t.Errorf("a second file at the same address: %d", status)
	}
	for _, of := range []requestedFile{form, resumed} {
		var found struct {
			State string
			Size  int
		}
		r.tool(t, r.second, "get_upload", fmt.Sprintf(`{"uploadId":%q}`, of.UploadID), &found)
		if found.State != "uploaded" || found.Size != len(file) {
			t.Errorf("get_upload tells %+v", found)
		}
	}
	r.swept(t, 2)
}
