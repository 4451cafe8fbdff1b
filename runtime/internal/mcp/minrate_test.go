package mcp_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net"
	"testing"
	"time"
)

// A connection that stood still, or that dripped, held the memory that others waited
// for. It is given up as an upload by REST is, whichever way its reading ends.
func TestUploadMedia_BelowTheMinimumRateIsAbortedWhileOthersWait(t *testing.T) {
	t.Parallel()
	for name, drips := range map[string]bool{"stands still": false, "drips": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			slow, quick := w.tenant(t, "slow"), w.tenant(t, "quick")
			rt := w.replica(t, func(o *options) {
				o.media.UploadMemory, o.media.UploadMinTransferRate, o.media.UploadQueueTimeout = 17<<20, 64<<10, 30*time.Second
				o.server.StallTimeout = time.Hour // it must not be that which ends the upload
			})
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", rt.server.Addr())
			must(t, err)
			defer func() { _ = conn.Close() }()
			must(t, conn.SetDeadline(time.Now().Add(40*time.Second)))
			body := upload(1, base64.StdEncoding.EncodeToString(noise(9<<20)), "")
			_, err = fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: media.test\r\nx-service-apikey: %s\r\nAccept: application/json, text/event-stream\r\n"+
				"Mcp-Protocol-Version: 2025-11-25\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", slow.Key, len(body))
			must(t, err)
			// More than any buffer takes, so that the upload has its memory; then next to nothing.
			const first = 11 << 20
			_, err = conn.Write([]byte(body[:first]))
			must(t, err)
			done := make(chan struct{})
			dripping := make(chan struct{})
			go func() {
				defer close(dripping)
				tick := time.NewTicker(50 * time.Millisecond)
				defer tick.Stop()
				for at := first; drips; at++ {
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
			told := make([]byte, 2048)
			n, err := conn.Read(told)
			close(done)
			<-dripping
			must(t, err)
			if !bytes.HasPrefix(told[:n], []byte("HTTP/1.1 429 ")) || !bytes.Contains(told[:n], []byte("Retry-After: ")) || !bytes.Contains(told[:n], []byte("below the minimum transfer rate")) {
				t.Errorf("the slow client is told %s", told[:n])
			}
			if n := w.QueryInt(t, `SELECT count(*) FROM item WHERE account_id = $1`, slow.Account.ID); n != 0 {
				t.Errorf("it stored %d items", n)
			}
		})
	}
}
