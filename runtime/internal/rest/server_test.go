package rest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/objectstore"
	"mediastack.dev/runtime/postgres"
)

func TestShutdown_FinishesUploadsAndAcceptsNoNewOnes(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	data := randomBytes(3, 10<<20)
	body, kind := encode(filePart("a.bin", data))
	reader, writer := io.Pipe()
	result := make(chan answer, 1)
	failed := make(chan error, 1)
	go func() {
		got, err := rt.try(context.WithoutCancel(t.Context()), http.MethodPost, "/media/create", key(one.Key), func(r *request) {
			r.Body = reader
			r.Header.Set("Content-Type", kind)
		})
		failed <- err
		result <- got
	}()
	_, err := writer.Write(body[:9<<20]) // more than all buffers hold: the upload is in progress
	must(t, err)
	rt.Stop()
	wait.Until(t, "new connections are rejected", func() bool {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", rt.Addr())
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	if got := rt.admin(t, "/readyz"); got.Status != http.StatusServiceUnavailable || !strings.Contains(string(got.Body), `"draining":true`) {
		t.Errorf("while draining /readyz says %d %s", got.Status, got.Body)
	}
	must(t, check.ErrorOf(writer.Write(body[9<<20:])))
	must(t, writer.Close())
	must(t, <-failed)
	if item := (<-result).item(t); item.Size != int64(len(data)) {
		t.Errorf("the upload that was running stored %d bytes", item.Size)
	}
	select {
	case err := <-rt.Ended:
		must(t, err)
	case <-t.Context().Done():
		t.Fatal("the runtime did not end")
	}
}

// admin sends a request to the admin server.
func (rt *runtime) admin(t *testing.T, path string) answer {
	t.Helper()
	got, err := runtimetest.Send(t.Context(), http.DefaultClient, http.MethodGet, "http://"+rt.AdminAddr()+path)
	must(t, err)
	return answer{got}
}

func TestReadiness_NamesWhatIsMissingAndRecovers(t *testing.T) {
	t.Parallel()
	access := testenv.S3(t)
	objects, err := objectstore.New(objectstore.Config{Endpoint: access.Endpoint, Region: access.Region, AccessKey: access.AccessKey, SecretKey: access.SecretKey})
	must(t, err)
	cfg := postgres.Config{DatabaseURL: testenv.EmptyPostgres(t), DatabaseConns: 4}
	store, err := postgres.Open(t.Context(), cfg)
	must(t, err)
	t.Cleanup(store.Close)
	rt := (&world{&runtimetest.Env{Database: cfg, Store: store, Objects: objects}}).runtime(t)

	got := rt.admin(t, "/readyz")
	if got.Status != http.StatusServiceUnavailable || !strings.Contains(string(got.Body), "migrate") || !strings.Contains(string(got.Body), `"database":"ok"`) {
		t.Errorf("without a schema: %d %s", got.Status, got.Body)
	}
	rt.admin(t, "/healthz").Is(t, http.StatusOK, "/healthz")
	made, err := account.NewKeySecret(0)
	must(t, err)
	if got := rt.do(t, http.MethodGet, "/media/get", key(made.Reveal())); got.Status != http.StatusServiceUnavailable || got.Header.Get("Retry-After") == "" {
		t.Errorf("a request without a schema: %d %s", got.Status, got.Body)
	}
	must(t, postgres.Migrate(t.Context(), cfg, slog.New(slog.DiscardHandler)))
	rt.admin(t, "/readyz").Is(t, http.StatusOK, "after migrate")
	rt.do(t, http.MethodGet, "/media/get", key(made.Reveal())).rejected(t, http.StatusUnauthorized, "Unauthorized")
}

func TestMetrics_CountByRoute(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	item := rt.upload(t, one.Key, filePart("a.txt", []byte("hello")))
	rt.do(t, http.MethodGet, "/media/get/"+item.MediaId.String(), key(one.Key))
	rt.do(t, http.MethodGet, "/no/such/route")
	metrics := string(rt.admin(t, "/metrics").Body)
	for _, want := range []string{
		`mediastack_http_requests_total{code="200",method="GET",route="/media/get/{mediaId}"} 1`,
		`mediastack_http_requests_total{code="201",method="POST",route="/media/create"} 1`,
		`mediastack_http_requests_total{code="404",method="GET",route="unmatched"} 1`,
		`mediastack_http_requests_in_flight 0`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	if strings.Contains(metrics, item.MediaId.String()) {
		t.Error("the metrics hold an id")
	}
}

func TestLogs_HaveEveryRequestAndNoCredential(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	wrong, err := account.NewKeySecret(0)
	must(t, err)
	item := rt.upload(t, one.Key, filePart("holiday.txt", []byte("hello")))
	rt.do(t, http.MethodGet, item.File)
	granted := rt.sign(t, one.Key, `{"group": "g"}`)
	rt.uploadSigned(t, granted, filePart("a.txt", []byte("x")))
	rt.uploadSigned(t, granted+"A", filePart("a.txt", []byte("x")))
	rt.do(t, http.MethodGet, "/media/get?group=querytext", key(wrong.Reveal()))
	rt.do(t, http.MethodGet, item.File+"A")
	got := rt.do(t, http.MethodGet, "/media/get", key(one.Key), header("X-Request-Id", "my-request-0001"))
	if got.Header.Get("X-Request-Id") != "my-request-0001" {
		t.Errorf("X-Request-Id: %s", got.Header.Get("X-Request-Id"))
	}
	if got := rt.do(t, http.MethodGet, "/media/get", key(one.Key), header("X-Request-Id", "no good id")); strings.Contains(got.Header.Get("X-Request-Id"), "no") {
		t.Error("a request id that is none was taken over")
	}
	_, query, _ := strings.Cut(item.File, "?")
	_, code, _ := strings.Cut(query, "signature=")
	claims, _, _ := strings.Cut(granted, ".")
	wait.Until(t, "the last request is logged", func() bool { return strings.Count(rt.Logs.String(), `"msg":"request"`) >= 9 })
	logs := rt.Logs.String()
	for name, secret := range map[string]string{"the key": one.Key, "a wrong key": wrong.Reveal(), "a key's random part": one.Key[4:20], "the signature": granted,
		"its claims": claims, "a delivery signature": code, "the server secret": secretOf("a"), "a query": "querytext", "a file name": "holiday.txt"} {
		if strings.Contains(logs, secret) {
			t.Errorf("the log holds %s", name)
		}
	}
	found := false
	for line := range strings.Lines(logs) {
		var entry map[string]any
		must(t, json.Unmarshal([]byte(line), &entry))
		if entry["request_id"] == "my-request-0001" {
			found = entry["route"] == "/media/get" && entry["method"] == "GET" && entry["status"] == 200.0 &&
				entry["account"] == one.Account.ID.String() && entry["app"] == one.App.ID.String()
		}
	}
	if !found {
		t.Errorf("no line tells of the request:\n%s", logs)
	}
}

func TestUpload_ThatStallsIsAborted(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t, func(o *options) { o.Server.StallTimeout = time.Second })
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", rt.Addr())
	must(t, err)
	defer func() { _ = conn.Close() }()
	must(t, conn.SetDeadline(time.Now().Add(wait.Timeout(t))))
	_, err = fmt.Fprintf(conn, "POST /media/create HTTP/1.1\r\nHost: media.test\r\nx-service-apikey: %s\r\n"+
		"Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 1000\r\n\r\n--b\r\n", one.Key)
	must(t, err)
	got, err := io.ReadAll(conn)
	must(t, err)
	if !bytes.HasPrefix(got, []byte("HTTP/1.1 400 ")) || !bytes.Contains(got, []byte("no progress")) {
		t.Errorf("the client is answered %s", got)
	}
}

func TestUpload_WhoseClientLeavesKeepsNothing(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t)
	body, kind := encode(filePart("a.bin", randomBytes(3, 20<<20)))
	ctx, leave := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	failed := make(chan error, 1)
	go func() {
		_, err := rt.try(ctx, http.MethodPost, "/media/create", key(one.Key), func(r *request) {
			r.Body = reader
			r.Header.Set("Content-Type", kind)
		})
		failed <- err
	}()
	must(t, check.ErrorOf(writer.Write(body[:18<<20])))
	usage := func() account.Usage {
		usage, err := w.Registry.Usage(t.Context(), one.Account.ID)
		must(t, err)
		return usage
	}
	wait.Until(t, "bytes are reserved", func() bool { return usage().Reserved > 0 })
	leave()
	_ = writer.CloseWithError(context.Canceled)
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("the client saw %v", err)
	}
	wait.Until(t, "nothing is held", func() bool { return usage() == (account.Usage{}) })
}

