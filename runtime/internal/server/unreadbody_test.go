package server

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/internal/ratelimit"
)

// long is a timeout that no test waits for.
const long = time.Hour

// start runs a server of the routes of mount until the test ends.
func start(t *testing.T, cfg Config, mount func(chi.Router)) *Server {
	t.Helper()
	return startWith(t, cfg, nil, mount)
}

// startWith runs a server whose timeouts of headers and of admin requests, which are constants, end no request of a test.
func startWith(t *testing.T, cfg Config, limits *ratelimit.Limiter, mount func(chi.Router)) *Server {
	t.Helper()
	s, err := New(cfg, Deps{Mounts: []func(chi.Router){mount}, Limits: limits, Registry: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	for _, server := range []*http.Server{s.public, s.admin} {
		server.ReadHeaderTimeout, server.IdleTimeout = long, long
	}
	s.admin.ReadTimeout, s.admin.WriteTimeout = long, long
	must(t, s.Listen(t.Context()))
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s
}

var must = check.NoError

// client is a connection that a test writes to byte by byte.
type client struct {
	net.Conn
	in *bufio.Reader
}

func dial(t *testing.T, address string) *client {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	must(t, conn.SetDeadline(time.Now().Add(wait.Timeout(t))))
	return &client{Conn: conn, in: bufio.NewReader(conn)}
}

func (c *client) send(t *testing.T, text string) {
	t.Helper()
	_, err := io.WriteString(c, text)
	must(t, err)
}

// received is a response.
type received struct {
	status int
	header http.Header
	closes bool // Connection: close
}

// answer reads the next response with its body.
func (c *client) answer(t *testing.T, method string) received {
	t.Helper()
	response, err := http.ReadResponse(c.in, &http.Request{Method: method})
	if err != nil {
		t.Fatalf("no response: %v", err)
	}
	_, err = io.Copy(io.Discard, response.Body)
	must(t, err)
	must(t, response.Body.Close())
	return received{status: response.StatusCode, header: response.Header, closes: response.Close}
}

// ends waits until the server has closed the connection, and returns what it sent before.
func (c *client) ends(t *testing.T) string {
	t.Helper()
	text, err := io.ReadAll(c.in)
	if timeout, ok := err.(net.Error); ok && timeout.Timeout() { //nolint:errorlint // as net returns it
		t.Fatalf("the connection is still open")
	}
	return string(text)
}

// rejecting are routes of which only /read reads the body.
func rejecting(r chi.Router) {
	r.Get("/", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) })
	r.Post("/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	r.Post("/closed", func(_ http.ResponseWriter, r *http.Request) { _ = r.Body.Close() })
	r.Post("/cut", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	r.Post("/read", func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
}

// unread returns requests that are answered before their body is read.
func unread() map[string]string {
	requests := map[string]string{}
	for _, request := range []string{"GET /", "POST /", "PUT /", "POST /closed", "POST /unknown"} {
		for _, framing := range []string{"Content-Length: 1", "Content-Length: 9", "Content-Length: 262144", "Content-Length: 9000000000", "Transfer-Encoding: chunked", "Expect: 100-continue\r\nContent-Length: 9"} {
			requests[request+" "+framing] = request + " HTTP/1.1\r\nHost: x\r\n" + framing + "\r\n\r\n"
		}
	}
	return requests
}

func TestUnreadBody_ResponseIsSentBeforeTheBodyArrives(t *testing.T) {
	t.Parallel()
	cfg := valid()
	cfg.DiscardLimit, cfg.DiscardTimeout = 1<<20, maxDiscardTimeout
	s := start(t, cfg, rejecting)
	for name, head := range unread() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, began := dial(t, s.Addr()), time.Now()
			c.send(t, head)
			c.answer(t, name[:strings.Index(name, " ")])
			if took := time.Since(began); took >= maxDiscardTimeout {
				t.Errorf("the response waited %s for the body", took)
			}
			must(t, c.Close())
		})
	}
}

func TestUnreadBody_ConnectionClosesWhenTheBodyIsMissing(t *testing.T) {
	t.Parallel()
	cfg := valid()
	cfg.DiscardLimit, cfg.DiscardTimeout = 1<<20, 100*time.Millisecond
	s := start(t, cfg, rejecting)
	for name, head := range unread() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := dial(t, s.Addr())
			c.send(t, head)
			c.answer(t, name[:strings.Index(name, " ")])
			if more := c.ends(t); more != "" {
				t.Errorf("after the response the server sent %q", more)
			}
		})
	}
}

func TestUnreadBody_ConnectionClosesWhenTheBodyTrickles(t *testing.T) {
	t.Parallel()
	cfg := valid()
	cfg.StallTimeout, cfg.MinRate = time.Second, 1024
	cfg.DiscardLimit, cfg.DiscardTimeout = 1<<20, 200*time.Millisecond
	s := start(t, cfg, rejecting)
	for _, path := range []string{"/", "/closed", "/read", "/unknown"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			c := dial(t, s.Addr())
			c.send(t, "POST "+path+" HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n")
			stop := make(chan struct{})
			defer close(stop)
			go func() {
				tick := time.NewTicker(10 * time.Millisecond) //nolint:forbidigo // the pace of a slow client
				defer tick.Stop()
				for {
					select {
					case <-stop:
						return
					case <-tick.C:
						if _, err := c.Write([]byte("x")); err != nil {
							return
						}
					}
				}
			}()
			c.ends(t)
		})
	}
}

