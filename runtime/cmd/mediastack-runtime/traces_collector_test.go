package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"mediastack.dev/hack/testenv"
	testwait "mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/imaging/imagetest"
	"mediastack.dev/runtime/internal/runtimetest"
)

// collector receives traces over OTLP/HTTP.
type collector struct {
	endpoint string

	mu       sync.Mutex
	received []*tracepb.ResourceSpans
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var request coltracepb.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &request)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("the collector received %s %v", r.URL.Path, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.received = append(c.received, request.GetResourceSpans()...)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(server.Close)
	c.endpoint = server.URL
	return c
}

// text returns everything that was received.
func (c *collector) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all strings.Builder
	for _, received := range c.received {
		all.WriteString(prototext.Format(received))
	}
	return all.String()
}

func (c *collector) spans() (all []*tracepb.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range c.received {
		for _, scope := range resource.GetScopeSpans() {
			all = append(all, scope.GetSpans()...)
		}
	}
	return all
}

// root waits for the span of a request, by its name and the id of the request; an empty id is any.
func (c *collector) root(t *testing.T, name, requestID string) (root *tracepb.Span) {
	t.Helper()
	testwait.Until(t, "the collector has the span "+name, func() bool {
		for _, span := range c.spans() {
			if span.GetName() == name && (requestID == "" || spanText(span, "mediastack.request_id") == requestID) {
				root = span
			}
		}
		return root != nil
	})
	return root
}

// expect waits until a trace has a span at each path below its root. A path is the names of the
// spans, from the parent to the child.
func (c *collector) expect(t *testing.T, root *tracepb.Span, paths ...string) {
	t.Helper()
	var found []string
	defer func() {
		if t.Failed() {
			t.Logf("%s has %q", root.GetName(), found)
		}
	}()
	testwait.Until(t, "the trace of "+root.GetName()+" is complete", func() bool {
		found = c.paths(root)
		return !slices.ContainsFunc(paths, func(path string) bool { return !slices.Contains(found, path) })
	})
}

// paths returns the path of each span in the trace of a root.
func (c *collector) paths(root *tracepb.Span) (paths []string) {
	spans := map[string]*tracepb.Span{}
	for _, span := range c.spans() {
		if bytes.Equal(span.GetTraceId(), root.GetTraceId()) {
			spans[string(span.GetSpanId())] = span
		}
	}
	for _, span := range spans {
		path := ""
		for at := span; at != nil && at != root; at = spans[string(at.GetParentSpanId())] {
			path = " > " + at.GetName() + path
		}
		paths = append(paths, strings.TrimPrefix(path, " > "))
	}
	return paths
}

// spanText returns a text attribute of a span.
func spanText(span *tracepb.Span, key string) string {
	at := slices.IndexFunc(span.GetAttributes(), func(attribute *commonpb.KeyValue) bool { return attribute.GetKey() == key })
	if at < 0 {
		return ""
	}
	return span.GetAttributes()[at].GetValue().GetStringValue()
}

// traced is a runtime process that exports traces, with a tenant and the means to log in.
type traced struct {
	*service
	process *testenv.Process
	logFile string
	owner   string // e-mail address
	token   string // of a login
	stores  []string
}

// serveTraced starts a runtime.
func serveTraced(t *testing.T, endpoint string, env ...string) *traced {
	t.Helper()
	database, s3 := testenv.Postgres(t), testenv.S3(t)
	world := runtimetest.NewWith(t, database, s3)
	tenant := world.Tenant(t, account.Spec{Name: "one", MaxStorage: 1 << 30, MaxUploadSize: 1 << 30})
	stores := append(testenv.StoreSettings(database, s3), "OTEL_EXPORTER_OTLP_ENDPOINT="+endpoint, "OTEL_BSP_SCHEDULE_DELAY=20")
	secret, err := base64.StdEncoding.DecodeString(runtimetest.Credentials("a").Secret)
	must(t, err)
	runtime := testenv.Runtime(t, testenv.RuntimeConfig{BaseURL: runtimetest.BaseURL, Secret: hex.EncodeToString(secret), Stores: stores, Env: append([]string{
		"SERVICE_SMTP_HOST=127.0.0.1", "SERVICE_SMTP_PORT=1", "SERVICE_SMTP_TLS=none", "SERVICE_MAIL_FROM=login@media.test", "SERVICE_SMTP_USER=mailer", "SERVICE_SMTP_PASSWORD=smtp-hunter2"}, env...)})
	s := &traced{service: &service{address: runtime.Addr, logs: new(buffer), tenant: tenant}, process: runtime.Process, logFile: runtime.Spec.LogFile,
		owner: runtimetest.Owner, token: world.Session(t, tenant), stores: stores}
	s.admin = attribute(s.log(t), "listening", "admin")
	testwait.Until(t, "the process has a lease", func() bool { return world.QueryInt(t, `SELECT count(*) FROM runtime_instance`) == 1 })
	return s
}

// log returns what the process has logged.
func (s *traced) log(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(s.logFile)
	must(t, err)
	return string(text)
}

// logLine waits for the log line of a request.
func (s *traced) logLine(t *testing.T, requestID string) (line map[string]any) {
	t.Helper()
	testwait.Until(t, "the log has the request", func() bool {
		for text := range strings.Lines(s.log(t)) {
			var entry map[string]any
			if json.Unmarshal([]byte(text), &entry) == nil && entry["request_id"] == requestID && entry["msg"] == "request" {
				line = entry
			}
		}
		return line != nil
	})
	return line
}

// metric returns the value of a metric.
func (s *traced) metric(t *testing.T, name string) (value float64) {
	t.Helper()
	response, err := http.Get("http://" + s.admin + "/metrics")
	must(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, name+" "); found {
			_, err := fmt.Sscan(rest, &value)
			must(t, err)
		}
	}
	return value
}

// uploadImage uploads a JPEG.
func (s *traced) uploadImage(t *testing.T, name string, headers ...string) (created createdItem) {
	t.Helper()
	body := "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + name + "\"\r\nContent-Type: image/jpeg\r\n\r\n" + string(imagetest.JPEG(imagetest.Picture(64, 48))) + "\r\n--x--\r\n"
	status, text := s.send(t, http.MethodPost, "/media/create", multipartType, body, headers...)
	if err := json.Unmarshal([]byte(text), &created); err != nil || status >= 300 {
		t.Fatalf("an upload: %d %s %v", status, text, err)
	}
	return created
}

// resumable uploads five bytes with TUS.
func (s *traced) resumable(t *testing.T, headers ...string) {
	t.Helper()
	got := s.request(t, http.MethodPost, "/media/create/resumable", append(headers, "Tus-Resumable", "1.0.0", "Upload-Length", "5")...)
	path := strings.TrimPrefix(got.header.Get("Location"), runtimetest.BaseURL)
	status, text := s.send(t, http.MethodPatch, path, "application/offset+octet-stream", "bytes", append(headers, "Tus-Resumable", "1.0.0", "Upload-Offset", "0")...)
	if got.status != http.StatusCreated || status != http.StatusNoContent {
		t.Fatalf("a resumable upload: %d %d %s", got.status, status, text)
	}
}

// callTool calls a tool of /mcp.
func (s *traced) callTool(t *testing.T, name, arguments string, headers ...string) {
	t.Helper()
	status, text := s.send(t, http.MethodPost, "/mcp", "application/json", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+name+`","arguments":`+arguments+`}}`,
		append(headers, "Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", "2025-06-18")...)
	if status != http.StatusOK {
		t.Fatalf("a call of %s: %d %s", name, status, text)
	}
}
