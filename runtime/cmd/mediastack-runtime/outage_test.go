package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/retryafter"
	testwait "mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/internal/imaging/imagetest"
)

const (
	multipartType = "multipart/form-data; boundary=x"
	multipartFile = "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\nContent-Type: text/plain\r\n\r\nbytes\r\n--x--\r\n"
)

// createdItem is what an upload returns.
type createdItem struct {
	ID   string `json:"mediaId"`
	File string `json:"file"`
}

// upload uploads a small file.
func (s *service) upload(t *testing.T) (created createdItem) {
	t.Helper()
	status, text := s.send(t, http.MethodPost, "/media/create", multipartType, multipartFile)
	if err := json.Unmarshal([]byte(text), &created); err != nil || status >= 300 || created.ID == "" {
		t.Fatalf("an upload: %d %s %v", status, text, err)
	}
	return created
}

// readiness is the response of /readyz.
type readiness struct {
	Ready, Degraded bool
	Checks          map[string]string
}

func (s *service) readiness(t *testing.T) (status int, found readiness) {
	t.Helper()
	response, err := http.Get("http://" + s.admin + "/readyz")
	must(t, err)
	defer func() { _ = response.Body.Close() }()
	must(t, json.NewDecoder(response.Body).Decode(&found))
	return response.StatusCode, found
}

func (s *service) ready(t *testing.T) bool {
	t.Helper()
	status, _ := s.readiness(t)
	return status == http.StatusOK
}

// response is a response without its body.
type response struct {
	status int
	header http.Header
}

// request sends a request without a body.
func (s *service) request(t *testing.T, method, path string, headers ...string) response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.address+path, nil)
	must(t, err)
	request.Host = "media.test"
	request.Header.Set("x-service-apikey", s.tenant.Key)
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	got, err := http.DefaultClient.Do(request)
	must(t, err)
	must(t, check.ErrorOf(io.Copy(io.Discard, got.Body)))
	must(t, got.Body.Close())
	return response{got.StatusCode, got.Header}
}

// S3 away took all replicas out of the Service, so that requests that need no S3 failed, too.
func TestServe_ServesWithoutS3WhatNeedsNone(t *testing.T) {
	t.Parallel()
	s3 := testenv.S3Server(t)
	s := prepared(t, testenv.Postgres(t), s3.Server.Access)
	s.serve(t)
	testwait.Until(t, "the service is ready", func() bool { return s.ready(t) })
	item, unread, draft, doomed := s.upload(t), s.upload(t), s.upload(t), s.upload(t)
	file := strings.TrimPrefix(item.File, "http://media.test")
	if got := s.request(t, http.MethodGet, file); got.status != http.StatusOK {
		t.Fatalf("the file %s: %d", file, got.status)
	}

	s3.Kill()
	testwait.Until(t, "the service knows that S3 is away", func() bool { _, found := s.readiness(t); return found.Degraded })
	if status, found := s.readiness(t); status != http.StatusOK || !found.Ready || found.Checks["objects"] == "ok" || found.Checks["database"] != "ok" {
		t.Errorf("without S3: %d %+v", status, found)
	}
	for name, got := range map[string]response{
		"an upload":          s.request(t, http.MethodPost, "/media/create", "Content-Type", multipartType),
		"a file":             s.request(t, http.MethodGet, unread.path()),
		"a resumable upload": s.request(t, http.MethodPost, "/media/create/resumable", "Tus-Resumable", "1.0.0", "Upload-Length", "5"),
	} {
		if got.status != http.StatusServiceUnavailable || !retryafter.Is(got.header, 5) {
			t.Errorf("%s without S3: %d, Retry-After %q", name, got.status, got.header.Get("Retry-After"))
		}
	}
	for method, paths := range map[string][]string{
		http.MethodGet:    {file, "/media/get", "/media/get/count", "/media/get/size", "/media/get/" + item.ID, "/settings/media/get"},
		http.MethodPost:   {"/media/seal/" + draft.ID, "/media/signature/create"},
		http.MethodDelete: {"/media/delete/" + doomed.ID},
	} {
		for _, path := range paths {
			if got := s.request(t, method, path); got.status >= 300 {
				t.Errorf("%s %s without S3: %d", method, path, got.status)
			}
		}
	}
	s3.Start()
	testwait.Until(t, "the service knows that S3 is back", func() bool { _, found := s.readiness(t); return !found.Degraded })
	s.upload(t)
	if got := s.request(t, http.MethodGet, file); got.status != http.StatusOK {
		t.Errorf("the file: %d", got.status)
	}
}

