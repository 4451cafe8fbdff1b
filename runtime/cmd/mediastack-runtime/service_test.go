package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"mediastack.dev/hack/testenv"
	testwait "mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/runtimetest"
)

// promptly is how soon something must happen that does not wait for what hangs, which would take a minute or longer.
const promptly = 30 * time.Second

// service is a runtime in this process with all routes, and a tenant.
type service struct {
	address, admin string
	logs           *buffer
	database       string   // its URL
	stores         []string // flags
	tenant         runtimetest.Tenant
}

// storesOf are the flags of a database and an S3 store.
func storesOf(database string, s3 testenv.S3Access) []string {
	return []string{"--database-url=" + database, "--s3-endpoint=" + s3.Endpoint, "--s3-region=" + s3.Region, "--s3-access-key=" + s3.AccessKey, "--s3-secret-key=" + s3.SecretKey}
}

// whole runs the service until the test ends.
func whole(t *testing.T, flags ...string) *service {
	t.Helper()
	s := prepared(t, testenv.Postgres(t), testenv.S3(t))
	s.serve(t, flags...)
	return s
}

// prepared returns a service that does not run yet, with a tenant.
func prepared(t *testing.T, database string, s3 testenv.S3Access) *service {
	t.Helper()
	world := runtimetest.NewWith(t, database, s3)
	return &service{logs: new(buffer), database: database, stores: storesOf(database, s3), tenant: world.Tenant(t, account.Spec{Name: "one", MaxStorage: 1 << 30, MaxUploadSize: 1 << 30})}
}

// serve runs the service until the returned function is called, or the test ends, and waits until it
// listens.
func (s *service) serve(t *testing.T, flags ...string) (stop func()) {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan int, 1)
	args := append([]string{"serve", "--base-url=http://media.test", "--secret=" + goodSecret, "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--drain-delay=0s", "--log-level=DEBUG",
		"--image-worker-path=" + testenv.Binary(t, "mediastack-imaging"), "--smtp-host=127.0.0.1", "--smtp-port=1", "--smtp-tls=none", "--mail-from=login@media.test",
		"--rate-limit-auth-failures=0", "--rate-limit-logins=0",
		"--stall-timeout=1h", "--upload-queue-timeout=1h", "--image-timeout=10m", "--rendition-timeout=10m"}, s.stores...) // no test waits for these
	go func() { ended <- run(ctx, append(args, flags...), stdio{out: s.logs, err: s.logs}); close(ended) }()
	t.Cleanup(func() {
		stop()
		if code := <-ended; code != 0 {
			t.Errorf("serve ended with %d: %s", code, s.logs)
		}
	})
	testwait.Until(t, "the service serves", func() bool {
		logs := s.logs.String()
		s.address, s.admin = attribute(logs, "listening", "address"), attribute(logs, "listening", "admin")
		return s.admin != ""
	})
	return stop
}

// route is a method and a path.
type route struct{ method, path string }

// routes returns every method of the routes in the OpenAPI document, of the routes that other
// documents describe, and of unknown paths.
func (s *service) routes(t *testing.T) []route {
	t.Helper()
	response, err := http.Get("http://" + s.address + "/openapi.json")
	must(t, err)
	defer func() { _ = response.Body.Close() }()
	var document struct {
		Paths map[string]json.RawMessage `json:"paths"`
	}
	must(t, json.NewDecoder(response.Body).Decode(&document))
	if len(document.Paths) < 10 {
		t.Fatalf("the document has %d paths", len(document.Paths))
	}
	id := strings.NewReplacer("{mediaId}", "01a1fd74-5f6f-7afa-be5e-3510feddacd9", "{variant}", "original", "{name}", "a.jpg")
	paths := []string{
		"/", "/unknown", "/media/create/resumable", "/media/create/resumable/01a1fd74-5f6f-7afa-be5e-3510feddacd9", "/mcp",
		"/.well-known/oauth-protected-resource", "/.well-known/oauth-authorization-server", "/oauth/register", "/oauth/token", "/oauth/revoke",
		"/oauth/authorize", "/oauth/login", "/oauth/login/email", "/oauth/login/code", "/oauth/consent", "/account/connections", "/account/connections/end",
		"/account/activity", "/account/files", "/account/files/upload", "/account/files/seal", "/account/files/delete", "/account/files/restore",
		"/account/files/view", "/account/files/edit", "/account/files/share", "/account/files/selected", "/account/files/signature", "/account/files/thumbnail",
	}
	for _, path := range slices.Sorted(maps.Keys(document.Paths)) {
		paths = append(paths, id.Replace(path))
	}
	var all []route
	for _, path := range paths {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions} {
			all = append(all, route{method, path})
		}
	}
	return all
}

// withheld sends the header of a request without its body, byte by byte if trickle is set,
// and waits for the response and for the end of the connection, for as long as timeout.
func withheld(ctx context.Context, timeout time.Duration, address, head string, trickle bool) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, head); err != nil {
		return err
	}
	ended := make(chan struct{})
	defer close(ended)
	if trickle {
		go func() {
			tick := time.NewTicker(50 * time.Millisecond) //nolint:forbidigo // the pace of a slow client
			defer tick.Stop()
			for {
				select {
				case <-ended:
					return
				case <-tick.C:
					if _, err := conn.Write([]byte(" ")); err != nil {
						return
					}
				}
			}
		}()
	}
	text, err := io.ReadAll(conn)
	if late, ok := err.(net.Error); ok && late.Timeout() { //nolint:errorlint // as net returns it
		return err
	}
	if !trickle && !bytes.HasPrefix(text, []byte("HTTP/1.1 ")) { // a client that continues to write may lose the response
		return errNoAnswer(text)
	}
	return nil
}

