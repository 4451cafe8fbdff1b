package server

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/origin"
	"mediastack.dev/runtime/splice"
)

func valid() Config {
	return Config{BaseURL: "https://media.example.org", Brand: "service", Listen: "127.0.0.1:0", AdminListen: "127.0.0.1:0",
		StallTimeout: long, ShutdownTimeout: time.Second}
}

func TestConfigValidate_RejectsInvalidSettings(t *testing.T) {
	t.Parallel()
	if err := valid().Validate(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Config){
		"SERVICE_BASE_URL":          func(c *Config) { c.BaseURL = "media.example.org" },
		"SERVICE_BASE_URL must":     func(c *Config) { c.BaseURL = "https://media.example.org/api" },
		"without a path":            func(c *Config) { c.BaseURL = "ftp://media.example.org" },
		"SERVICE_BRAND":             func(c *Config) { c.Brand = "Ü" },
		"SERVICE_STALL_TIMEOUT":     func(c *Config) { c.StallTimeout = 0 },
		"SERVICE_MIN_TRANSFER_RATE": func(c *Config) { c.MinRate = -1 },
		"SERVICE_JSON_BODY_TIMEOUT must be 0s, or from 100ms to 10m0s": func(c *Config) { c.JSONBodyTimeout = time.Millisecond },
		"SERVICE_JSON_BODY_TIMEOUT":                                    func(c *Config) { c.JSONBodyTimeout = time.Hour },
		"SERVICE_BODY_PER_ACCOUNT_PERCENT":                             func(c *Config) { c.BodyPerAccountPercent = 101 },
		"SERVICE_BODY_PER_ACCOUNT_PERCENT must":                        func(c *Config) { c.BodyPerAccountPercent = -1 },
		"SERVICE_CORS_ORIGINS":                                         func(c *Config) { c.Origins.Patterns = []string{"https://app.example.org/"} },
		"SERVICE_DRAIN_DELAY":                                          func(c *Config) { c.DrainDelay = -1 },
		"SERVICE_DRAIN_DELAY must":                                     func(c *Config) { c.DrainDelay = 6 * time.Minute },
		"SERVICE_SHUTDOWN_TIMEOUT":                                     func(c *Config) { c.ShutdownTimeout = -1 },
	} {
		cfg := valid()
		change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// Changes that a process rejected before it knew its database were 4,307 ERROR lines in 123 restarts.
func TestLog_AStartIsNoError(t *testing.T) {
	t.Parallel()
	server, logs := running(t, func(r chi.Router) {
		for path, reason := range map[string]fault.Reason{"/starting": fault.Starting, "/away": ""} {
			r.Delete(path, func(w http.ResponseWriter, r *http.Request) {
				httpapi.WriteError(w, r, &fault.Error{Kind: fault.Unavailable, Reason: reason, Public: "later"})
			})
		}
	})
	for _, path := range []string{"/starting", "/away"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, server.URL+path, nil)
		must(t, err)
		response, err := http.DefaultClient.Do(request)
		must(t, err)
		must(t, response.Body.Close())
		if response.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s: %d", path, response.StatusCode)
		}
	}
	server.Close() // the lines are written after the answers
	for line := range strings.Lines(logs.String()) {
		if want := map[bool]string{true: "level=INFO", false: "level=ERROR"}[strings.Contains(line, "route=/starting")]; !strings.Contains(line, want) {
			t.Errorf("%s has not %s", line, want)
		}
	}
	if n := strings.Count(logs.String(), "\n"); n != 2 {
		t.Errorf("%d lines", n)
	}
}

// running returns a server of the routes of mount, and its log.
func running(t *testing.T, mount func(chi.Router)) (*httptest.Server, *bytes.Buffer) {
	t.Helper()
	return runningWith(t, valid(), mount)
}

