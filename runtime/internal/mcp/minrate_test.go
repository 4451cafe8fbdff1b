package mcp_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net"
	"testing"
	"time"

	"mediastack.dev/hack/testenv/wait"
)

// A connection that stalls, or sends slowly, must not hold the memory that other uploads wait for.
func TestUploadMedia_BelowTheMinimumRateIsAbortedWhileOthersWait(t *testing.T) {
	t.Parallel()
	for name, sendsOn := range map[string]bool{"stalls": false, "sends slowly": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			slow, quick := w.tenant(t, "slow"), w.tenant(t, "quick")
			rt := w.replica(t, func(o *options) {
				o.Upload.UploadMemory, o.Upload.UploadMinTransferRate = 17<<20, 64<<10
			})
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", rt.Addr())
			must(t, err)
			defer func() { _ = conn.Close() }()
			must(t, conn.SetDeadline(time.Now().Add(2*wait.Timeout(t))))
			body := upload(1, base64.StdEncoding.EncodeToString(noise(9<<20)), "")
			_, err = fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: media.test\r\nx-service-apikey: %s\r\nAccept: application/json, text/event-stream\r\n"+
				"Mcp-Protocol-Version: 2025-11-25\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", slow.Key, len(body))
			must(t, err)
			// More than all buffers hold, so that the upload has its memory.
			const first = 11 << 20
			_, err = conn.Write([]byte(body[:first]))
			must(t, err)
			done := make(chan struct{})
			sending := make(chan struct{})
			go func() {
				defer close(sending)
				tick := time.NewTicker(50 * time.Millisecond) //nolint:forbidigo // the pace of a slow client
				defer tick.Stop()
				for at := first; sendsOn; at++ {
					select {
					case <-done:
						return
					case <-tick.C:
						if _, err := conn.Write([]byte(body[at : at+1])); err != nil {
							return
						}
					}
				}
			}()
			rt.upload(t, quick.Key, "b.bin", noise(2<<20))
			response := make([]byte, 2048)
			n, err := conn.Read(response)
			close(done)
			<-sending
			must(t, err)
			if !bytes.HasPrefix(response[:n], []byte("HTTP/1.1 429 ")) || !bytes.Contains(response[:n], []byte("Retry-After: ")) || !bytes.Contains(response[:n], []byte("below the minimum transfer rate")) {
				t.Errorf("the slow client is answered %s", response[:n])
			}
			if n := w.QueryInt(t, `SELECT count(*) FROM item WHERE account_id = $1`, slow.Account.ID); n != 0 {
				t.Errorf("it stored %d items", n)
			}
		})
	}
}