// HEAD was answered 404 and 405 on routes that answer GET.
func TestHead_IsAsGetWithoutABody(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	item := rt.sealed(t, one.Key, filePart("a.txt", []byte("hello")), field("access", "public"))
	send := func(method, path string, headers ...string) answer {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, "http://"+rt.Addr()+path, nil)
		must(t, err)
		request.Header.Set("x-service-apikey", one.Key)
		for i := 0; i+1 < len(headers); i += 2 {
			request.Header.Set(headers[i], headers[i+1])
		}
		response, err := http.DefaultTransport.RoundTrip(request)
		must(t, err)
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		must(t, err)
		return answer{runtimetest.Answer{Status: response.StatusCode, Header: response.Header, Body: body}}
	}
	for _, path := range []string{"/openapi.json", "/media/get", "/media/get/", "/media/get/count", "/media/get/size", "/media/get/" + item.MediaId.String(), "/media/deleted", "/settings/media/get", strings.TrimPrefix(item.File, baseURL)} {
		get, head := send(http.MethodGet, path), send(http.MethodHead, path)
		if head.Status != http.StatusOK || get.Status != http.StatusOK || len(head.Body) != 0 {
			t.Errorf("%s: GET %d, HEAD %d with %d bytes", path, get.Status, head.Status, len(head.Body))
		}
		for _, name := range []string{"Content-Type", "Content-Length", "ETag", "X-Total-Count", "Cache-Control"} {
			if get.Header.Get(name) != head.Header.Get(name) {
				t.Errorf("%s: %s is %q by GET, and %q by HEAD", path, name, get.Header.Get(name), head.Header.Get(name))
			}
		}
	}
	tag := send(http.MethodHead, "/openapi.json").Header.Get("ETag")
	if again := send(http.MethodGet, "/openapi.json", "If-None-Match", tag); tag == "" || again.Status != http.StatusNotModified || len(again.Body) != 0 {
		t.Errorf("the ETag %s: %d", tag, again.Status)
	}
	for path, allow := range map[string]string{"/media/create": "POST", "/media/get": "GET, HEAD, POST", "/media/batch": "POST", "/media/deleted": "GET, HEAD"} {
		if got := send(http.MethodPatch, path); got.Status != http.StatusMethodNotAllowed || got.Header.Get("Allow") != allow {
			t.Errorf("PATCH %s: %d, Allow %q", path, got.Status, got.Header.Get("Allow"))
		}
	}
}
