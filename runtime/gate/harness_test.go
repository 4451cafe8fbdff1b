package gate_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/gate"
	"mediastack.dev/runtime/internal/api"
	"mediastack.dev/runtime/internal/mcp"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/internal/scanner"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var must = check.NoError

// world is a database and an S3 store, with one replica that has a scanner. Its background work runs after run.
type world struct {
	*runtimetest.Env
	*runtimetest.Service
	site *runtimetest.Site
}

// newWorld returns a world whose gates have these scanners. The site serves the bytes in the query of a URL.
func newWorld(t *testing.T, scanners map[string]gate.Scanner) *world {
	t.Helper()
	w := &world{Env: runtimetest.New(t), site: runtimetest.NewSite(t, func(w http.ResponseWriter, r *http.Request) {
		data, _ := base64.RawURLEncoding.DecodeString(r.URL.Query().Get("file"))
		_, _ = w.Write(data)
	})}
	config := runtimetest.NewServiceConfig()
	config.TUS, config.MCP, config.Scanners, config.Source = true, &mcp.Config{}, scanners, w.site.Client(t)
	w.Service = w.Env.Service(t, config)
	return w
}

// run starts the background work of the replica, until the test ends or stop is called.
func (w *world) run(t *testing.T) (stop func()) { t.Helper(); return w.RunFetches(t, w.Service.Core) }

// withClamd returns a world with a clamd.
func withClamd(t *testing.T) (*world, *testenv.Restartable[*testenv.ClamdProcess]) {
	t.Helper()
	clamd := testenv.ClamdServer(t)
	scanners, err := scanner.Config{Clamd: "tcp://" + clamd.Server.Address, Idle: runtimetest.Long}.Scanners()
	must(t, err)
	return newWorld(t, scanners), clamd
}

// gated is a tenant whose files are checked, with a journal.
func (w *world) gated(t *testing.T, name string, change ...func(*account.Spec)) runtimetest.Tenant {
	t.Helper()
	return w.Tenant(t, account.Spec{Name: name, ObjectUID: name, Owners: []string{"owner@example.org", "other@example.org"}, MaxStorage: 64 << 20, MaxUploadSize: 32 << 20, Journal: 1e9 * 3600 * 24,
		Gate: account.Gate{Scanner: account.ScannerClamd, MaxScanBytes: 8 << 20}}, change...)
}

// scripted is a scanner whose answers a test chooses. It reads the file.
type scripted struct {
	mu     sync.Mutex
	result gate.Result
	err    error
	away   error // what Ping returns
	scans  int
	during func() // while a file is scanned; nil = nothing
}

// Ping implements gate.Scanner.
func (s *scripted) Ping(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.away
}

// Scan implements gate.Scanner.
func (s *scripted) Scan(ctx context.Context, file io.Reader, _ int64) (gate.Result, error) {
	_, err := io.Copy(io.Discard, file)
	s.mu.Lock()
	s.scans++
	result, failure, during := s.result, s.err, s.during
	s.mu.Unlock()
	if during != nil {
		during()
	}
	if err == nil {
		err = failure
	}
	return result, err
}

// answers sets what the scanner says from now on.
func (s *scripted) answers(result gate.Result, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.result, s.err = result, err
}

// goes sets whether the scanner is there.
func (s *scripted) goes(away error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

func (s *scripted) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.scans
}

// withScripted returns a world with such a scanner.
func withScripted(t *testing.T) (*world, *scripted) {
	t.Helper()
	s := &scripted{result: gate.Result{Outcome: gate.Clean}}
	return newWorld(t, map[string]gate.Scanner{account.ScannerClamd: s}), s
}

// do sends a request.
func (w *world) do(t *testing.T, method, path string, change ...runtimetest.Option) runtimetest.Answer {
	t.Helper()
	answer, err := w.Send(t.Context(), method, path, change...)
	must(t, err)
	return answer
}

func body(text string) runtimetest.Option {
	return func(r *runtimetest.Request) {
		r.Body = strings.NewReader(text)
		r.Header.Set("Content-Type", "application/json")
	}
}

// form sends a file as a browser does.
func form(data []byte) runtimetest.Option {
	var text bytes.Buffer
	writer := multipart.NewWriter(&text)
	part, _ := writer.CreateFormFile("file", "file.bin")
	_, _ = part.Write(data)
	_ = writer.Close()
	return func(r *runtimetest.Request) {
		r.Body = bytes.NewReader(text.Bytes())
		r.Header.Set("Content-Type", writer.FormDataContentType())
	}
}

// item returns the document of an item.
func itemOf(t *testing.T, answer runtimetest.Answer) api.MediaItem {
	t.Helper()
	var item api.MediaItem
	if err := json.Unmarshal(answer.Body, &item); err != nil {
		t.Fatalf("%d %s: %v", answer.Status, answer.Body, err)
	}
	return item
}

// draft uploads a file.
func (w *world) draft(t *testing.T, of runtimetest.Tenant, data []byte) uuid.UUID {
	t.Helper()
	answer := w.do(t, http.MethodPost, "/media/create", runtimetest.Key(of.Key), form(data))
	answer.MustBe(t, http.StatusCreated, "upload")
	return itemOf(t, answer).MediaId
}

