package webhookclient_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/internal/webhookclient"
	"mediastack.dev/runtime/webhook"
)

var must = check.NoError

// client returns a client of a site.
func client(t *testing.T, site *runtimetest.Site, change ...func(*webhookclient.Config)) *webhookclient.Client {
	t.Helper()
	cfg := webhookclient.Config{AllowNetworks: []string{"127.0.0.1/32"}, Ports: []int{443}, Timeout: 30 * time.Second}
	for _, apply := range change {
		apply(&cfg)
	}
	deps := site.Deps()
	c, err := webhookclient.New(cfg, webhookclient.Deps{Roots: deps.Roots, Resolver: deps.Resolver})
	must(t, err)
	return c
}

func message(url string) webhook.Message {
	return webhook.Message{URL: url, ID: "1-7", Time: time.Unix(1_700_000_000, 0), Keys: [][]byte{bytes.Repeat([]byte{1}, 24), bytes.Repeat([]byte{2}, 24)}, ContentType: "application/json", Body: []byte(`{"type":"a"}`)}
}

func TestSend_SendsTheMessageAndNothingElse(t *testing.T) {
	if !testenv.InEnvironment(t, "HTTPS_PROXY=http://127.0.0.1:1") {
		return
	}
	received := make(chan *http.Request, 1)
	bodies := make(chan string, 1)
	site := runtimetest.NewSite(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		received <- r
		bodies <- string(body)
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b", Secure: true, HttpOnly: true})
		w.WriteHeader(http.StatusNoContent)
	})
	m := message(site.URL("/hook?token=1#part"))
	answer, err := client(t, site).Send(t.Context(), m)
	if err != nil || answer != (webhook.Answer{Status: 204}) {
		t.Fatalf("%+v, %v", answer, err)
	}
	r := <-received
	want := http.Header{"User-Agent": {"mediastack"}, "Accept": {"*/*"}, "Accept-Encoding": {"identity"}, "Content-Type": {"application/json"}, "Content-Length": {"12"}, "Connection": {"close"},
		"Webhook-Id": {"1-7"}, "Webhook-Timestamp": {"1700000000"}, "Webhook-Signature": {webhook.Signature(m.Keys, m.ID, m.Time, m.Body)}}
	if fmt.Sprint(r.Header) != fmt.Sprint(want) || r.Method != http.MethodPost || r.RequestURI != "/hook?token=1" || <-bodies != `{"type":"a"}` {
		t.Errorf("%s %s %v", r.Method, r.RequestURI, r.Header)
	}
}

func TestSend_ReturnsEachStatus(t *testing.T) {
	t.Parallel()
	for status, header := range map[int]struct {
		text string
		want time.Duration
	}{
		200: {}, 204: {}, 299: {}, 300: {}, 304: {}, 400: {}, 410: {}, 500: {"soon", 0},
		429: {"120", 2 * time.Minute}, 503: {"Tue, 14 Nov 2023 22:14:20 GMT", time.Minute}, 502: {"Tue, 14 Nov 2023 22:00:00 GMT", 0}, 504: {"99999999", 24 * time.Hour}, 501: {"-5", 0}, 505: {strings.Repeat("9", 30), 24 * time.Hour},
	} {
		site := runtimetest.NewSite(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", header.text)
			w.WriteHeader(status)
		})
		if answer, err := client(t, site).Send(t.Context(), message(site.URL("/"))); err != nil || answer != (webhook.Answer{Status: status, RetryAfter: header.want}) {
			t.Errorf("%d: %+v, %v", status, answer, err)
		}
	}
}

// No redirect is followed, to another path neither, whether the method would stay the same (307, 308) or not.
func TestSend_FollowsNoRedirect(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	var site *runtimetest.Site
	site = runtimetest.NewSite(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		status, _ := strconv.Atoi(r.URL.Query().Get("status"))
		to := "http://169.254.169.254/latest/meta-data"
		if r.URL.Path == "/own" {
			to = site.URL("/other")
		}
		w.Header().Set("Location", to)
		w.WriteHeader(status)
	})
	c := client(t, site)
	statuses := []int{301, 302, 303, 307, 308}
	for _, status := range statuses {
		for _, path := range []string{"/", "/own"} {
			if answer, err := c.Send(t.Context(), message(site.URL(fmt.Sprintf("%s?status=%d", path, status)))); err != nil || answer.Status != status {
				t.Errorf("%s, %d: %+v, %v", path, status, answer, err)
			}
		}
	}
	if n := requests.Load(); n != int64(2*len(statuses)) {
		t.Errorf("%d requests, want %d", n, 2*len(statuses))
	}
}

