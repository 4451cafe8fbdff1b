package server

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	"mediastack.dev/runtime/internal/api"
)

// net/http answers these requests itself, in plain text.
func TestConnection_MalformedRequestsAreAnsweredInJSON(t *testing.T) {
	t.Parallel()
	s := start(t, valid(), rejecting)
	for name, tt := range map[string]struct {
		request string
		status  int
		detail  string
	}{
		"no HTTP":             {"hello\r\n\r\n", 400, "the request is not HTTP/1.1"},
		"no host":             {"GET / HTTP/1.1\r\n\r\n", 400, "missing required Host header"},
		"a malformed header":  {"GET / HTTP/1.1\r\nHost: x\r\nA B: c\r\n\r\n", 400, "invalid header name"},
		"no colon":            {"GET / HTTP/1.1\r\nHost: x\r\nno colon here\r\n\r\n", 400, "a header has no colon"},
		"no name":             {"GET / HTTP/1.1\r\nHost: x\r\n: c\r\n\r\n", 400, "a header has no name"},
		"an early space":      {"GET / HTTP/1.1\r\n Host: x\r\n\r\n", 400, "the first header begins with a space"},
		"two lengths":         {"POST /media/create HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\ncontent-length: 4\r\n\r\nabcd", 400, "Content-Length is there twice, with different values"},
		"a length in words":   {"POST /media/create HTTP/1.1\r\nHost: x\r\nContent-Length: three\r\n\r\nabc", 400, "Content-Length must be a number"},
		"a long length":       {"POST /media/create HTTP/1.1\r\nHost: x\r\nContent-Length: " + strings.Repeat("1", 100) + "\r\n\r\nabc", 400, "Content-Length must be a number"},
		"a malformed target":  {"GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400, "the request line or a header is malformed"},
		"large headers":       {withHeaderOf(2 * headerLimit), 431, "the request line and the headers must be at most 20480 bytes"},
		"another expectation": {"GET / HTTP/1.1\r\nHost: x\r\nExpect: tea\r\n\r\n", 417, "the only supported expectation is 100-continue"},
		"another encoding":    {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: tea\r\n\r\n", 501, "Unsupported transfer encoding"},
		"another version":     {"GET / HTTP/3.0\r\nHost: x\r\n\r\n", 505, "unsupported protocol version"},
	} {
		for _, before := range []string{"", quick} {
			c := dial(t, s.Addr())
			if before != "" { // the connection has served a request
				c.send(t, before)
				if got := c.answer(t, http.MethodGet); got.status != http.StatusOK {
					t.Fatalf("%s: %d", before, got.status)
				}
			}
			c.send(t, tt.request)
			response, err := http.ReadResponse(c.in, nil)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			text, err := io.ReadAll(response.Body)
			must(t, err)
			must(t, response.Body.Close())
			var body api.Error
			if err := json.Unmarshal(text, &body); err != nil || response.Header.Get("Content-Type") != "application/json" || !response.Close {
				t.Errorf("%s: %v, %v, %s", name, err, response.Header, text)
			}
			if response.StatusCode != tt.status || body.Error != "Bad Request" || body.Code != api.ErrorCodeInvalidRequest || body.Detail != tt.detail {
				t.Errorf("%s: %d %+v", name, response.StatusCode, body)
			}
			c.ends(t)
		}
	}
}

// withHeaderOf returns a request whose line and headers have so many bytes.
func withHeaderOf(size int) string {
	const before, after = "GET / HTTP/1.1\r\nHost: x\r\nA: ", "\r\n\r\n"
	return before + strings.Repeat("a", size-len(before)-len(after)) + after
}

// The bound that the error names is the real one.
func TestConnection_HeadersUpToTheBoundAreAccepted(t *testing.T) {
	t.Parallel()
	s := start(t, valid(), rejecting)
	for more, tooLarge := range map[int]bool{0: false, 1: true} {
		c := dial(t, s.Addr())
		c.send(t, withHeaderOf(headerLimit+more))
		if got := c.answer(t, http.MethodGet); (got.status == http.StatusRequestHeaderFieldsTooLarge) != tooLarge {
			t.Errorf("%d bytes are answered %d", headerLimit+more, got.status)
		}
	}
}

// net/http would answer OPTIONS * itself, and wait for its body without a limit.
func TestConnection_RequestsForNoRouteAreHandled(t *testing.T) {
	t.Parallel()
	s := start(t, valid(), rejecting)
	for _, line := range []string{"OPTIONS *", "PRI *", "BREW /"} {
		c := dial(t, s.Addr())
		c.send(t, line+" HTTP/1.1\r\nHost: x\r\nContent-Length: 4000\r\n\r\n")
		got := c.answer(t, http.MethodGet)
		if got.status != http.StatusNotFound && got.status != http.StatusMethodNotAllowed || got.header.Get("X-Request-Id") == "" || !got.closes {
			t.Errorf("%s: %d %v", line, got.status, got.header)
		}
		c.ends(t)
	}
}

// A file may contain what net/http's own responses look like.
func TestConnection_BytesOfAHandlerStay(t *testing.T) {
	t.Parallel()
	const file = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request"
	s := start(t, valid(), func(r chi.Router) {
		r.Get("/", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(len(file)))
			control := http.NewResponseController(w)
			must(t, control.Flush())
			_, _ = io.WriteString(w, file)
		})
	})
	for range 2 {
		c := dial(t, s.Addr())
		c.send(t, quick)
		response, err := http.ReadResponse(c.in, nil)
		must(t, err)
		text, err := io.ReadAll(response.Body)
		must(t, err)
		must(t, response.Body.Close())
		if string(text) != file {
			t.Errorf("received %q", text)
		}
	}
}