// seal sends the request to seal an item.
func (w *world) seal(t *testing.T, of runtimetest.Tenant, id uuid.UUID) runtimetest.Answer {
	t.Helper()
	return w.do(t, http.MethodPost, "/media/seal/"+id.String(), runtimetest.Key(of.Key))
}

// signature returns a signature whose uploads are sealed.
func (w *world) signature(t *testing.T, of runtimetest.Tenant) string {
	t.Helper()
	answer := w.do(t, http.MethodPost, "/media/signature/create", runtimetest.Key(of.Key), body(`{"seal":true}`))
	answer.MustBe(t, http.StatusOK, "create a signature")
	var created api.Signature
	must(t, json.Unmarshal(answer.Body, &created))
	return created.Signature
}

// request has a tool request a file that is sealed, and returns the path of its page, and its id.
func (w *world) request(t *testing.T, of runtimetest.Tenant) (page, id string) {
	t.Helper()
	w.Change(t, of, func(s *account.Spec) { s.ToolPolicy.Toolsets = []string{account.ToolsetCore, account.ToolsetHandover} })
	var answer struct {
		Result struct {
			StructuredContent struct{ Page, UploadID string }
		}
	}
	must(t, json.Unmarshal([]byte(w.call(t, of, "request_upload", map[string]any{"seal": true})), &answer))
	return strings.TrimPrefix(answer.Result.StructuredContent.Page, runtimetest.BaseURL), answer.Result.StructuredContent.UploadID
}

// resumable sends a file by TUS, with one request, and returns the id of the item.
func (w *world) resumable(t *testing.T, data []byte, credential runtimetest.Option) uuid.UUID {
	t.Helper()
	answer := w.do(t, http.MethodPost, api.ResumableRoute, credential, runtimetest.Header("Tus-Resumable", "1.0.0"), runtimetest.Header("Upload-Length", strconv.Itoa(len(data))),
		runtimetest.Header("Content-Type", "application/offset+octet-stream"), func(r *runtimetest.Request) { r.Body = bytes.NewReader(data) })
	answer.MustBe(t, http.StatusCreated, "upload by TUS")
	id, err := uuid.Parse(answer.Header.Get("X-Service-Media-Id"))
	must(t, err)
	return id
}

// call calls a tool and returns its result.
func (w *world) call(t *testing.T, of runtimetest.Tenant, tool string, arguments any) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{"name": tool, "arguments": arguments}})
	must(t, err)
	answer := w.do(t, http.MethodPost, api.ToolsRoute, runtimetest.Key(of.Key), body(string(text)), runtimetest.Header("Accept", "application/json, text/event-stream"))
	answer.MustBe(t, http.StatusOK, "call %s", tool)
	return string(answer.Body)
}

// fetched has the service fetch a file, and waits for the end of the job. It returns the item and the state of the job.
func (w *world) fetched(t *testing.T, of runtimetest.Tenant, data []byte) (answer runtimetest.Answer) {
	t.Helper()
	request := fmt.Sprintf(`{"url":%q,"seal":true}`, w.site.URL("/a?file="+base64.RawURLEncoding.EncodeToString(data)))
	queued := w.do(t, http.MethodPost, api.UploadFromURLRoute, runtimetest.Key(of.Key), body(request))
	queued.MustBe(t, http.StatusAccepted, "upload from a URL")
	var job struct {
		JobID string `json:"jobId"`
	}
	must(t, json.Unmarshal(queued.Body, &job))
	wait.UntilNone(t, func() string {
		answer = w.do(t, http.MethodGet, api.UploadFromURLRoute+"/"+job.JobID, runtimetest.Key(of.Key))
		if bytes.Contains(answer.Body, []byte(`"done"`)) || bytes.Contains(answer.Body, []byte(`"failed"`)) {
			return ""
		}
		return string(answer.Body)
	})
	return answer
}

// sealed waits until an item is sealed, and returns its document.
func (w *world) sealed(t *testing.T, of runtimetest.Tenant, id uuid.UUID) (item api.MediaItem) {
	t.Helper()
	wait.UntilNone(t, func() string {
		answer := w.do(t, http.MethodGet, "/media/get/"+id.String(), runtimetest.Key(of.Key))
		if item = itemOf(t, answer); answer.Status != http.StatusOK || item.Temp {
			return fmt.Sprintf("%d %s", answer.Status, answer.Body)
		}
		return ""
	})
	return item
}

// noTasks waits until no file is to be checked.
func (w *world) noTasks(t *testing.T) {
	t.Helper()
	wait.UntilNone(t, func() string {
		if n := w.QueryInt(t, `SELECT count(*) FROM work WHERE kind = 'scan'`); n > 0 {
			return fmt.Sprintf("%d files are to be checked", n)
		}
		return ""
	})
}

// due lets all tasks run now.
func (w *world) due(t *testing.T) {
	t.Helper()
	w.exec(t, `UPDATE work SET due_at = now() WHERE kind = 'scan' AND claim IS NULL`)
	w.Tasks.Wake(gate.ScanWork)
}

func (w *world) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	must(t, check.ErrorOf(testenv.Connections(t, w.Database.DatabaseURL).Exec(t.Context(), sql, args...)))
}
