package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/prototext"

	"mediastack.dev/hack/testenv"
	testwait "mediastack.dev/hack/testenv/wait"
)

func TestTraces_ShowWhatARequestDid(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	s := serveTraced(t, c.endpoint)
	const foreign = "4bf92f3577b34da6a3ce929d0e0e4736"
	created := s.uploadImage(t, "a.jpg", "X-Request-Id", "upload-0001", "Traceparent", "00-"+foreign+"-00f067aa0ba902b7-01", "Tracestate", "vendor=hunter2")
	upload := c.root(t, "POST /media/create", "upload-0001")
	c.expect(t, upload, "postgres RegisterWriter", "s3 PutObject", "postgres batch > postgres CommitStored", "images derive", "images derive > images wait", "images derive > images job")
	id := hex.EncodeToString(upload.GetTraceId())
	if line := s.logLine(t, "upload-0001"); line["trace_id"] != id || line["span_id"] != hex.EncodeToString(upload.GetSpanId()) {
		t.Errorf("the log has %v %v, the trace is %s", line["trace_id"], line["span_id"], id)
	}
	if len(upload.GetParentSpanId()) != 0 || id == foreign || len(upload.GetLinks()) != 1 || hex.EncodeToString(upload.GetLinks()[0].GetTraceId()) != foreign || upload.GetLinks()[0].GetTraceState() != "" {
		t.Errorf("the trace of a client is not a link: %s", prototext.Format(upload))
	}
	if got := spanText(upload, "mediastack.account"); got != s.tenant.Account.ID.String() {
		t.Errorf("the account is %q", got)
	}

	s.resumable(t)
	c.expect(t, c.root(t, "POST /media/create/resumable", ""), "postgres InsertResumable")
	c.expect(t, c.root(t, "PATCH /media/create/resumable/{uploadId}", ""), "s3 PutObject", "postgres CommitUploads")

	s.callTool(t, "list_media", "{}")
	c.expect(t, c.root(t, "POST /mcp", ""), "mcp tools/call list_media > postgres ListItems")

	if status, text := s.send(t, http.MethodPost, "/oauth/register", "application/json", `{"client_name":"x","redirect_uris":["http://localhost/"]}`); status != http.StatusCreated {
		t.Fatalf("a registration: %d %s", status, text)
	}
	c.expect(t, c.root(t, "POST /oauth/register", ""), "postgres InsertClient")

	file, err := url.Parse(created.File)
	must(t, err)
	if got := s.request(t, http.MethodGet, file.RequestURI()); got.status != http.StatusOK {
		t.Fatalf("the file: %d", got.status)
	}
	for _, span := range c.spans() {
		if strings.HasPrefix(span.GetName(), "GET /") && strings.Contains(span.GetName(), s.tenant.Account.ID.String()) {
			t.Errorf("a name has an id: %s", span.GetName())
		}
	}
	testwait.Until(t, "the download is traced", func() bool {
		return slices.ContainsFunc(c.spans(), func(span *tracepb.Span) bool { return span.GetName() == "s3 GetObject" })
	})
	testwait.Until(t, "the export is counted", func() bool { return s.metric(t, "mediastack_trace_spans_exported_total") > 20 })
	if !strings.Contains(c.text(), `"mediastack-runtime"`) {
		t.Error("the traces do not name the program")
	}

	purge := exec.CommandContext(t.Context(), testenv.Binary(t, "mediastack-runtime"), "purge")
	purge.Env = s.stores
	if out, err := purge.CombinedOutput(); err != nil {
		t.Fatalf("purge: %v %s", err, out)
	}
	root := c.root(t, "purge", "")
	c.expect(t, root, "postgres begin")
}

