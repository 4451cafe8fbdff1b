package cdnclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/internal/cdnclient"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/webhook"
)

var must = check.NoError

const (
	secretPath = "/zones/0123456789abcdef/purge_cache"
	token      = "token-0123456789-SECRET"
	signing    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
)

var (
	purgers = []string{"surrogate", "cloudflare", "fastly", "webhook"}
	tags    = []string{"abcdefghijkl", "0123456789-_"}
	clock   = time.Unix(1_700_000_000, 123)
)

// keyOf returns a key of the kind that a purger has.
func keyOf(purger string) string {
	if purger == "webhook" {
		return signing
	}
	return token
}

// edge starts a server, and closes it, with all connections, at the end.
func edge(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return server
}

// answering is an edge with one answer: that of a success, if body is empty.
func answering(t *testing.T, status int, body string) *httptest.Server {
	t.Helper()
	if body == "" {
		body = `{"success":true,"errors":[],"result":{"id":"1"}}`
	}
	return edge(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

// client returns a client that purges at URLs.
func client(t *testing.T, purger string, urls ...string) *cdnclient.Client {
	t.Helper()
	c, err := cdnclient.New(cdnclient.Config{Purger: purger, URLs: urls, Key: keyOf(purger), Timeout: 30 * time.Second}, cdnclient.Deps{Now: func() time.Time { return clock }})
	must(t, err)
	return c
}

// fails requires an Error with a text, which has neither the key nor the path.
func fails(t *testing.T, what string, err error, text string) {
	t.Helper()
	_ = failure(t, what, err, text)
}

// failure is fails, and returns the Error.
func failure(t *testing.T, what string, err error, text string) *cdnclient.Error {
	t.Helper()
	var failed *cdnclient.Error
	if !errors.As(err, &failed) || !strings.Contains(failed.Text, text) || failed.Error() != failed.Text {
		t.Fatalf("%s: %v, want an Error with %q", what, err, text)
	}
	for _, hidden := range []string{token, signing, strings.TrimPrefix(signing, "whsec_"), "zones", "0123456789abcdef", "purge_cache"} {
		if strings.Contains(failed.Text, hidden) {
			t.Errorf("%s: the error tells %q: %s", what, hidden, failed.Text)
		}
	}
	return failed
}

// What each CDN is sent, byte for byte, whatever proxy the environment names.
func TestPurge_SendsWhatEachCDNTakes(t *testing.T) {
	if !testenv.InEnvironment(t, "HTTPS_PROXY=http://127.0.0.1:1", "HTTP_PROXY=http://127.0.0.1:1") {
		return
	}
	common := http.Header{"User-Agent": {"mediastack"}, "Accept": {"application/json"}}
	const body = `{"tags":["abcdefghijkl","0123456789-_"]}`
	for purger, want := range map[string]struct {
		method string
		header http.Header
		body   string
	}{
		"surrogate":  {"PURGE", http.Header{"Surrogate-Key": {"abcdefghijkl 0123456789-_"}, "Authorization": {"Bearer " + token}}, ""},
		"fastly":     {"POST", http.Header{"Surrogate-Key": {"abcdefghijkl 0123456789-_"}, "Fastly-Key": {token}, "Content-Length": {"0"}}, ""},
		"cloudflare": {"POST", http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}, "Content-Length": {strconv.Itoa(len(body))}}, body},
		"webhook":    {"POST", http.Header{"Content-Type": {"application/json"}, "Content-Length": {strconv.Itoa(len(body))}}, body},
	} {
		received, bodies := make(chan *http.Request, 1), make(chan []byte, 1)
		site := runtimetest.NewSite(t, func(w http.ResponseWriter, r *http.Request) {
			read, _ := io.ReadAll(r.Body)
			received <- r
			bodies <- read
			_, _ = io.WriteString(w, `{"success":true}`)
		})
		deps := site.Deps()
		c, err := cdnclient.New(cdnclient.Config{Purger: purger, URLs: []string{site.URL(secretPath + "?a=b")}, Key: keyOf(purger), Timeout: 30 * time.Second},
			cdnclient.Deps{Roots: deps.Roots, Resolver: deps.Resolver, Now: func() time.Time { return clock }})
		must(t, err)
		must(t, c.Purge(t.Context(), tags))
		r, sent := <-received, <-bodies
		if purger == "webhook" {
			id := r.Header.Get(webhook.HeaderID)
			key, err := webhook.ParseSecret(signing)
			must(t, err)
			if r.Header.Get(webhook.HeaderTimestamp) != "1700000000" || r.Header.Get(webhook.HeaderSignature) != webhook.Signature([][]byte{key}, id, clock, sent) || !strings.HasPrefix(id, "purge-") {
				t.Errorf("the webhook is signed with %v", r.Header)
			}
			for _, name := range []string{webhook.HeaderID, webhook.HeaderTimestamp, webhook.HeaderSignature} {
				r.Header.Del(name)
			}
		}
		for name, values := range common {
			want.header[name] = values
		}
		if r.Method != want.method || r.RequestURI != secretPath+"?a=b" || fmt.Sprint(r.Header) != fmt.Sprint(want.header) || string(sent) != want.body {
			t.Errorf("%s: %s %s %v %q, want %v", purger, r.Method, r.RequestURI, r.Header, sent, want)
		}
	}
}