func runningWith(t *testing.T, cfg Config, mount func(chi.Router)) (*httptest.Server, *bytes.Buffer) {
	t.Helper()
	var logs bytes.Buffer
	metrics, err := newMetrics(prometheus.NewRegistry())
	must(t, err)
	origins, err := origin.New(cfg.Origins)
	must(t, err)
	handler, err := newHandler(cfg, Deps{Origins: origins, Mounts: []func(chi.Router){mount}, Log: slog.New(slog.NewTextHandler(&logs, nil))}, metrics, nil)
	must(t, err)
	server := httptest.NewServer(handler)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	t.Cleanup(server.Close)
	return server, &logs
}

func TestHandler_RecoversFromPanics(t *testing.T) {
	t.Parallel()
	server, logs := running(t, func(r chi.Router) {
		r.Get("/early", func(http.ResponseWriter, *http.Request) { panic("private words") })
		r.Get("/late", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(bytes.Repeat([]byte("x"), 100_000))
			panic("private words")
		})
	})
	response, err := http.Get(server.URL + "/early")
	must(t, err)
	body, _ := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if response.StatusCode != http.StatusInternalServerError || !strings.HasPrefix(string(body), `{"error":"Internal Server Error"`) || strings.Contains(string(body), "private") {
		t.Errorf("%d %s", response.StatusCode, body)
	}
	response, err = http.Get(server.URL + "/late")
	if err == nil {
		_, err = io.ReadAll(response.Body)
		_ = response.Body.Close()
	}
	if err == nil {
		t.Error("a response that failed in the middle looks complete")
	}
	server.Close() // every line is written
	if got := logs.String(); strings.Count(got, "private words") != 2 || !strings.Contains(got, "server_test.go") || !strings.Contains(got, "aborted=true") {
		t.Errorf("the log says %s", got)
	}
}

// A request that waits for events, as its client asks, is not a slow one.
func TestMetrics_LeaveOutTheTimeOfWaits(t *testing.T) {
	t.Parallel()
	const waited = 1000 * time.Hour // longer than any test
	registry := prometheus.NewRegistry()
	metrics, err := newMetrics(registry)
	must(t, err)
	handler, err := newHandler(valid(), Deps{Mounts: []func(chi.Router){func(r chi.Router) {
		r.Get("/", func(_ http.ResponseWriter, r *http.Request) { httpapi.FromContext(r.Context()).Waited = waited })
	}}, Log: slog.New(slog.DiscardHandler)}, metrics, nil)
	must(t, err)
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	found, err := registry.Gather()
	must(t, err)
	for _, family := range found {
		if family.GetName() == "mediastack_http_request_duration_seconds" {
			if sum := family.GetMetric()[0].GetHistogram().GetSampleSum(); sum > -waited.Seconds()/2 {
				t.Errorf("the request took %v s", sum)
			}
			return
		}
	}
	t.Error("there is no duration")
}

func TestHandler_AcceptsWellFormedRequestIDs(t *testing.T) {
	t.Parallel()
	server, _ := running(t, func(r chi.Router) { r.Get("/", func(http.ResponseWriter, *http.Request) {}) })
	for sent, same := range map[string]bool{"": false, "short": false, "with spaces in it": false, strings.Repeat("x", 65): false, "0af7651916cd43dd8448eb211c80319c": true, "a.b-c_d.e": true} {
		request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		request.Header.Set("X-Request-Id", sent)
		response, err := http.DefaultClient.Do(request)
		must(t, err)
		_ = response.Body.Close()
		if got := response.Header.Get("X-Request-Id"); (got == sent) != same || got == "" {
			t.Errorf("%q became %q", sent, got)
		}
	}
}

