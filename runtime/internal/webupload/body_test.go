package webupload_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/internal/runtimetest"
)

// half sends the beginning of a form to a page, and returns the connection.
func (rt *replica) half(t *testing.T, of requested) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", rt.Addr())
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: media.test\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: 1000\r\n\r\n"+
		"--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\nabc", strings.TrimPrefix(of.Page, baseURL))
	must(t, err)
	return conn
}

// A form that does not arrive is a failure of its sender. The page was made with the context of the request, which had ended, so it told of a
// database that does not respond, and each such form was an error of the service in the log and the metrics.
func TestPage_SaysThatTheFormHasNotArrived(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.replica(t, func(o *runtimetest.ServiceConfig) { o.Server.StallTimeout = time.Second })
	of := rt.request(t, runtimetest.Key(one.Key), object{})
	conn := rt.half(t, of)
	must(t, conn.SetReadDeadline(time.Now().Add(wait.Timeout(t))))
	got, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must(t, err)
	page, err := io.ReadAll(got.Body)
	must(t, err)
	must(t, got.Body.Close())
	if got.StatusCode != http.StatusBadRequest || !strings.Contains(string(page), "the upload made no progress for too long") || !strings.Contains(string(page), "<form") {
		t.Errorf("a form that stalls: %d %s", got.StatusCode, page)
	}
	must(t, rt.half(t, of).Close())
	wait.Until(t, "the form that was cut off is logged", func() bool { return strings.Count(rt.Logs.String(), `"status":400`) == 2 })
	if logs := rt.Logs.String(); strings.Contains(logs, `"level":"ERROR"`) {
		t.Errorf("the log is %s", logs)
	}
	rt.do(t, http.MethodPost, of.Page, form("a.txt", "text/plain", []byte("abc"))).MustBe(t, http.StatusOK, "the form")
}