// Edges of the installation may want no key.
func TestPurge_SurrogateWithoutAKeySendsNone(t *testing.T) {
	t.Parallel()
	headers := make(chan http.Header, 1)
	server := edge(t, func(_ http.ResponseWriter, r *http.Request) { headers <- r.Header })
	c, err := cdnclient.New(cdnclient.Config{Purger: "surrogate", URLs: []string{server.URL}, Timeout: 30 * time.Second}, cdnclient.Deps{})
	must(t, err)
	must(t, c.Purge(t.Context(), tags))
	if header := <-headers; header.Get("Authorization") != "" || header.Get("Surrogate-Key") != strings.Join(tags, " ") {
		t.Errorf("the request has %v", header)
	}
}

// A receiver that handles each id once must purge the same tags again later.
func TestPurge_EachWebhookHasAnIDOfItsOwn(t *testing.T) {
	t.Parallel()
	ids := make(chan string, 3)
	server := edge(t, func(_ http.ResponseWriter, r *http.Request) { ids <- r.Header.Get(webhook.HeaderID) })
	now := clock
	c, err := cdnclient.New(cdnclient.Config{Purger: "webhook", URLs: []string{server.URL}, Key: signing, Timeout: 30 * time.Second}, cdnclient.Deps{Now: func() time.Time { return now }})
	must(t, err)
	must(t, c.Purge(t.Context(), tags))
	must(t, c.Purge(t.Context(), tags[:1]))
	now = now.Add(time.Nanosecond)
	must(t, c.Purge(t.Context(), tags))
	if first, other, later := <-ids, <-ids, <-ids; first == other || first == later || other == later {
		t.Errorf("the ids are %s, %s and %s", first, other, later)
	}
}

func TestPurge_AcceptsNo2xxOfCloudflareWithoutSuccess(t *testing.T) {
	t.Parallel()
	for body, text := range map[string]string{
		`{"success":false,"errors":[{"code":1134,"message":"zones 0123456789abcdef"},{"code":2},{"code":3},{"code":4}]}`: "answered 200 (OK), but without success, code 1134, 2, 3",
		`{"success":false,"errors":[]}`: "without success",
		`{"success":"true"}`:            "not with the JSON",
		`{}`:                            "without success",
		`null`:                          "without success",
		`<html>`:                        "not with the JSON",
		` `:                             "not with the JSON",
		`{"success":true`:               "not with the JSON",
		`{"success":true,"a":"` + strings.Repeat("a", 70<<10) + `"}`: "not with the JSON",
	} {
		server := answering(t, http.StatusOK, body)
		failed := failure(t, body[:min(len(body), 60)], client(t, "cloudflare", server.URL+secretPath).Purge(t.Context(), tags), text)
		if failed.Status != http.StatusOK {
			t.Errorf("%.60s: the status is %d", body, failed.Status)
		}
	}
	must(t, client(t, "cloudflare", answering(t, http.StatusOK, `{"success":true}`).URL).Purge(t.Context(), tags))
	rejected := answering(t, http.StatusForbidden, `{"success":true,"errors":[{"code":10000}]}`)
	fails(t, "a success with 403", client(t, "cloudflare", rejected.URL+secretPath).Purge(t.Context(), tags), "answered 403 (Forbidden), code 10000")
}