func TestUnreadBody_AbortedResponseClosesTheConnection(t *testing.T) {
	t.Parallel()
	s := start(t, valid(), rejecting)
	c := dial(t, s.Addr())
	c.send(t, "POST /cut HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
	if text := c.ends(t); text != "" {
		t.Errorf("an aborted response was %q", text)
	}
}

func TestUnreadBody_ShortOneLeavesTheConnectionUsable(t *testing.T) {
	t.Parallel()
	s := start(t, valid(), rejecting)
	c := dial(t, s.Addr())
	for _, path := range []string{"/", "/unknown", "/"} {
		c.send(t, "POST "+path+" HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n"+strings.Repeat("x", 60000))
		if response := c.answer(t, http.MethodPost); response.status < 400 || response.closes {
			t.Errorf("%s: %d, close %v", path, response.status, response.closes)
		}
	}
	c.send(t, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if response := c.answer(t, http.MethodGet); response.status != http.StatusOK {
		t.Errorf("the next request: %d", response.status)
	}
}

// A late body must never be parsed as the next request.
func TestUnreadBody_LateBytesAreNoRequest(t *testing.T) {
	t.Parallel()
	cfg := valid()
	cfg.DiscardLimit, cfg.DiscardTimeout = 1<<20, 50*time.Millisecond
	s := start(t, cfg, rejecting)
	smuggled := "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	for range 20 {
		c := dial(t, s.Addr())
		c.send(t, fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", len(smuggled)))
		c.answer(t, http.MethodPost)
		for range 3 { // around the end of the discarding
			_, _ = io.WriteString(c, smuggled[:9])
		}
		_, _ = io.WriteString(c, smuggled)
		if text := c.ends(t); strings.Contains(text, "hello") {
			t.Fatalf("late bytes were answered: %q", text)
		}
	}
}

// Clients such as Python's http.client read the response only after they have sent everything.
func TestUnreadBody_ClientThatReadsLastGetsItsResponse(t *testing.T) {
	t.Parallel()
	cfg := valid()
	cfg.DiscardLimit, cfg.DiscardTimeout = 16<<20, maxDiscardTimeout
	s := start(t, cfg, rejecting)
	body := bytes.Repeat([]byte("x"), 12<<20)
	for name, send := range map[string]func(*client) error{
		"content length": func(c *client) error {
			_, err := fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			return err
		},
		"chunked": func(c *client) error {
			_, err := fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := dial(t, s.Addr())
			must(t, send(c))
			if response := c.answer(t, http.MethodPost); response.status != http.StatusUnauthorized || !response.closes {
				t.Errorf("%d, close %v", response.status, response.closes)
			}
			c.ends(t)
		})
	}
}

// RFC 9112, section 6.1: the server closes the connection after such a request.
func TestAmbiguousFraming_ClosesTheConnection(t *testing.T) {
	t.Parallel()
	s := start(t, valid(), rejecting)
	next := "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, request := range map[string]string{
		"both lengths":                "POST /read HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"the other way round":         "POST /read HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
		"HTTP/1.0, an encoding alone": "POST /read HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.0 with encoding":      "POST /read HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := dial(t, s.Addr())
			c.send(t, request+next)
			if response := c.answer(t, http.MethodPost); response.status != http.StatusOK || !response.closes {
				t.Errorf("%d, close %v", response.status, response.closes)
			}
			if text := c.ends(t); text != "" {
				t.Errorf("the bytes after it were answered: %q", text)
			}
		})
	}
}

// Eight client IPs could once hold all connections with login requests without their body.
func TestAnonymousBody_HasItsOwnTimeoutAndIsEvictable(t *testing.T) {
	t.Parallel()
	cfg := valid()
	cfg.AnonymousTimeout = 100 * time.Millisecond
	known := func(r chi.Router) {
		rejecting(r)
		r.Post("/known", func(_ http.ResponseWriter, r *http.Request) {
			httpapi.FromContext(r.Context()).AccountID = uuid.New()
			_, _ = io.Copy(io.Discard, r.Body)
		})
	}
	s := start(t, cfg, known)
	steady, hasty := dial(t, s.Addr()), dial(t, s.Addr())
	head := " HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n123"
	steady.send(t, "POST /known"+head)
	hasty.send(t, "POST /read"+head)
	if got := hasty.answer(t, http.MethodPost); got.status != http.StatusBadRequest || !got.closes {
		t.Errorf("without a credential: %+v", got)
	}
	steady.send(t, "456789")
	if got := steady.answer(t, http.MethodPost); got.status != http.StatusOK || got.closes {
		t.Errorf("with a credential: %+v", got)
	}

	cfg.AnonymousTimeout, cfg.MaxConnections = long, minConnections
	full := start(t, cfg, known)
	for range minConnections {
		dial(t, full.Addr()).send(t, "POST /read"+head)
	}
	wait.Until(t, "all of them wait for their body", func() bool {
		full.publicListener.mu.Lock()
		defer full.publicListener.mu.Unlock()
		return full.publicListener.open == minConnections && full.publicListener.waiting.Len() == minConnections
	})
	for range 2 * minConnections {
		c := dial(t, full.Addr())
		c.send(t, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		if got := c.answer(t, http.MethodGet); got.status != http.StatusOK {
			t.Errorf("another client: %d", got.status)
		}
	}
}

func TestServer_SpeaksHTTP1Only(t *testing.T) {
	t.Parallel()
	s := start(t, valid(), rejecting)
	for _, preface := range []string{
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
		"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n",
	} {
		c := dial(t, s.Addr())
		c.send(t, preface)
		if text := c.ends(t); !strings.HasPrefix(text, "HTTP/1.1 ") || strings.HasPrefix(text, "HTTP/1.1 101") {
			t.Errorf("HTTP/2 was answered with %q", text)
		}
	}
}