// What becomes of the body does not matter: the status has arrived.
func TestSend_DoesNotWaitForABody(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(w http.ResponseWriter, r *http.Request){
		"endless": func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := w.Write(make([]byte, 32<<10)); err != nil {
					return
				}
			}
		},
		"that never comes": func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"compressed": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write([]byte("no gzip"))
		},
		"shorter than declared": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte("a"))
		},
	} {
		site := runtimetest.NewSite(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if name == "that never comes" {
				w.WriteHeader(http.StatusAccepted)
				w.(http.Flusher).Flush()
			}
			write(w, r)
		})
		if answer, err := client(t, site).Send(t.Context(), message(site.URL("/"))); err != nil || answer.Status/100 != 2 {
			t.Errorf("a body %s: %+v, %v", name, answer, err)
		}
	}
}

// fails requires an Error with a text that names nothing of the receiver.
func fails(t *testing.T, name string, err error, part string) {
	t.Helper()
	var failure *webhookclient.Error
	if !errors.As(err, &failure) || !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "127.") || strings.Contains(err.Error(), "example") || strings.Contains(err.Error(), "secret") {
		t.Errorf("%s: %v", name, err)
	}
}

func TestSend_FailsWithATextForTenants(t *testing.T) {
	t.Parallel()
	site := runtimetest.NewSite(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the server sees the end of the connection then
		switch r.URL.Path {
		case "/hang-secret":
			<-r.Context().Done()
		case "/close-secret":
			panic(http.ErrAbortHandler)
		case "/header-secret":
			w.Header().Set("A", strings.Repeat("a", 40<<10))
		}
	})
	short := func(c *webhookclient.Config) { c.Timeout = time.Second }
	for path, part := range map[string]string{"/hang-secret": "in time", "/close-secret": "closed the connection", "/header-secret": "HTTP"} {
		_, err := client(t, site, short).Send(t.Context(), message(site.URL(path)))
		fails(t, path, err, part)
	}
	site.Resolve("other.test", "127.0.0.1")
	_, err := client(t, site).Send(t.Context(), message(site.Named("other.test", "/secret")))
	fails(t, "another name", err, "certificate")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client(t, site).Send(ctx, message(site.URL("/"))); err == nil {
		t.Error("a message is sent after the end of the context")
	}
}

// A receiver that changes the protocol without being asked gets its connection closed, and holds nothing up.
func TestSend_ChangesNoProtocol(t *testing.T) {
	t.Parallel()
	closed := make(chan error, 1)
	site := runtimetest.NewSite(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		connection, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			closed <- err
			return
		}
		_, _ = io.WriteString(connection, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: secret\r\n\r\n")
		_, err = io.Copy(io.Discard, connection)
		closed <- errors.Join(err, connection.Close())
	})
	_, err := client(t, site).Send(t.Context(), message(site.URL("/")))
	fails(t, "another protocol", err, "HTTP")
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// Addresses are judged when the connection is made. What is not allowed has one text, whether the name exists or not.
func TestSend_ReachesAllowedAddressesOnly(t *testing.T) {
	t.Parallel()
	site := runtimetest.NewSite(t, func(http.ResponseWriter, *http.Request) {})
	site.Rebind("rebound.example.com", "127.0.0.2")
	site.Resolve("mapped.example.com", "::ffff:127.0.0.2")
	site.Resolve("both.example.com", "127.0.0.2", "169.254.169.254")
	c := client(t, site)
	for _, url := range []string{
		site.Named("rebound.example.com", "/"), site.Named("mapped.example.com", "/"), site.Named("both.example.com", "/"), site.Named("missing.example.com", "/"), site.Named("127.0.0.2", "/"),
		site.Named("[::ffff:127.0.0.2]", "/")[:8] + "[::ffff:127.0.0.2]:443/", "https://169.254.169.254/", "https://[::1]/", "https://10.0.0.1/",
	} {
		_, err := c.Send(t.Context(), message(url))
		var failure *webhookclient.Error
		if !errors.As(err, &failure) || failure.Text != "the receiver has no public address" && failure.Text != "the URL has a port to which no webhook is sent" {
			t.Errorf("%s: %v", url, err)
		}
	}
	if n := site.Trapped.Load(); n != 0 {
		t.Errorf("%d connections to an address that is not allowed", n)
	}
	denied := client(t, site, func(c *webhookclient.Config) { c.DenyNetworks = []string{"127.0.0.0/8"} })
	_, err := denied.Send(t.Context(), message(site.URL("/")))
	fails(t, "denied", err, "no public address")
}

// http is for the networks that the admin allows.
func TestSend_UsesHTTPInAllowedNetworksOnly(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	t.Cleanup(plain.Close)
	site := runtimetest.NewSite(t, nil)
	if answer, err := client(t, site).Send(t.Context(), message(plain.URL)); err != nil || answer.Status != http.StatusAccepted {
		t.Errorf("%+v, %v", answer, err)
	}
	site.Resolve("public.example.com", "198.41.0.4")
	c, seen := intercepted(t, site)
	_, err := c.Send(t.Context(), message("http://public.example.com:80/"))
	fails(t, "http to another address", err, "no public address")
	fails(t, "http to an address that is public", c.Check("http://198.41.0.4:443/"), "no public address")
	if addresses := seen(); len(addresses) != 0 {
		t.Errorf("the client connects to %v", addresses)
	}
	none := client(t, site, func(c *webhookclient.Config) { c.AllowNetworks = nil })
	fails(t, "http without networks", none.Check(plain.URL), "SERVICE_WEBHOOKS_ALLOW_NETWORKS")
}