func TestPurge_AcceptsEvery2xxAndNothingElse(t *testing.T) {
	t.Parallel()
	for _, purger := range purgers {
		for _, status := range []int{200, 202, 299, 300, 301, 302, 304, 307, 308, 400, 401, 403, 404, 405, 429, 500, 502, 503, 599} {
			server := answering(t, status, "")
			err := client(t, purger, server.URL+secretPath).Purge(t.Context(), tags)
			if status < 300 {
				must(t, err)
				continue
			}
			if failed := failure(t, fmt.Sprint(purger, status), err, fmt.Sprintf("%s answered %d", strings.TrimPrefix(server.URL, "http://"), status)); failed.Status != status || failed.RetryAfter() != 0 {
				t.Errorf("%s, %d: %+v", purger, status, failed)
			}
		}
		if purger == "cloudflare" {
			continue // an answer without a body says no success
		}
		must(t, client(t, purger, edge(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }).URL).Purge(t.Context(), tags))
	}
}

func TestPurge_ReportsRetryAfter(t *testing.T) {
	t.Parallel()
	for _, purger := range purgers {
		for text, want := range map[string]time.Duration{"120": 2 * time.Minute, "Tue, 14 Nov 2023 22:14:20 GMT": time.Minute - 123, "soon": 0, "99999999": 24 * time.Hour} {
			server := edge(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", text)
				w.WriteHeader(http.StatusTooManyRequests)
			})
			if failed := failure(t, purger, client(t, purger, server.URL+secretPath).Purge(t.Context(), tags), "answered 429 (Too Many Requests)"); failed.RetryAfter() != want || failed.Status != http.StatusTooManyRequests {
				t.Errorf("%s, %s: %+v, want %s", purger, text, failed, want)
			}
		}
	}
}

// No redirect is followed: the key would go to another server.
func TestPurge_FollowsNoRedirect(t *testing.T) {
	t.Parallel()
	var followed atomic.Int64
	other := edge(t, func(http.ResponseWriter, *http.Request) { followed.Add(1) })
	for _, purger := range purgers {
		for _, status := range []int{301, 302, 303, 307, 308} {
			server := edge(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", other.URL)
				w.WriteHeader(status)
			})
			fails(t, purger, client(t, purger, server.URL+secretPath).Purge(t.Context(), tags), "no redirect is followed")
		}
	}
	if n := followed.Load(); n != 0 {
		t.Errorf("%d redirects were followed", n)
	}
}

// endless writes a body until the client has closed the connection. It must do that before it has read much.
func endless(t *testing.T) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		piece := []byte(strings.Repeat(" ", 32<<10))
		for written := 0; ; written += len(piece) {
			if _, err := w.Write(piece); err != nil {
				return
			}
			if written > 256<<20 { // far more than what connections buffer
				t.Error("the client reads a body without an end")
				return
			}
		}
	}
}

// silent sends a header, and no body until the client is gone.
func silent(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

// A body means nothing but to Cloudflare, so none is waited for. That of Cloudflare must say success, and end.
func TestPurge_BodiesThatDoNotEnd(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{"endless": endless(t), "silent": silent} {
		for _, purger := range purgers {
			t.Run(name+" "+purger, func(t *testing.T) {
				t.Parallel()
				url := edge(t, handler).URL + secretPath
				c, err := cdnclient.New(cdnclient.Config{Purger: purger, URLs: []string{url}, Key: keyOf(purger), Timeout: 2 * time.Second}, cdnclient.Deps{})
				must(t, err)
				err = c.Purge(t.Context(), tags)
				if purger == "cloudflare" {
					fails(t, name, err, "not with the JSON that says success")
					return
				}
				must(t, err)
			})
		}
	}
}

func TestPurge_AnswersThatAreNone(t *testing.T) {
	t.Parallel()
	raw := func(answer string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			connection, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return
			}
			defer connection.Close()
			_, _ = io.WriteString(connection, answer)
		}
	}
	closed := httptest.NewServer(nil)
	closed.Close()
	for name, one := range map[string]struct {
		url  string
		want string
	}{
		"hang":              {edge(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body); <-r.Context().Done() }).URL, "did not answer in time"},
		"closed connection": {edge(t, raw("")).URL, "has closed the connection"},
		"no HTTP":           {edge(t, raw("220 mail.example.org ESMTP\r\n\r\n")).URL, "did not answer as HTTP requires"},
		"endless header":    {edge(t, raw("HTTP/1.1 200 OK\r\n"+strings.Repeat("X-A: "+strings.Repeat("a", 1000)+"\r\n", 100)+"\r\n")).URL, "did not answer as HTTP requires"},
		"another protocol":  {edge(t, raw("HTTP/1.1 101 Switching Protocols\r\nUpgrade: a\r\nConnection: Upgrade\r\n\r\n")).URL, "did not answer as HTTP requires"},
		"nobody":            {closed.URL, "cannot be reached"},
		"no TLS":            {"https" + strings.TrimPrefix(answering(t, 200, "").URL, "http"), "has no valid certificate"},
	} {
		for _, purger := range purgers {
			t.Run(name+" "+purger, func(t *testing.T) {
				t.Parallel()
				c, err := cdnclient.New(cdnclient.Config{Purger: purger, URLs: []string{one.url + secretPath}, Key: keyOf(purger), Timeout: 2 * time.Second}, cdnclient.Deps{})
				must(t, err)
				if failed := failure(t, name, c.Purge(t.Context(), tags), one.want); failed.Status == http.StatusOK {
					t.Errorf("%+v", failed)
				}
			})
		}
	}
}

