package oauthhttp_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A body that stalled or was cut was answered 413, as if it were too long.
func TestRegister_TellsABodyThatDidNotArriveFromOneThatIsTooLong(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rt := w.replica(t, func(o *options) { o.stall = time.Second })
	for name, tt := range map[string]struct {
		announced int
		body      string
		cut       bool // the client sends nothing more
		status    int
		detail    string
	}{
		"stalled":         {100, `{"client_name"`, false, http.StatusRequestTimeout, "did not arrive in time"},
		"nothing arrives": {100, ``, false, http.StatusRequestTimeout, "did not arrive in time"},
		"cut short":       {100, `{"client_name"`, true, http.StatusBadRequest, "cut short"},
		"too long":        {9000, strings.Repeat(" ", 9000), false, http.StatusRequestEntityTooLarge, "8 KiB"},
		"not an object":   {1, `x`, false, http.StatusBadRequest, "JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", rt.server.Addr())
			must(t, err)
			defer func() { _ = conn.Close() }()
			must(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
			_, err = fmt.Fprintf(conn, "POST /oauth/register HTTP/1.1\r\nHost: media.test\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", tt.announced, tt.body)
			must(t, err)
			if tt.cut {
				must(t, conn.(*net.TCPConn).CloseWrite())
			}
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			must(t, err)
			defer func() { _ = response.Body.Close() }()
			var body map[string]string
			must(t, json.NewDecoder(response.Body).Decode(&body))
			if response.StatusCode != tt.status || body["error"] != "invalid_client_metadata" || !strings.Contains(body["error_description"], tt.detail) || len(body) != 2 {
				t.Errorf("%d %v, want %d", response.StatusCode, body, tt.status)
			}
			if response.Header.Get("Cache-Control") != "no-store" || response.Header.Get("Content-Type") != "application/json" {
				t.Errorf("the answer's header: %v", response.Header)
			}
		})
	}
}
