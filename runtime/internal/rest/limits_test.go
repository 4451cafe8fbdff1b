package rest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/retryafter"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/internal/ratelimit"
)

func TestKeyLimit_AnswersRetryAfter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, other := w.tenant(t, "one"), w.tenant(t, "other")
	rt := w.runtime(t, func(o *options) { o.Limits = ratelimit.Config{Key: 0.01, KeyBurst: 4} })
	rt.Clock.Freeze() // the uploads take a time, in which tokens would arrive
	file := filePart("a.txt", []byte("x"))

	first := rt.do(t, http.MethodGet, "/media/get", key(one.Key))
	if first.Header.Get("RateLimit-Policy") != `"api_key";q=4;w=400` || first.Header.Get("RateLimit") != `"api_key";r=3;t=100` {
		t.Errorf("the headers of the first answer are %v", first.Header)
	}
	granted := rt.sign(t, one.Key, "")
	rt.uploadSigned(t, granted, file).item(t) // counts for its key
	rt.upload(t, one.Key, file)
	got := rt.do(t, http.MethodGet, "/media/get", key(one.Key))
	got.rejected(t, http.StatusTooManyRequests, "Too Many Requests")
	if after := got.Header.Get("Retry-After"); !retryafter.Is(got.Header, 100) || !strings.HasPrefix(got.Header.Get("RateLimit"), `"api_key";r=0;t=`) {
		t.Errorf("Retry-After %q, %v", after, got.Header)
	}
	for name, send := range map[string]option{"by key": key(one.Key), "by signature": signature(granted)} {
		got := rt.do(t, http.MethodPost, "/media/create", send, form(file))
		if detail := got.rejected(t, http.StatusTooManyRequests, "Bad Request"); detail != "too many requests" || got.Header.Get("Retry-After") == "" {
			t.Errorf("an upload %s: %q, %v", name, detail, got.Header)
		}
	}
	rt.do(t, http.MethodGet, "/media/get", key(other.Key)).Is(t, http.StatusOK, "another tenant")
	if metrics := string(rt.admin(t, "/metrics").Body); !strings.Contains(metrics, `mediastack_rate_limit_rejections_total{limit="api_key"} 3`) {
		t.Error("the rejections are not counted")
	}
	rt.Clock.Advance(100 * time.Second)
	rt.do(t, http.MethodGet, "/media/get", key(one.Key)).Is(t, http.StatusOK, "after Retry-After")
}

func TestClientLimit_RejectsBeforeAnythingElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.runtime(t, func(o *options) {
		o.Limits = ratelimit.Config{IP: 0.01, IPBurst: 2, TrustedProxies: []string{"127.0.0.0/8"}}
	})
	item := rt.sealed(t, one.Key, filePart("a.txt", []byte("hello")), field("access", "public"))
	from := func(address string) option { return header("X-Forwarded-For", "1.2.3.4, "+address) }
	for address := range map[string]bool{"198.51.100.1": true, "2001:db8::1": true} {
		for range 2 {
			if got := rt.do(t, http.MethodGet, item.File, from(address)); got.Status != http.StatusOK || got.Header.Get("RateLimit") == "" {
				t.Fatalf("%d %v", got.Status, got.Header)
			}
		}
	}
	rt.do(t, http.MethodGet, item.File, from("198.51.100.1")).rejected(t, http.StatusTooManyRequests, "Too Many Requests")
	rt.do(t, http.MethodGet, item.File, from("2001:db8::ffff")).rejected(t, http.StatusTooManyRequests, "Too Many Requests") // of the same network
	rt.do(t, http.MethodGet, "/no/such/route", from("198.51.100.1")).rejected(t, http.StatusTooManyRequests, "Too Many Requests")
	rt.do(t, http.MethodGet, item.File, from("198.51.100.2")).Is(t, http.StatusOK, "another client")

	// An upload is rejected before its body is sent.
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", rt.Addr())
	must(t, err)
	defer func() { _ = conn.Close() }()
	must(t, conn.SetDeadline(time.Now().Add(wait.Timeout(t))))
	_, err = fmt.Fprintf(conn, "POST /media/create HTTP/1.1\r\nHost: media.test\r\nX-Forwarded-For: 198.51.100.1\r\nx-service-apikey: %s\r\n"+
		"Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 50000000\r\nExpect: 100-continue\r\n\r\n", one.Key)
	must(t, err)
	text := make([]byte, 2048)
	n, err := conn.Read(text)
	must(t, err)
	if answer := string(text[:n]); !strings.HasPrefix(answer, "HTTP/1.1 429 ") || !strings.Contains(answer, `{"error":"Bad Request"`) {
		t.Errorf("the answer is %s", answer)
	}
}