// A certificate that the system does not trust is no way to the key.
func TestPurge_SendsNothingToAServerThatIsNotTrusted(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	for _, purger := range purgers {
		fails(t, purger, client(t, purger, server.URL+secretPath).Purge(t.Context(), tags), "has no valid certificate")
	}
	if n := requests.Load(); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

// All edges are asked, and all must accept: one that is away keeps the others from nothing.
func TestPurge_AsksEveryEdge(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	working := edge(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	busy := edge(t, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	away := "http://" + listener.Addr().String()
	must(t, listener.Close())
	c := client(t, "surrogate", away+secretPath, working.URL+secretPath, busy.URL+secretPath)
	failed := failure(t, "one away, one busy", c.Purge(t.Context(), tags), strings.TrimPrefix(away, "http://")+" cannot be reached")
	if !strings.Contains(failed.Text, "; "+strings.TrimPrefix(busy.URL, "http://")+" answered 503") || strings.Contains(failed.Text, strings.TrimPrefix(working.URL, "http://")) ||
		failed.RetryAfter() != 7*time.Second || failed.Status != 0 || asked.Load() != 2 {
		t.Errorf("%+v after %d requests", failed, asked.Load())
	}
	must(t, client(t, "surrogate", working.URL, working.URL+"/second").Purge(t.Context(), tags))
	if n := asked.Load(); n != 4 {
		t.Errorf("%d requests, want 4", n)
	}
}

// An edge that hangs holds no other one up: the others purge before it ends.
func TestPurge_AsksAllEdgesAtOnce(t *testing.T) {
	t.Parallel()
	purged := make(chan struct{})
	hanging := edge(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-purged:
		case <-r.Context().Done():
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	working := edge(t, func(http.ResponseWriter, *http.Request) { close(purged) })
	must(t, client(t, "surrogate", hanging.URL, working.URL).Purge(t.Context(), tags))
}

func TestPurge_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	server := edge(t, func(_ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() })
	fails(t, "a context that ends", client(t, "surrogate", server.URL+secretPath).Purge(ctx, tags), "was not waited for")
}

// Connections are used again, and a purge survives that the edge has closed one meanwhile.
func TestPurge_KeepsConnections(t *testing.T) {
	t.Parallel()
	for _, purger := range purgers {
		var connections atomic.Int64
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"success":true}`) }))
		server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				connections.Add(1)
			}
		}
		server.Start()
		t.Cleanup(server.Close)
		c := client(t, purger, server.URL)
		for range 5 {
			must(t, c.Purge(t.Context(), tags))
		}
		if n := connections.Load(); n != 1 {
			t.Errorf("%s: %d connections for 5 purges", purger, n)
		}
		server.CloseClientConnections()
		must(t, c.Purge(t.Context(), tags))
	}
}

func TestPurge_RejectsTagsThatWouldBeOthers(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	server := edge(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		var sent struct{ Tags []string }
		if json.NewDecoder(r.Body).Decode(&sent) == nil && len(sent.Tags) == 0 {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		_, _ = io.WriteString(w, `{"success":true}`)
	})
	for _, purger := range purgers {
		c := client(t, purger, server.URL)
		for _, bad := range []string{"", "a b", "a,b", "a\r\nX: y", "ü", "*", strings.Repeat("a", 65)} {
			fails(t, purger+bad, c.Purge(t.Context(), []string{"a", bad}), "a tag must be")
		}
		fails(t, purger, c.Purge(t.Context(), slices.Repeat([]string{"a"}, cdnclient.MaxTags+1)), "at most 30 tags")
		must(t, c.Purge(t.Context(), nil))
	}
	if n := requests.Load(); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
	for _, purger := range purgers {
		must(t, client(t, purger, server.URL).Purge(t.Context(), slices.Repeat([]string{strings.Repeat("a", 64)}, cdnclient.MaxTags)))
	}
	if n := requests.Load(); n != int64(len(purgers)) {
		t.Errorf("%d requests were sent", n)
	}
}