type errNoAnswer string

func (e errNoAnswer) Error() string { return "the answer is " + string(e) }

// A missing body once held a connection without a limit: 400 of them stopped the service,
// without any credential.
func TestEveryRoute_EndsRequestsWithoutTheirBody(t *testing.T) {
	t.Parallel()
	database, s3 := testenv.Postgres(t), testenv.S3(t)
	s := prepared(t, database, s3)
	runtimetest.NewWith(t, database, s3).Change(t, s.tenant, func(spec *account.Spec) {
		spec.ToolPolicy.Toolsets = []string{account.ToolsetCore, account.ToolsetHandover}
	})
	s.serve(t, "--stall-timeout=1s", "--discard-timeout=1s", "--max-connections=0", "--max-connections-per-ip=0")
	var group errgroup.Group
	group.SetLimit(400)
	for _, to := range slices.Concat(s.routes(t), s.handedRoutes(t), []route{{method: http.MethodOptions, path: "*"}}) {
		for _, credential := range []string{"", "x-service-apikey: " + s.tenant.Key + "\r\n"} {
			for _, framing := range []string{"Content-Length: 9", "Content-Length: 262144", "Transfer-Encoding: chunked"} {
				for _, trickle := range []bool{false, true} {
					group.Go(func() error {
						head := to.method + " " + to.path + " HTTP/1.1\r\nHost: media.test\r\n" + credential +
							"Content-Type: " + kindFor(to.path) + "\r\nAccept: application/json, text/event-stream\r\nTus-Resumable: 1.0.0\r\nUpload-Length: 9000000\r\nUpload-Offset: 0\r\n" + framing + "\r\n\r\n"
						if err := withheld(t.Context(), testwait.Timeout(t), s.address, head, trickle); err != nil {
							t.Errorf("%s %s, %s, with a key %v, trickling %v: %v", to.method, to.path, framing, credential != "", trickle, err)
						}
						return nil
					})
				}
			}
		}
	}
	must(t, group.Wait())
}

// handedRoutes returns every method of the routes of files that an assistant has requested, each with an address of its own: nobody has a key there.
func (s *service) handedRoutes(t *testing.T) (all []route) {
	t.Helper()
	for _, suffix := range []string{"", "/again", "/file", "/resumable", "/resumable/01a1fd74-5f6f-7afa-be5e-3510feddacd9"} {
		var path string
		testwait.Until(t, "the service has started, and takes a request for a file", func() (found bool) {
			_, _, text := s.toolCall(t, "request_upload", "{}")
			var answer struct {
				Result struct{ StructuredContent struct{ Page string } }
			}
			must(t, json.Unmarshal([]byte(text), &answer))
			path, found = strings.CutPrefix(answer.Result.StructuredContent.Page, "http://media.test")
			return found
		})
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions} {
			all = append(all, route{method, path + suffix})
		}
	}
	return all
}

// kindFor returns a content type that the route accepts.
func kindFor(path string) string {
	switch {
	case strings.HasPrefix(path, "/upload/") && strings.Contains(path, "/resumable"):
		return "application/offset+octet-stream"
	case strings.HasPrefix(path, "/upload/"):
		return "multipart/form-data; boundary=x"
	case strings.HasPrefix(path, "/media/create/resumable"):
		return "application/offset+octet-stream"
	case path == "/media/create":
		return "multipart/form-data; boundary=x"
	case strings.HasPrefix(path, "/oauth/") && path != "/oauth/register":
		return "application/x-www-form-urlencoded"
	}
	return "application/json"
}

// With few file descriptors, requests without their body once blocked even /readyz.
func TestAdminServer_RespondsUnderPublicOverload(t *testing.T) {
	t.Parallel()
	database, s3 := testenv.Postgres(t), testenv.S3(t)
	runtimetest.NewWith(t, database, s3)
	port, admin := testenv.FreePort(t), testenv.FreePort(t)
	ready := fmt.Sprintf("http://127.0.0.1:%d/readyz", admin)
	_, err := testenv.Group(t).Start(t.Context(), testenv.Spec{
		Name: "runtime", Path: "/bin/sh", LogFile: filepath.Join(testenv.TempDir(t), "runtime.log"),
		Args: append([]string{"-c", `ulimit -n 256; exec "$0" "$@"`, testenv.Binary(t, "mediastack-runtime"), "serve", "--base-url=http://media.test", "--secret=" + goodSecret,
			"--discard-timeout=1m",
			fmt.Sprintf("--listen=127.0.0.1:%d", port), fmt.Sprintf("--admin-listen=127.0.0.1:%d", admin), "--drain-delay=0s"}, storesOf(database, s3)...),
		Grace: promptly, Ready: testenv.Answers(ready),
	})
	must(t, err)
	address, began := fmt.Sprintf("127.0.0.1:%d", port), time.Now()
	held := make(chan net.Conn, 400)
	defer func() {
		close(held)
		for conn := range held {
			_ = conn.Close()
		}
	}()
	for range cap(held) {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		must(t, err)
		held <- conn
		_, _ = io.WriteString(conn, "POST /media/create HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n") // it may be rejected already
	}
	probe := &http.Client{Timeout: promptly}
	for range 20 {
		response, err := probe.Get(ready)
		must(t, err)
		must(t, response.Body.Close())
		if response.StatusCode != http.StatusOK {
			t.Errorf("/readyz: %d", response.StatusCode)
		}
	}
	testwait.Until(t, "a client behind them is answered", func() bool {
		return withheld(t.Context(), promptly, address, "GET /media/get HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", false) == nil
	})
	if took := time.Since(began); took >= time.Minute {
		t.Errorf("it waited %s: until the connections of others had ended", took)
	}
}