func TestFailureLimit_StopsGuessesAndNoValidKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, late := w.tenant(t, "one"), w.tenant(t, "late")
	rt := w.runtime(t, func(o *options) { o.Limits = ratelimit.Config{Failures: 0.01, FailuresBurst: 5} })
	// Keys are cached only while notifications are connected.
	conn, err := pgx.Connect(t.Context(), w.Database.DatabaseURL)
	must(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	wait.Until(t, "the runtime listens", func() (listens bool) {
		must(t, conn.QueryRow(t.Context(), "SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()").Scan(&listens))
		return listens
	})
	for range 10 { // the runtime is notified of its own connection, too
		rt.expect(t, one, 0, 0)
	}
	granted := rt.sign(t, one.Key, "")
	for range 10 { // a request without a credential is not counted
		rt.do(t, http.MethodGet, "/media/get").rejected(t, http.StatusUnauthorized, "Unauthorized")
	}
	wrong := func() answer {
		made, err := account.NewKeySecret(0)
		must(t, err)
		return rt.do(t, http.MethodGet, "/media/get", key(made.Reveal()))
	}
	for range 4 {
		wrong().rejected(t, http.StatusUnauthorized, "Unauthorized")
	}
	rt.uploadSigned(t, granted+"A", filePart("a", nil)).rejected(t, http.StatusForbidden, "Invalid signature")
	got := wrong()
	if detail := got.rejected(t, http.StatusTooManyRequests, "Too Many Requests"); detail != "too many wrong credentials" || got.Header.Get("Retry-After") == "" {
		t.Errorf("%q, %v", detail, got.Header)
	}
	// A valid key that was not sent before might be a guess.
	rt.do(t, http.MethodGet, "/media/get", key(late.Key)).rejected(t, http.StatusTooManyRequests, "Too Many Requests")
	// A key that was valid before is accepted from the same client IP, also after its cache entry
	// has expired, its account has changed, or notifications were disconnected.
	rt.expect(t, one, 0, 0)
	rt.Clock.Advance(61 * time.Second)
	rt.expect(t, one, 0, 0)
	one.Spec.MaxStorage /= 2
	must(t, check.ErrorOf(w.Registry.Ensure(t.Context(), one.Spec)))
	rt.expect(t, one, 0, 0)
	must(t, check.ErrorOf(conn.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()")))
	rt.expect(t, one, 0, 0)
	wait.Until(t, "the loss is noticed", func() bool { return strings.Contains(rt.Logs.String(), "account notifications disconnected") })
	rt.expect(t, one, 0, 0)
	wrong().rejected(t, http.StatusTooManyRequests, "Too Many Requests")
	// A revoked key is looked up once, and then rejected like an unknown one.
	must(t, check.ErrorOf(w.Registry.Close(t.Context(), one.Account.ID, account.CloseOptions{})))
	wait.Until(t, "the key is rejected", func() bool {
		return rt.do(t, http.MethodGet, "/media/get", key(one.Key)).Status == http.StatusUnauthorized
	})
	rt.do(t, http.MethodGet, "/media/get", key(one.Key)).rejected(t, http.StatusTooManyRequests, "Too Many Requests")
	rt.Clock.Advance(100 * time.Second)
	rt.do(t, http.MethodGet, "/media/get", key(late.Key)).Is(t, http.StatusOK, "after Retry-After")
}

func TestUpload_BelowTheMinimumRateIsAborted(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t, func(o *options) { o.Server.StallTimeout, o.Server.MinRate = time.Second, 1<<20 })
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", rt.Addr())
	must(t, err)
	defer func() { _ = conn.Close() }()
	must(t, conn.SetDeadline(time.Now().Add(wait.Timeout(t))))
	_, err = fmt.Fprintf(conn, "POST /media/create HTTP/1.1\r\nHost: media.test\r\nx-service-apikey: %s\r\n"+
		"Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 1000000\r\n\r\n--b\r\n", one.Key)
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { // slowly, and without long pauses
		tick := time.NewTicker(100 * time.Millisecond) //nolint:forbidigo // the pace of a slow client
		defer tick.Stop()
		for ctx.Err() == nil {
			<-tick.C
			if _, err := conn.Write([]byte("x")); err != nil {
				return
			}
		}
	}()
	got := make([]byte, 2048)
	n, err := conn.Read(got)
	must(t, err)
	if !bytes.HasPrefix(got[:n], []byte("HTTP/1.1 400 ")) || !bytes.Contains(got[:n], []byte("no progress")) {
		t.Errorf("the client is answered %s", got[:n])
	}
	// Without a minimum rate the same pace is accepted: the body takes longer than the stall timeout.
	const stall, pause = 5 * time.Second, 500 * time.Millisecond
	lenient := w.runtime(t, func(o *options) { o.Server.StallTimeout = stall })
	body, kind := encode(filePart("a.txt", []byte("0123456789")))
	reader, writer := io.Pipe()
	go func() {
		tick := time.NewTicker(pause) //nolint:forbidigo // the pace of a slow client
		defer tick.Stop()
		size := len(body) / int(stall/pause+2)
		for len(body) > 0 {
			<-tick.C
			step := min(len(body), size)
			_, _ = writer.Write(body[:step])
			body = body[step:]
		}
		_ = writer.Close()
	}()
	done := lenient.do(t, http.MethodPost, "/media/create", key(one.Key), header("Content-Type", kind), func(r *request) { r.Body = reader })
	if item := done.item(t); item.Size != 10 {
		t.Errorf("%s", done.Body)
	}
}

func TestDownload_ThatStallsIsAborted(t *testing.T) {
	t.Parallel()
	w, one, rt := withTenant(t, func(o *options) { o.Server.StallTimeout, o.Server.MinRate = time.Second, 1<<20 })
	item := w.runtime(t).sealed(t, one.Key, filePart("a.bin", randomBytes(1, 20<<20)), field("access", "public"))
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", rt.Addr())
	must(t, err)
	defer func() { _ = conn.Close() }()
	must(t, check.ErrorOf(fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: media.test\r\n\r\n", strings.TrimPrefix(item.File, baseURL))))
	// The client reads nothing, so the buffers fill and the download stalls.
	wait.Until(t, "the request has ended", func() bool {
		for line := range strings.Lines(rt.Logs.String()) {
			var entry struct {
				Route string `json:"route"`
				Out   int64  `json:"bytes_out"`
			}
			if json.Unmarshal([]byte(line), &entry) == nil && strings.HasPrefix(entry.Route, "/media/file/") {
				if entry.Out >= item.Size {
					t.Error("the whole file was sent: it is too small for this test")
				}
				return true
			}
		}
		return false
	})
}

func TestUpload_WithoutFreeStorageLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one", func(s *account.Spec) { s.MaxStorage, s.MaxUploadSize = 1<<20, 1<<20 })
	rt := w.runtime(t)
	rt.sealed(t, one.Key, filePart("a.bin", make([]byte, 900<<10)))
	rt.do(t, http.MethodPost, "/media/create", key(one.Key), form(filePart("b.bin", make([]byte, 200<<10)))).rejected(t, http.StatusRequestEntityTooLarge, "Bad Request")
	if log := rt.Logs.String(); strings.Contains(log, "abandoned") || strings.Contains(log, "SQLSTATE") {
		t.Errorf("the log: %s", log)
	}
}
