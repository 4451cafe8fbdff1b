package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/node"
	"mediastack.dev/runtime/internal/mcp"
)

// The official suite calls tools that the SDK's fixture has. The test mounts the fixture behind the
// middleware of this package.
func TestMiddleware_ConformsWithTheFixtureOfTheSDK(t *testing.T) {
	t.Parallel()
	packages := node.New(t, "hack/test/clients/mcp")
	target := newFixture(t)
	fixture := &httputil.ReverseProxy{FlushInterval: -1, Transport: withoutKeepAlives(), Rewrite: func(r *httputil.ProxyRequest) {
		bufferBody(r)
		r.SetURL(target)
		// The fixture would reject the origins that hostGuard has to reject.
		r.Out.Header.Del("Origin")
	}}
	address := serveWithKey(t, func(api *mcp.API) { api.Serve(fixture) })
	for _, revision := range []string{"2026-07-28", "2025-11-25"} {
		t.Run(revision, func(t *testing.T) {
			expected := filepath.Join(testenv.RepoRoot(t), "hack", "test", "clients", "mcp", "conformance", revision+".yml")
			conform(t, packages, address, "--requirements", revision, "--expected-failures", expected)
		})
	}
}

// Scenarios that need no tools of the suite run against the tools of this package.
func TestEndpoint_Conforms(t *testing.T) {
	t.Parallel()
	packages := node.New(t, "hack/test/clients/mcp")
	address := serveWithKey(t, nil)
	for revision, scenarios := range map[string][]string{
		"2026-07-28": {"server-stateless", "tools-list", "dns-rebinding-protection", "http-header-validation"},
		"2025-11-25": {"server-initialize", "ping", "tools-list", "dns-rebinding-protection"},
	} {
		for _, scenario := range scenarios {
			t.Run(revision+" "+scenario, func(t *testing.T) {
				out := t.TempDir()
				suite(t, packages, address, out, "--scenario", scenario, "--spec-version", revision)
				found, err := filepath.Glob(filepath.Join(out, "*", "checks.json"))
				must(t, err)
				if len(found) != 1 {
					t.Fatalf("the suite wrote %v", found)
				}
				text, err := os.ReadFile(found[0])
				must(t, err)
				var checks []struct{ Name, Status, ErrorMessage string }
				must(t, json.Unmarshal(text, &checks))
				passed := 0
				for _, check := range checks {
					switch {
					case check.Status == "SUCCESS":
						passed++
					case check.Status == "FAILURE" && !strings.HasPrefix(check.ErrorMessage, "Not testable: server does not list the diagnostic tool"):
						t.Errorf("%s: %s", check.Name, check.ErrorMessage)
					}
				}
				if passed == 0 {
					t.Errorf("nothing was checked: %s", text)
				}
			})
		}
	}
}

func conform(t *testing.T, packages *node.Packages, address string, args ...string) {
	t.Helper()
	if result := suite(t, packages, address, t.TempDir(), args...); result.Code != 0 || !strings.Contains(result.Stdout, "=== SUMMARY ===") {
		_, summary, _ := strings.Cut(result.Stdout, "=== SUMMARY ===")
		t.Errorf("the suite exits with %d:\n%s\n%s", result.Code, summary, result.Stderr)
	}
}

func suite(t *testing.T, packages *node.Packages, address, out string, args ...string) node.Result {
	t.Helper()
	args = append([]string{"server", "--url", address + "/mcp", "-o", out}, args...)
	return packages.Run(t, 5*time.Minute, packages.Module("@modelcontextprotocol/conformance/dist/index.js"), args...)
}

// newFixture runs the SDK's server for the suite, in the version that go.mod pins.
func newFixture(t *testing.T) *url.URL {
	t.Helper()
	program := filepath.Join(testenv.TempDir(t), "fixture")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "github.com/modelcontextprotocol/go-sdk/conformance/everything-server")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	address := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))
	_, err := testenv.Group(t).Start(t.Context(), testenv.Spec{Name: "fixture", Path: program, Args: []string{"-http", address},
		LogFile: filepath.Join(testenv.TempDir(t), "fixture.log"), Grace: 5 * time.Second, Ready: accepts(address)})
	must(t, err)
	return &url.URL{Scheme: "http", Host: address}
}

func accepts(address string) func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err
	}
}

// withoutKeepAlives returns a transport with a connection for each request: a connection that is
// reused may close when the next request is sent, and a proxy can't send that a second time.
func withoutKeepAlives() *http.Transport { return &http.Transport{DisableKeepAlives: true} }

// bufferBody reads a request's body before it is forwarded: the server may answer before it has
// read all of it, and then closes the connection.
func bufferBody(r *httputil.ProxyRequest) {
	body, err := io.ReadAll(r.In.Body)
	if err == nil && len(body) > 0 {
		r.Out.Body, r.Out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
}

// serveWithKey runs a replica behind a proxy that adds a key to every request, which the suite
// cannot do, and returns the proxy's URL, which is the replica's base URL.
func serveWithKey(t *testing.T, wrap func(*mcp.API)) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	w := newWorld(t)
	one := w.tenant(t, "one")
	address := "http://" + listener.Addr().String()
	rt := w.replica(t, func(o *options) { o.Server.BaseURL, o.Prepare = address, wrap })
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Transport: withoutKeepAlives(), Rewrite: func(r *httputil.ProxyRequest) {
		bufferBody(r)
		r.Out.URL.Scheme, r.Out.URL.Host = "http", rt.Addr() // the Host header stays
		r.Out.Header.Set("X-Service-Apikey", one.Key)
	}}
	front := &http.Server{Handler: proxy, ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() { defer close(done); _ = front.Serve(listener) }()
	t.Cleanup(func() { _ = front.Close(); <-done })
	return address
}