// While S3 was away, derivatives that are made later were tried and failed: thousands of items that waited for them wrote a line into the log
// each time, and the attempts counted as if workers had died on the file.
func TestServe_TriesNoDerivativesWithoutS3(t *testing.T) {
	t.Parallel()
	database, s3 := testenv.Postgres(t), testenv.S3Server(t)
	s := prepared(t, database, s3.Server.Access)
	s.serve(t)
	testwait.Until(t, "the service is ready", func() bool { return s.ready(t) })
	if status, text := s.send(t, http.MethodPost, "/settings/media/create", "application/json", `{"derivatives": "Later"}`); status != http.StatusOK {
		t.Fatalf("the settings: %d %s", status, text)
	}
	body := "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.jpg\"\r\n\r\n" + string(imagetest.JPEG(imagetest.Picture(64, 48))) + "\r\n--x--\r\n"
	status, text := s.send(t, http.MethodPost, "/media/create", "multipart/form-data; boundary=x", body)
	var item struct{ Thumbnail string }
	if err := json.Unmarshal([]byte(text), &item); err != nil || status != http.StatusCreated {
		t.Fatalf("an upload: %d %s %v", status, text, err)
	}
	thumbnail := strings.TrimPrefix(item.Thumbnail, "http://media.test")
	if got := s.request(t, http.MethodGet, thumbnail); got.status != http.StatusOK {
		t.Fatalf("the thumbnail: %d", got.status)
	}
	failed := func() float64 {
		return metricValue(s.metrics(t), "mediastack_work_attempts_total", "kind", "derivatives", "outcome", "retry")
	}
	s3.Kill()
	testwait.Until(t, "the service knows that S3 is away", func() bool { _, found := s.readiness(t); return found.Degraded })
	before := failed()
	statement(t, database, `UPDATE stored_item SET derivatives_state = 1, objects = jsonb_path_query_array(objects, '$[*] ? (@.variant == "original")')`)
	statement(t, database, `INSERT INTO work (kind, key, account_id, due_at) SELECT 'derivatives', id, account_id, now() FROM stored_item ON CONFLICT DO NOTHING`)
	if got := s.request(t, http.MethodGet, thumbnail); got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
		t.Errorf("the thumbnail without S3: %d %v", got.status, got.header)
	}
	if n := failed() - before; n != 0 {
		t.Errorf("%v attempts failed", n)
	}
	s3.Start()
	testwait.Until(t, "the service knows that S3 is back", func() bool { _, found := s.readiness(t); return !found.Degraded })
	testwait.Until(t, "the thumbnail is there", func() bool { return s.request(t, http.MethodGet, thumbnail).status == http.StatusOK })
}

// A rollout with a wrong S3 key must not replace replicas that have the right one.
func TestServe_IsNotReadyWithAWrongS3Key(t *testing.T) {
	t.Parallel()
	s := prepared(t, testenv.Postgres(t), testenv.S3(t))
	s.serve(t, "--s3-secret-key=wrong")
	testwait.Until(t, "the readiness names the key", func() bool {
		status, found := s.readiness(t)
		return status == http.StatusServiceUnavailable && strings.Contains(found.Checks["objects"], "rejects the credentials") && found.Checks["schema"] == "ok"
	})
}

// Responses while the database is away must say when to retry, on every route.
func TestServe_EveryRouteSaysWhenToRetryWithoutADatabase(t *testing.T) {
	t.Parallel()
	server := testenv.PostgresServer(t)
	s := prepared(t, testenv.Database(t, server), testenv.S3(t))
	s.serve(t, "--database-retry-timeout=100ms")
	testwait.Until(t, "the service is ready", func() bool { return s.ready(t) })
	routes := s.routes(t)
	server.Kill()
	testwait.Until(t, "the service is not ready", func() bool {
		status, found := s.readiness(t)
		return status == http.StatusServiceUnavailable && found.Checks["database"] != "ok"
	})
	unavailable := 0
	var requests sync.WaitGroup
	var mu sync.Mutex
	for _, to := range routes {
		requests.Go(func() {
			got := s.request(t, to.method, to.path, "Content-Type", kindFor(to.path), "Tus-Resumable", "1.0.0", "Upload-Length", "5", "Upload-Offset", "0", "Accept", "application/json, text/event-stream")
			mu.Lock()
			defer mu.Unlock()
			switch {
			case got.status == http.StatusServiceUnavailable || got.status == http.StatusLocked:
				unavailable++
				if got.header.Get("Retry-After") == "" {
					t.Errorf("%s %s: %d without Retry-After", to.method, to.path, got.status)
				}
			case got.status >= 500:
				t.Errorf("%s %s: %d", to.method, to.path, got.status)
			}
		})
	}
	requests.Wait()
	if unavailable < 15 {
		t.Errorf("%d routes were unavailable", unavailable)
	}
}

