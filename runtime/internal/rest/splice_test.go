package rest_test

import (
	"bytes"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// spliced returns how many bytes the kernel has passed from the object store to clients.
func (rt *runtime) spliced(t *testing.T) int {
	t.Helper()
	const name = "\nmediastack_downloads_spliced_bytes_total "
	_, after, found := strings.Cut(string(rt.admin(t, "/metrics").Body), name)
	value, _, _ := strings.Cut(after, "\n")
	n, err := strconv.ParseFloat(value, 64)
	if !found || err != nil {
		t.Fatalf("the metric: %t, %v", found, err)
	}
	return int(n)
}

func TestFile_ThatIsLargeIsPassedByTheKernel(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t)
	data := randomBytes(8, 12<<20+5)
	item := rt.sealed(t, one.Key, filePart("a.bin", data), field("access", "public"))
	for _, c := range []struct {
		ranges  string
		want    []byte
		spliced bool
	}{
		{"", data, true},
		{"bytes=1000000-9000000", data[1_000_000:9_000_001], true},
		{"bytes=7-106", data[7:107], false},
	} {
		before := rt.spliced(t)
		got := rt.do(t, http.MethodGet, item.File, header("Range", c.ranges))
		if !bytes.Equal(got.Body, c.want) {
			t.Errorf("%q: %d with %d bytes", c.ranges, got.Status, len(got.Body))
		}
		if moved := rt.spliced(t) - before; moved > len(c.want) || (moved > len(c.want)*9/10) != c.spliced {
			t.Errorf("%q: the kernel has passed %d of %d bytes", c.ranges, moved, len(c.want))
		}
	}
	before := rt.spliced(t)
	got := rt.do(t, http.MethodGet, item.File, header("Range", "bytes=0-2999999,5000000-7999999"))
	_, params, err := mime.ParseMediaType(got.Header.Get("Content-Type"))
	must(t, err)
	parts := multipart.NewReader(bytes.NewReader(got.Body), params["boundary"])
	for _, want := range [][]byte{data[:3_000_000], data[5_000_000:8_000_000]} {
		part, err := parts.NextPart()
		must(t, err)
		body, err := io.ReadAll(part)
		must(t, err)
		if !bytes.Equal(body, want) {
			t.Errorf("a part has %d bytes", len(body))
		}
	}
	if head := rt.do(t, http.MethodHead, item.File); head.Header.Get("Content-Length") != strconv.Itoa(len(data)) || len(head.Body) != 0 {
		t.Errorf("HEAD: %v", head.Header)
	}
	if moved := rt.spliced(t) - before; moved != 0 {
		t.Errorf("several ranges, and HEAD: the kernel has passed %d bytes", moved)
	}
	_, after, _ := strings.Cut(string(rt.admin(t, "/metrics").Body), `mediastack_http_body_bytes_total{direction="out",route="/media/file/{mediaId}/{variant}/{name}"} `)
	value, _, _ := strings.Cut(after, "\n")
	if n, err := strconv.ParseFloat(value, 64); err != nil || n < 26e6 {
		t.Errorf("the bytes that were sent: %q", value)
	}
}

// The pipe of one download holds nothing of another one, whose client has left in the middle of it.
func TestFile_PassedByTheKernelIsThatOfItsRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, other := w.tenant(t, "one"), w.tenant(t, "other")
	rt := w.runtime(t)
	data := [][]byte{randomBytes(1, 20<<20), randomBytes(2, 20<<20)}
	files := []string{rt.sealed(t, one.Key, filePart("a", data[0]), field("access", "public")).File, rt.sealed(t, other.Key, filePart("b", data[1]), field("access", "public")).File}
	for range 10 {
		left := rt.startDownload(t, files[0])
		_, err := io.ReadFull(left, make([]byte, 100_000))
		must(t, err)
		must(t, left.Close())
		if status, body := rt.startDownload(t, files[1], "Connection: close").readAll(t); status != http.StatusOK || !bytes.Equal(body, data[1]) {
			t.Fatalf("%d with %d bytes", status, len(body))
		}
	}
	rt.awaitDownloads(t, 0)
}

func TestDownload_WhoseClientReadsNothingIsEnded(t *testing.T) {
	t.Parallel()
	_, one, rt := withTenant(t, func(o *options) { o.Server.StallTimeout = time.Second })
	item := rt.sealed(t, one.Key, filePart("a.bin", randomBytes(1, 20<<20)), field("access", "public"))
	for _, ranges := range []string{"", "Range: bytes=5-"} {
		stalled := rt.startDownload(t, item.File, ranges)
		rt.awaitDownloads(t, 1)
		rt.awaitDownloads(t, 0)
		if got, err := io.ReadAll(stalled); err == nil && len(got) > 20<<20 {
			t.Errorf("%s: all %d bytes were sent", ranges, len(got))
		}
	}
	if rt.spliced(t) == 0 {
		t.Error("the kernel has passed nothing")
	}
}