func TestListen_ReportsAPortInUse(t *testing.T) {
	t.Parallel()
	taken := httptest.NewServer(http.NotFoundHandler())
	defer taken.Close()
	cfg := valid()
	cfg.AdminListen = strings.TrimPrefix(taken.URL, "http://")
	s, err := New(cfg, Deps{Registry: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	if err := s.Listen(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "listen on SERVICE_ADMIN_LISTEN 127.0.0.1:") {
		t.Errorf("%v", err)
	}
}

func TestNew_ReportsMetricsRegisteredTwice(t *testing.T) {
	t.Parallel()
	deps := Deps{Registry: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler)}
	_, err := New(valid(), deps)
	must(t, err)
	if _, err := New(valid(), deps); err == nil || !strings.HasPrefix(err.Error(), "register metrics of the server: ") {
		t.Errorf("%v", err)
	}
}

// deadlines records the deadlines that are set on a connection.
type deadlines struct {
	http.ResponseWriter
	read, write []time.Time
}

func (d *deadlines) SetReadDeadline(at time.Time) error { d.read = append(d.read, at); return nil }

func (d *deadlines) SetWriteDeadline(at time.Time) error { d.write = append(d.write, at); return nil }

// connected is a response of a connection that takes what a pipe holds.
type connected struct{ *deadlines }

// ReadFrom implements io.ReaderFrom.
func (c connected) ReadFrom(body io.Reader) (int64, error) { return io.Copy(c.ResponseWriter, body) }

func TestWithDeadlines_ExtendsTheDeadlineForAPipe(t *testing.T) {
	t.Parallel()
	for _, takesPipes := range []bool{true, false} {
		recorder := httptest.NewRecorder()
		d := &deadlines{ResponseWriter: recorder}
		var w http.ResponseWriter = d
		if takesPipes {
			w = connected{d}
		}
		_, writer := withDeadlines(Config{StallTimeout: time.Minute, MinRate: 1024}, nil, w, httptest.NewRequest(http.MethodGet, "/", nil))
		pipe := pipeOf(t, "abc")
		n, err := writer.WritePipe(pipe)
		if err != nil || n != 3 || recorder.Body.String() != "abc" || writer.written != 3 || writer.status != http.StatusOK {
			t.Errorf("%d bytes, %v; %q, %d, status %d", n, err, recorder.Body, writer.written, writer.status)
		}
		if len(d.write) != 2 || d.write[1].Before(time.Now().Add(50*time.Second)) {
			t.Errorf("write deadlines %v", d.write)
		}
		pipe.Release()
	}
}

// pipeOf returns a pipe that holds a text.
func pipeOf(t *testing.T, text string) *splice.Pipe {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = listener.Close() }()
	sender, err := new(net.Dialer).DialContext(t.Context(), "tcp", listener.Addr().String())
	must(t, err)
	defer func() { _ = sender.Close() }()
	_, err = sender.Write([]byte(text))
	must(t, err)
	conn, err := listener.Accept()
	must(t, err)
	defer func() { _ = conn.Close() }()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	must(t, err)
	pipe, err := splice.New()
	must(t, err)
	if n := pipe.Fill(raw, len(text)); n != len(text) {
		t.Fatalf("the pipe has taken %d bytes", n)
	}
	return pipe
}

func TestWithDeadlines_ExtendsDeadlinesWithProgress(t *testing.T) {
	t.Parallel()
	d := &deadlines{ResponseWriter: httptest.NewRecorder()}
	body, writer := withDeadlines(Config{StallTimeout: time.Minute, MinRate: 1024}, nil, d, httptest.NewRequest(http.MethodPost, "/", strings.NewReader("hello")))
	for range 2 {
		_, _ = body.Read(make([]byte, 3))
	}
	if _, err := body.Read(make([]byte, 3)); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if len(d.read) != 4 || !d.read[3].IsZero() || d.read[0].Before(time.Now().Add(50*time.Second)) || body.count() != 5 {
		t.Errorf("read deadlines %v", d.read)
	}
	_, _ = writer.Write([]byte("x"))
	_, _ = writer.Write([]byte("yz"))
	writer.finish()
	if len(d.write) != 4 || writer.written != 3 || writer.status != http.StatusOK {
		t.Errorf("write deadlines %v, %d bytes", d.write, writer.written)
	}
}
