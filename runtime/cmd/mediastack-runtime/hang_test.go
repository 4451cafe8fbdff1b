package main

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/retryafter"
	testwait "mediastack.dev/hack/testenv/wait"
)

// A store that accepts connections and does not answer is away, too.
func TestServe_AnswersAtOnceWhileS3Hangs(t *testing.T) {
	t.Parallel()
	access := testenv.S3(t)
	proxy := testenv.NewTCPProxy(t, strings.TrimPrefix(access.Endpoint, "http://"))
	access.Endpoint = "http://" + proxy.String()
	s := prepared(t, testenv.Postgres(t), access)
	proxy.Set(testenv.ProxyStall)
	s.serve(t)
	testwait.Until(t, "the service is ready without S3", func() bool { return s.ready(t) })
	if got := s.request(t, http.MethodPost, "/media/create", "Content-Type", multipartType); got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
		t.Errorf("an upload: %d %v", got.status, got.header)
	}
	if got := s.request(t, http.MethodGet, "/media/get"); got.status != http.StatusOK {
		t.Errorf("a list: %d", got.status)
	}
	proxy.Set(testenv.ProxyOpen)
	testwait.Until(t, "the service knows that S3 is back", func() bool { _, found := s.readiness(t); return !found.Degraded })
	testwait.Until(t, "uploads are accepted", func() bool {
		status, _ := s.send(t, http.MethodPost, "/media/create", multipartType, multipartFile)
		return status < 300
	})
}

// Requests that were in flight when S3 began to hang once waited for a minute, and again for each of
// their retries.
func TestServe_EndsRequestsInFlightWhenS3BeginsToHang(t *testing.T) {
	t.Parallel()
	access := testenv.S3(t)
	proxy := testenv.NewTCPProxy(t, strings.TrimPrefix(access.Endpoint, "http://"))
	access.Endpoint = "http://" + proxy.String()
	s := prepared(t, testenv.Postgres(t), access)
	s.serve(t)
	testwait.Until(t, "the service is ready", func() bool { _, found := s.readiness(t); return found.Ready && !found.Degraded })
	item := s.upload(t)
	proxy.Set(testenv.ProxyStall)
	ctx, cancel := context.WithTimeout(t.Context(), promptly)
	defer cancel()
	var requests sync.WaitGroup
	for name, send := range map[string]func() (*http.Request, error){
		"an upload": func() (*http.Request, error) {
			return http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.address+"/media/create", strings.NewReader(multipartFile))
		},
		"a file": func() (*http.Request, error) {
			return http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+strings.TrimPrefix(item.File, "http://media.test"), nil)
		},
	} {
		request, err := send()
		must(t, err)
		request.Header.Set("x-service-apikey", s.tenant.Key)
		request.Header.Set("Content-Type", multipartType)
		requests.Go(func() {
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			defer func() { _ = response.Body.Close() }()
			if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" {
				t.Errorf("%s: %d %v", name, response.StatusCode, response.Header)
			}
		})
	}
	requests.Wait()
	proxy.Set(testenv.ProxyOpen)
	testwait.Until(t, "uploads are accepted", func() bool {
		status, _ := s.send(t, http.MethodPost, "/media/create", multipartType, multipartFile)
		return status < 300
	})
}

// toolCall returns the response to a call of a tool, which must come promptly.
func (s *service) toolCall(t *testing.T, name, arguments string) (status int, header http.Header, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), promptly)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.address+"/mcp",
		strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+name+`","arguments":`+arguments+`}}`))
	must(t, err)
	request.Host = "media.test"
	for name, value := range map[string]string{"x-service-apikey": s.tenant.Key, "Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2025-06-18"} {
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, response.Header, string(body)
}

// An assistant must learn that it may call again, and must not wait for a database that hangs.
func TestServe_ToolCallsSayWhenToRetryWithoutADatabase(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]testenv.ProxyMode{"away": testenv.ProxyCut, "hangs": testenv.ProxyStall} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy, database := testenv.PostgresProxy(t, testenv.Database(t, testenv.PostgresServerWithPassword(t, "secret")))
			s := prepared(t, database, testenv.S3(t))
			s.serve(t, "--database-retry-timeout=100ms", "--connect-timeout=1s")
			testwait.Until(t, "the service is ready", func() bool { return s.ready(t) })
			id := `{"mediaId":"` + s.upload(t).ID + `"}`
			proxy.Set(mode)
			var tools sync.WaitGroup
			for tool, arguments := range map[string]string{
				"list_media": "{}", "get_media_count": "{}", "get_total_storage": "{}", "get_media_settings": "{}", "get_media": id, "seal_media": id, "delete_media": id,
				"create_upload_signature": "{}", "update_media_settings": `{"useWebP":true}`, "upload_media": `{"fileName":"a.txt","mimeType":"text/plain","fileBase64":"Ynl0ZXM="}`,
			} {
				tools.Go(func() {
					if status, header, text := s.toolCall(t, tool, arguments); status != http.StatusServiceUnavailable || !retryafter.Is(header, 5) || !strings.Contains(text, `"data":{"code":"unavailable"}`) {
						t.Errorf("%s: %d %v %s", tool, status, header, text)
					}
				})
			}
			tools.Wait()
			proxy.Set(testenv.ProxyOpen)
			testwait.Until(t, "tools work again", func() bool {
				status, _, text := s.toolCall(t, "get_media", id)
				return status == http.StatusOK && strings.Contains(text, "a.txt")
			})
		})
	}
}