// intercepted returns a client that connects to nothing, and a function that returns the addresses to which it would have connected.
func intercepted(t *testing.T, site *runtimetest.Site) (c *webhookclient.Client, seen func() []string) {
	t.Helper()
	var mu sync.Mutex
	var addresses []string
	c = client(t, site)
	c.Intercept(func(address string) {
		mu.Lock()
		defer mu.Unlock()
		addresses = append(addresses, address)
	})
	return c, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return addresses
	}
}

// A URL with a name may have any port, since the name may be in an allowed network. The port of an address that is not is judged when the connection
// is made.
func TestSend_UsesTheConfiguredPortsOfPublicAddresses(t *testing.T) {
	t.Parallel()
	site := runtimetest.NewSite(t, nil)
	site.Resolve("public.example.com", "198.41.0.4")
	c, seen := intercepted(t, site)
	_, err := c.Send(t.Context(), message("https://public.example.com:8443/"))
	fails(t, "another port", err, "no public address")
	if addresses := seen(); len(addresses) != 0 {
		t.Errorf("the client connects to %v", addresses)
	}
	_, err = c.Send(t.Context(), message("https://public.example.com/"))
	fails(t, "443", err, "cannot be reached")
	if addresses := seen(); !slices.Equal(addresses, []string{"198.41.0.4:443"}) {
		t.Errorf("the client connects to %v", addresses)
	}
}

// A receiver with TLS 1.1 at most is not sent to, and one that offers HTTP/2 gets HTTP/1.1.
func TestSend_UsesTLS12AndHTTP11(t *testing.T) {
	t.Parallel()
	protocols := make(chan string, 1)
	for name, change := range map[string]func(s *httptest.Server){
		"TLS 1.1": func(s *httptest.Server) {
			s.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
		},
		"HTTP/2": func(s *httptest.Server) { s.EnableHTTP2 = true },
	} {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { protocols <- r.Proto }))
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		change(server)
		server.StartTLS()
		t.Cleanup(server.Close)
		roots := x509.NewCertPool()
		roots.AddCert(server.Certificate())
		c, err := webhookclient.New(webhookclient.Config{AllowNetworks: []string{"127.0.0.0/8"}, Ports: []int{443}, Timeout: 30 * time.Second}, webhookclient.Deps{Roots: roots})
		must(t, err)
		answer, err := c.Send(t.Context(), message(server.URL))
		if name == "TLS 1.1" {
			fails(t, name, err, "TLS 1.2")
			continue
		}
		if err != nil || answer.Status != http.StatusOK {
			t.Fatalf("%s: %+v, %v", name, answer, err)
		}
		if protocol := <-protocols; protocol != "HTTP/1.1" {
			t.Errorf("%s: the request is one of %s", name, protocol)
		}
	}
}

func TestCheck_RejectsURLsThatCannotBeSentTo(t *testing.T) {
	t.Parallel()
	c := client(t, runtimetest.NewSite(t, nil))
	for _, url := range []string{"", "ftp://a.example/", "https://", "https:///a", "https://user:secret@a.example/", "https://a.example:0/", "https://a.example:99999/", "https://a b.example/", "https://ü.example/",
		"https://a.example/" + strings.Repeat("a", webhook.MaxURL), "https://10.0.0.1/", "https://8.8.8.8:8443/", "https:opaque", "https://a..example/", `https://a.example\@b/`} {
		fails(t, url, c.Check(url), "")
	}
	for _, url := range []string{"https://a.example/hook?x=1", "https://8.8.8.8/", "https://a.example:8443/", "http://127.0.0.1:8080/", "https://127.0.0.1/"} {
		if err := c.Check(url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestConfig_Validate(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*webhookclient.Config){
		"SERVICE_WEBHOOKS_TIMEOUT": func(c *webhookclient.Config) { c.Timeout = 2 * time.Minute }, "SERVICE_WEBHOOKS_PORTS": func(c *webhookclient.Config) { c.Ports = nil },
		"SERVICE_WEBHOOKS_ALLOW_NETWORKS": func(c *webhookclient.Config) { c.AllowNetworks = []string{"x"} }, "SERVICE_WEBHOOKS_DENY_NETWORKS": func(c *webhookclient.Config) { c.DenyNetworks = []string{"::ffff:10.0.0.0/104"} },
	} {
		cfg := webhookclient.Config{Ports: []int{443}, Timeout: time.Second}
		change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