// Requests carry secrets in every place that a client may put them.
func TestTraces_ContainNoSecret(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	s := serveTraced(t, c.endpoint, "OTEL_EXPORTER_OTLP_HEADERS=Authorization=Bearer%20collector-hunter2")
	const email, name = "someone@mail.test", "holiday-in-rome.jpg"
	created := s.uploadImage(t, name, "Referer", "http://media.test/?key="+s.tenant.Key, "User-Agent", s.tenant.Key, "Tracestate", "key="+email)
	file, err := url.Parse(created.File)
	must(t, err)
	_, text := s.send(t, http.MethodPost, "/media/signature/create", "application/json", "")
	var signature struct{ Signature string }
	must(t, json.Unmarshal([]byte(text), &signature))
	if signature.Signature == "" {
		t.Fatalf("no signature: %s", text)
	}
	s.request(t, http.MethodGet, file.RequestURI())
	s.request(t, http.MethodGet, "/media/get?key="+s.tenant.Key+"&email="+email)
	s.request(t, http.MethodGet, "/media/get/"+s.tenant.Key)
	s.request(t, http.MethodGet, "/"+s.tenant.Key)
	s.request(t, s.tenant.Key, "/media/get")
	s.request(t, http.MethodGet, "/media/get", "Authorization", "Bearer "+s.token, "X-Request-Id", s.tenant.Key)
	s.request(t, http.MethodPost, "/media/create", "x-service-signature", signature.Signature, "Content-Type", multipartType)
	s.request(t, http.MethodPost, "/oauth/login/email?email="+email)
	s.send(t, http.MethodPost, "/oauth/login/email", "application/x-www-form-urlencoded", "email="+url.QueryEscape(email))
	s.send(t, http.MethodPost, "/oauth/token", "application/x-www-form-urlencoded", "grant_type=refresh_token&client_id=x&refresh_token="+s.token)
	s.resumable(t, "Upload-Metadata", "filename "+base64.StdEncoding.EncodeToString([]byte(name)))
	s.callTool(t, "get_media", `{"mediaId":"`+s.tenant.Key+`"}`)
	s.callTool(t, "list_media", `{"group":"`+email+`"}`)
	s.callTool(t, s.tenant.Key, `{}`)
	s.request(t, http.MethodGet, "/media/get/count", "X-Request-Id", "the-last-request")
	c.root(t, "GET /media/get/count", "the-last-request")

	text = c.text()
	for what, secret := range map[string]string{
		"the API key": s.tenant.Key, "a part of the API key": s.tenant.Key[5:], "the access token": s.token, "the signature": signature.Signature, "an e-mail address": email,
		"the e-mail address of the owner": s.owner, "a file name": name, "the query of a signed URL": file.RawQuery, "the path of a file": file.Path, "a statement": "SELECT ", "the text of an error": "invalid input",
		"the password of the mail server": "smtp-hunter2", "the header for the collector": "collector-hunter2", "a URL": "http://media.test", "the URL of S3": settingOf(s.stores, "SERVICE_S3_ENDPOINT="), "the id of an item": created.ID, "the key of S3": settingOf(s.stores, "SERVICE_S3_SECRET_KEY="), "the id of the key of S3": `"` + settingOf(s.stores, "SERVICE_S3_ACCESS_KEY=") + `"`,
	} {
		if secret == "" || strings.Contains(text, secret) {
			t.Errorf("%s is in the traces: %q", what, secret)
		}
		if strings.HasPrefix(what, "the header") && strings.Contains(s.log(t), secret) {
			t.Errorf("%s is in the log", what)
		}
	}
}

// A new attribute is added here after a look at who chooses its value.
func TestTraces_HaveKnownAttributesOnly(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	s := serveTraced(t, c.endpoint)
	s.uploadImage(t, "a.jpg")
	s.resumable(t)
	s.callTool(t, "list_media", "{}")
	s.callTool(t, "get_media", "{}")
	s.request(t, http.MethodGet, "/media/get/count", "X-Request-Id", "the-last-request")
	c.root(t, "GET /media/get/count", "the-last-request")
	known := []string{"http.request.method", "http.route", "http.response.status_code", "http.request.body.size", "http.response.body.size", "error.type",
		"mediastack.request_id", "mediastack.account", "mediastack.app", "mediastack.media_type", "mediastack.bytes", "mediastack.attempt",
		"db.system.name", "db.query.summary", "db.response.affected_rows", "rpc.system.name", "rpc.method", "server.address", "mcp.method.name", "gen_ai.tool.name"}
	for _, span := range c.spans() {
		for _, attribute := range span.GetAttributes() {
			if !slices.Contains(known, attribute.GetKey()) {
				t.Errorf("%s has the attribute %s", span.GetName(), attribute.GetKey())
			}
		}
		if len(span.GetEvents()) != 0 || span.GetStatus().GetMessage() != "" {
			t.Errorf("%s has a text: %s", span.GetName(), prototext.Format(span))
		}
	}
}