// load sends requests until the returned function is called, which returns what failed.
func (s *service) load(t *testing.T, paths ...string) (succeeded *atomic.Int64, end func() (failures []string)) {
	t.Helper()
	stop := make(chan struct{})
	succeeded = new(atomic.Int64)
	var mu sync.Mutex
	var failures []string
	var clients sync.WaitGroup
	for n := range 6 {
		clients.Go(func() {
			for i := n; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				method, path, _ := strings.Cut(paths[i%len(paths)], " ")
				if got := s.request(t, method, path); got.status < 300 {
					succeeded.Add(1)
				} else {
					mu.Lock()
					failures = append(failures, fmt.Sprintf("%s %s: %d", method, path, got.status))
					mu.Unlock()
				}
			}
		})
	}
	stopped := sync.OnceFunc(func() { close(stop); clients.Wait() })
	t.Cleanup(stopped)
	return succeeded, func() []string { stopped(); return failures }
}

// A restart of the database once failed every request, without Retry-After.
func TestServe_BridgesARestartOfTheDatabase(t *testing.T) {
	t.Parallel()
	server := testenv.PostgresServer(t)
	s := prepared(t, testenv.Database(t, server), testenv.S3(t))
	s.serve(t, "--database-retry-timeout=30s", "--key-cache-ttl=1ns", "--rate-limit-key=0", "--rate-limit-ip=0")
	testwait.Until(t, "the service is ready", func() bool { return s.ready(t) })
	item := s.upload(t)
	status, text := s.send(t, http.MethodPost, "/media/create/resumable", "", "", "Tus-Resumable", "1.0.0", "Upload-Length", "5")
	if status != http.StatusCreated {
		t.Fatalf("a resumable upload: %d %s", status, text)
	}
	var resumable string
	testwait.Until(t, "the upload is listed", func() bool {
		conn, err := pgx.Connect(t.Context(), s.database)
		must(t, err)
		defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
		return conn.QueryRow(t.Context(), "SELECT item_id::text FROM resumable_upload").Scan(&resumable) == nil
	})
	succeeded, end := s.load(t, "GET /media/get", "GET /media/get/count", "GET /media/get/size", "GET /media/get/"+item.ID, "POST /media/seal/"+item.ID, "POST /media/signature/create",
		"HEAD /media/create/resumable/"+resumable)
	for _, restart := range []func(){func() { server.Stop(); server.Start() }, func() { server.Kill(); server.Start() }} {
		restart()
		before := succeeded.Load()
		testwait.Until(t, "requests succeed after the restart", func() bool { return succeeded.Load() > before+50 })
	}
	if failures := end(); len(failures) > 0 {
		t.Errorf("%d requests succeeded, %d failed: %v", succeeded.Load(), len(failures), failures[:min(len(failures), 10)])
	}
}

// Two replicas behind a load balancer that reads /readyz: one is replaced under load.
func TestServe_DrainsWithoutAFailedRequest(t *testing.T) {
	t.Parallel()
	database, s3 := testenv.Postgres(t), testenv.S3(t)
	first := prepared(t, database, s3)
	second := &service{logs: new(buffer), database: database, stores: first.stores, tenant: first.tenant}
	stop := first.serve(t, "--drain-delay=2s", "--rate-limit-key=0", "--rate-limit-ip=0")
	second.serve(t, "--rate-limit-key=0", "--rate-limit-ip=0")
	testwait.Until(t, "both are ready", func() bool { return first.ready(t) && second.ready(t) })
	item := first.upload(t)

	var to atomic.Pointer[string]
	to.Store(&first.address)
	transport := &http.Transport{MaxIdleConnsPerHost: 16, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, *to.Load())
	}}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport, Timeout: testwait.Timeout(t)}
	ending := make(chan struct{})
	var requests, closing atomic.Int64
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for {
				select {
				case <-ending:
					return
				default:
				}
				// A transport does not repeat a POST by itself.
				request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://media.test/media/seal/"+item.ID, http.NoBody)
				must(t, err)
				request.Header.Set("x-service-apikey", first.tenant.Key)
				response, err := client.Do(request)
				if err != nil {
					t.Errorf("a request failed: %v", err)
					continue
				}
				if _, err := io.Copy(io.Discard, response.Body); err != nil || response.StatusCode != http.StatusOK {
					t.Errorf("a request failed: %d %v", response.StatusCode, err)
				}
				_ = response.Body.Close()
				requests.Add(1)
				if response.Close {
					closing.Add(1)
				}
			}
		})
	}
	end := sync.OnceFunc(func() { close(ending); clients.Wait() })
	t.Cleanup(end)
	testwait.Until(t, "the first replica has served", func() bool { return requests.Load() > 100 })
	if closing.Load() != 0 {
		t.Error("a connection was closed before the drain")
	}
	stop()
	testwait.Until(t, "the first replica is not ready", func() bool { return !first.ready(t) })
	testwait.Until(t, "it still serves, and closes connections", func() bool { return closing.Load() > 100 })
	to.Store(&second.address)
	before := requests.Load()
	testwait.Until(t, "the second replica serves", func() bool { return requests.Load() > before+100 })
	testwait.Until(t, "the first replica has ended", func() bool { return strings.Contains(first.logs.String(), "shutdown complete") })
	before = requests.Load()
	testwait.Until(t, "the second replica serves", func() bool { return requests.Load() > before+100 })
	end()
	t.Logf("%d requests, of which %d closed their connection", requests.Load(), closing.Load())
}

