package rest_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/testenv/retryafter"
	"mediastack.dev/hack/testenv/wait"
)

// download is a download in progress, whose client reads when the test does.
type download struct{ net.Conn }

// startDownload requests a file on a new connection, and reads nothing.
func (rt *runtime) startDownload(t *testing.T, file string, fields ...string) download {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", rt.Addr())
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	must(t, conn.SetDeadline(time.Now().Add(2*wait.Timeout(t))))
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: media.test\r\n%s\r\n", strings.TrimPrefix(file, baseURL), strings.Join(append(fields, ""), "\r\n"))
	must(t, err)
	return download{conn}
}

// readAll reads the whole response.
func (d download) readAll(t *testing.T) (status int, body []byte) {
	t.Helper()
	response, err := http.ReadResponse(bufio.NewReader(d), nil)
	must(t, err)
	defer func() { _ = response.Body.Close() }()
	body, err = io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, body
}

// awaitDownloads waits until so many files are being sent.
func (rt *runtime) awaitDownloads(t *testing.T, files int) {
	t.Helper()
	line := fmt.Sprintf("\nmediastack_downloads_in_flight %d\n", files)
	wait.Until(t, fmt.Sprintf("%d files are being sent", files), func() bool {
		return strings.Contains(string(rt.admin(t, "/metrics").Body), line)
	})
}

func TestDownloads_AreLimited(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t, func(o *options) { o.Delivery.MaxDownloads, o.Delivery.DownloadPerClientPercent = 2, 100 })
	data := randomBytes(1, 20<<20)
	item := rt.sealed(t, one.Key, filePart("a.bin", data), field("access", "public"))
	empty := rt.sealed(t, one.Key, filePart("empty", nil), field("access", "public"))
	etag := rt.do(t, http.MethodHead, item.File).Header.Get("ETag")

	first, second := rt.startDownload(t, item.File), rt.startDownload(t, item.File, "Range: bytes=5-")
	rt.awaitDownloads(t, 2)
	for _, send := range [][]option{nil, {header("Range", "bytes=0-0")}, {header("Range", "bytes=0-0,5-5")}} {
		got := rt.do(t, http.MethodGet, item.File, send...)
		if got.Status == http.StatusOK {
			t.Fatal("a third file was sent")
		}
		if detail := got.rejected(t, http.StatusTooManyRequests, "Too Many Requests"); detail != "too many downloads at once" || !retryafter.Is(got.Header, 2) {
			t.Errorf("%q, %v", detail, got.Header)
		}
		for name, want := range map[string]string{"Cache-Control": "no-store", "Content-Type": "application/json", "ETag": "", "Content-Disposition": "", "Content-Range": "", "Last-Modified": ""} {
			if value := got.Header.Get(name); value != want {
				t.Errorf("a rejection with %s %q, want %q", name, value, want)
			}
		}
	}
	// A response without bytes of a file needs no slot.
	for what, got := range map[int]answer{
		http.StatusOK:                           rt.do(t, http.MethodHead, item.File),
		http.StatusNotModified:                  rt.do(t, http.MethodGet, item.File, header("If-None-Match", etag)),
		http.StatusPreconditionFailed:           rt.do(t, http.MethodGet, item.File, header("If-Match", `"other"`)),
		http.StatusRequestedRangeNotSatisfiable: rt.do(t, http.MethodGet, item.File, header("Range", "bytes=99999999-")),
	} {
		if got.Status != what {
			t.Errorf("%d, want %d: %s", got.Status, what, got.Body)
		}
	}
	rt.do(t, http.MethodGet, empty.File).Is(t, http.StatusOK, "an empty file")
	if metrics := string(rt.admin(t, "/metrics").Body); !strings.Contains(metrics, `mediastack_downloads_rejected_total{limit="process"} 3`) {
		t.Error("the rejections are not counted")
	}

	if status, body := first.readAll(t); status != http.StatusOK || !bytes.Equal(body, data) {
		t.Errorf("the first: %d with %d bytes", status, len(body))
	}
	rt.awaitDownloads(t, 1)
	if got := rt.do(t, http.MethodGet, item.File); got.Status != http.StatusOK || !bytes.Equal(got.Body, data) {
		t.Errorf("when one has ended: %d with %d bytes", got.Status, len(got.Body))
	}
	must(t, second.Close()) // the client disconnects
	rt.awaitDownloads(t, 0)
	rt.startDownload(t, item.File)
	rt.startDownload(t, item.File)
	rt.awaitDownloads(t, 2)
}

func TestDownloads_OfOneClientAreLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.tenant(t, "one")
	rt := w.runtime(t, func(o *options) {
		o.Delivery.MaxDownloads, o.Delivery.DownloadPerClientPercent = 5, 50
		o.Limits.TrustedProxies = []string{"127.0.0.0/8"}
	})
	item := rt.sealed(t, one.Key, filePart("a.bin", randomBytes(1, 20<<20)), field("access", "public"))
	from := func(address string) option { return header("X-Forwarded-For", address) }
	greedy := rt.startDownload(t, item.File, "X-Forwarded-For: 2001:db8::1")
	rt.startDownload(t, item.File, "X-Forwarded-For: 2001:db8::2")
	rt.awaitDownloads(t, 2)
	got := rt.do(t, http.MethodGet, item.File, from("2001:db8::3"), header("Range", "bytes=0-0")) // of the same network
	if detail := got.rejected(t, http.StatusTooManyRequests, "Too Many Requests"); detail != "too many downloads at once from this address" || got.Header.Get("Retry-After") == "" {
		t.Errorf("%q, %v", detail, got.Header)
	}
	for _, other := range []string{"2001:db8:0:1::1", "198.51.100.1"} {
		rt.do(t, http.MethodGet, item.File, from(other), header("Range", "bytes=0-0")).Is(t, http.StatusPartialContent, "%s", other)
	}
	rt.awaitDownloads(t, 2)
	if metrics := string(rt.admin(t, "/metrics").Body); !strings.Contains(metrics, `mediastack_downloads_rejected_total{limit="client_ip"} 1`) {
		t.Error("the rejection is not counted")
	}
	must(t, greedy.Close())
	rt.awaitDownloads(t, 1)
	rt.do(t, http.MethodGet, item.File, from("2001:db8::3"), header("Range", "bytes=0-0")).Is(t, http.StatusPartialContent, "when one has left")
}