// settingOf returns the value of a setting.
func settingOf(settings []string, prefix string) string {
	at := slices.IndexFunc(settings, func(setting string) bool { return strings.HasPrefix(setting, prefix) })
	return strings.TrimPrefix(settings[at], prefix)
}

// Any client could otherwise have each request recorded, or add spans to the traces of others.
func TestTraces_OnlyATrustedProxyDecidesAboutSampling(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	s := serveTraced(t, c.endpoint, "OTEL_TRACES_SAMPLER=parentbased_always_off", "SERVICE_TRUST_TRACEPARENT=true", "SERVICE_TRUSTED_PROXIES=127.0.0.2")
	const foreign, trusted = "4bf92f3577b34da6a3ce929d0e0e4736", "5bf92f3577b34da6a3ce929d0e0e4736"
	s.request(t, http.MethodGet, "/media/get", "Traceparent", "00-"+foreign+"-00f067aa0ba902b7-01")
	transport := &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext}
	t.Cleanup(transport.CloseIdleConnections)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.address+"/media/get/count", nil)
	must(t, err)
	request.Header.Set("x-service-apikey", s.tenant.Key)
	request.Header.Set("Traceparent", "00-"+trusted+"-00f067aa0ba902b7-01")
	response, err := transport.RoundTrip(request)
	must(t, err)
	must(t, response.Body.Close())
	root := c.root(t, "GET /media/get/count", "")
	if got := hex.EncodeToString(root.GetTraceId()); got != trusted {
		t.Errorf("the trace of the proxy is not continued: %s", got)
	}
	for _, span := range c.spans() {
		if !bytes.Equal(span.GetTraceId(), root.GetTraceId()) {
			t.Errorf("the request of an unknown client was sampled: %s", span.GetName())
		}
	}
}

func TestTraces_NoRequestWaitsForTheCollector(t *testing.T) {
	t.Parallel()
	ending := make(chan struct{})
	t.Cleanup(func() { close(ending) })
	for name, handle := range map[string]http.HandlerFunc{
		"hangs": func(http.ResponseWriter, *http.Request) { <-ending },
		"fails": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"away":  nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			endpoint := fmt.Sprintf("http://127.0.0.1:%d", testenv.FreePort(t))
			if handle != nil {
				server := httptest.NewServer(handle)
				t.Cleanup(server.CloseClientConnections) // Close would wait for the handler that hangs
				endpoint = server.URL
			}
			s := serveTraced(t, endpoint, "OTEL_BSP_MAX_QUEUE_SIZE=16", "SERVICE_TRACE_FLUSH_TIMEOUT=100ms")
			dropped := `mediastack_trace_spans_dropped_total{reason="export"}`
			if name == "hangs" {
				dropped = `mediastack_trace_spans_dropped_total{reason="queue"}`
			}
			for range 50 {
				if got := s.request(t, http.MethodGet, "/media/get"); got.status != http.StatusOK {
					t.Errorf("a list: %d", got.status)
				}
			}
			s.uploadImage(t, "a.jpg")
			testwait.Until(t, "the spans are counted as dropped", func() bool { return s.metric(t, dropped) > 0 })
			s.process.Stop()
			text := s.log(t)
			if !strings.Contains(text, "shutdown complete") {
				t.Errorf("the process did not end by itself: %s", text)
			}
			if n := strings.Count(text, "traces are not delivered"); n > 1 || n == 0 && name != "hangs" {
				t.Errorf("the log says %d times that traces are not delivered", n)
			}
			if name == "hangs" && !strings.Contains(text, "traces are lost at the end") {
				t.Error("the log does not say that traces are lost")
			}
		})
	}
}

func TestTraces_RejectInvalidSettings(t *testing.T) {
	t.Parallel()
	command := exec.CommandContext(t.Context(), testenv.Binary(t, "mediastack-runtime"), "serve")
	command.Env = append(testenv.StoreSettings("postgres://u@h/d", testenv.S3Access{Endpoint: "http://127.0.0.1:1", AccessKey: "a", SecretKey: "b", Region: "r"}),
		"SERVICE_BASE_URL=http://media.test", "SERVICE_SECRET="+goodSecret, "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc")
	out, _ := command.CombinedOutput()
	if code := command.ProcessState.ExitCode(); code != exitUsage || !strings.Contains(string(out), `OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf, not "grpc"`) {
		t.Errorf("exit code %d: %s", code, out)
	}
}