func TestMigrate_WaitsForTheDatabase(t *testing.T) {
	t.Parallel()
	server := testenv.PostgresServerWithPassword(t, "right")
	url := testenv.EmptyDatabase(t, server)
	wrong := strings.Replace(url, "right", "hunter2", 1)
	migrates := func(url string) (logs *buffer, ended chan int) {
		logs, ended = new(buffer), make(chan int, 1)
		go func() {
			ended <- run(t.Context(), []string{"migrate", "--database-url=" + url}, stdio{out: logs, err: logs})
		}()
		return logs, ended
	}
	admin := func(text string) {
		conn, err := pgx.Connect(t.Context(), server.Server.AdminURL("postgres"))
		must(t, err)
		defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
		must(t, check.ErrorOf(conn.Exec(t.Context(), text)))
	}
	for _, c := range []struct {
		name, url, says string
		before, after   func()
	}{
		{"away", url, "cannot be used", server.Stop, server.Start},
		{"a wrong password", wrong, "rejects the user or the password of SERVICE_DATABASE_URL", func() {}, func() { admin("ALTER ROLE mediastack PASSWORD 'hunter2'") }},
		{"no database", strings.Replace(wrong, "/test_", "/later_", 1), "the database of SERVICE_DATABASE_URL does not exist", func() {}, func() {
			config, err := pgx.ParseConfig(strings.Replace(wrong, "/test_", "/later_", 1))
			must(t, err)
			admin("CREATE DATABASE " + config.Database + " OWNER mediastack")
		}},
		{"no connection", wrong, "has no connection left", func() { admin("ALTER ROLE mediastack CONNECTION LIMIT 0") }, func() { admin("ALTER ROLE mediastack CONNECTION LIMIT -1") }},
	} {
		c.before()
		logs, ended := migrates(c.url)
		testwait.Until(t, c.name+": migrate says what it waits for", func() bool {
			return strings.Contains(logs.String(), "migrate waits: ") && strings.Contains(logs.String(), c.says) && strings.Contains(logs.String(), `"gives_up_after":"5m0s"`) &&
				strings.Contains(logs.String(), fmt.Sprintf("127.0.0.1:%d/", server.Server.Port))
		})
		c.after()
		if code := <-ended; code != 0 {
			t.Errorf("%s: exit code %d: %s", c.name, code, logs)
		}
		if strings.Contains(logs.String(), "hunter2") || strings.Contains(logs.String(), "right@") {
			t.Errorf("%s: the password is in the log: %s", c.name, logs)
		}
	}
}

func TestMigrate_GivesUpAfterTheWait(t *testing.T) {
	t.Parallel()
	code, _, stderr := call(t.Context(), "migrate", "--database-wait=1s", fmt.Sprintf("--database-url=postgres://u:hunter2@127.0.0.1:%d/media", testenv.FreePort(t)))
	if code != exitFailed || !strings.Contains(stderr, "cannot be used for 1s") || strings.Contains(stderr, "hunter2") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	for _, wait := range []string{"-1s", "2h"} {
		if code, _, stderr := call(t.Context(), "migrate", "--database-url=postgres://u@h/d", "--database-wait="+wait); code != exitUsage || !strings.Contains(stderr, "SERVICE_DATABASE_WAIT must be from 0s to 1h") {
			t.Errorf("%s: exit code %d: %s", wait, code, stderr)
		}
	}
	for _, timeout := range []string{"0s", "9ms", "11s"} {
		if code, _, stderr := call(t.Context(), "migrate", "--database-url=postgres://u@h/d", "--migration-lock-timeout="+timeout); code != exitUsage || !strings.Contains(stderr, "SERVICE_MIGRATION_LOCK_TIMEOUT must be from 10ms to 10s") {
			t.Errorf("%s: exit code %d: %s", timeout, code, stderr)
		}
	}
}
