package rest_test

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"mediastack.dev/hack/testenv/wait"
)

// A connection that stalls must not hold the memory that other uploads wait for.
func TestUpload_BelowTheMinimumRateIsAbortedWhileOthersWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	slow, quick := w.tenant(t, "slow"), w.tenant(t, "quick")
	rt := w.runtime(t, func(o *options) {
		o.Upload.UploadMemory, o.Upload.UploadMinTransferRate = 17<<20, 64<<10
	})
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", rt.Addr())
	must(t, err)
	defer func() { _ = conn.Close() }()
	must(t, conn.SetDeadline(time.Now().Add(2*wait.Timeout(t))))
	body, kind := encode(filePart("a.bin", randomBytes(1, 20<<20)))
	_, err = fmt.Fprintf(conn, "POST /media/create HTTP/1.1\r\nHost: media.test\r\nx-service-apikey: %s\r\n"+
		"Content-Type: %s\r\nContent-Length: %d\r\n\r\n", slow.Key, kind, len(body))
	must(t, err)
	// More than all buffers hold, so that the upload has its memory.
	_, err = conn.Write(body[:15<<20])
	must(t, err)
	got := rt.do(t, http.MethodPost, "/media/create", key(quick.Key), form(filePart("b.bin", randomBytes(2, 2<<20))))
	if item := got.item(t); item.Size != 2<<20 {
		t.Errorf("the quick upload: %d %s", got.Status, got.Body)
	}
	response := make([]byte, 2048)
	n, err := conn.Read(response)
	must(t, err)
	if !bytes.HasPrefix(response[:n], []byte("HTTP/1.1 429 ")) || !bytes.Contains(response[:n], []byte("Retry-After: ")) || !bytes.Contains(response[:n], []byte("below the minimum transfer rate")) {
		t.Errorf("the slow client is answered %s", response[:n])
	}
}
