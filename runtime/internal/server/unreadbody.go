package server

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// Many requests get a response before their body is read: those without a credential, for
// example. By default net/http reads up to 256 KiB of such a body before it sends the
// response, without a deadline. Here the response is sent at once, with Connection: close,
// which also keeps net/http from reading. There are two exceptions. The rest of a short body
// is read first, so that an error does not cost the connection. Other bytes are discarded
// within limits after the response (connection.Close): a connection that is closed with
// unread bytes is reset, and a client that sends everything before it reads would lose the
// response.

const (
	// shortBody is how many bytes of a body may remain to be read before an error is sent,
	shortBody = 64 << 10
	// and shortBodyWait bounds the wait for them.
	shortBodyWait = 50 * time.Millisecond
)

// closeIfAmbiguous closes the connection after a request whose end is ambiguous. RFC 9112,
// section 6.1, asks for that when a request has both Content-Length and Transfer-Encoding,
// or is of HTTP/1.0 with a Transfer-Encoding. net/http removes the field, so this
// applies to all requests that could have had one.
func closeIfAmbiguous(header http.Header, r *http.Request) {
	if r.ContentLength < 0 || !r.ProtoAtLeast(1, 1) { // the latter have no body in net/http
		header.Set("Connection", "close")
	}
}

// prepareResponse is called before the header of a response is sent. If the body was not
// read to its end, it reads the rest of a short one, or else closes the connection.
func (b *requestBody) prepareResponse(header http.Header, status int) {
	if b.ended {
		return
	}
	remaining := b.length - b.read
	if status >= http.StatusBadRequest && b.length >= 0 && remaining <= shortBody && b.isSent() {
		_ = b.control.SetReadDeadline(time.Now().Add(shortBodyWait)) // a transport without deadlines has none
		n, err := io.CopyN(io.Discard, b.ReadCloser, remaining+1)
		b.read += n
		if b.ended = errors.Is(err, io.EOF); b.ended {
			return
		}
	}
	header.Set("Connection", "close")
	if b.connection != nil {
		b.connection.linger(b.discardLimit, b.discardTimeout)
	}
}

// isSent reports whether the client sends the body: it did not wait for 100 Continue, or got
// it.
func (b *requestBody) isSent() bool { return !b.expects || b.read > 0 }

// finish keeps net/http from waiting for the rest of the body. A connection that will be closed for it is evictable from then
// on: net/http holds it for half a second, in which many such requests would hold all connections. So the response is sent before,
// unless it is aborted.
func (b *requestBody) finish(aborted bool) {
	if b == nil {
		return
	}
	b.arrival.release()
	if !b.ended {
		_ = b.control.SetReadDeadline(time.Now()) // a transport without deadlines has none
		if !aborted {
			_ = b.control.Flush() // a transport without Flush has no buffer
		}
		b.connection.setEvictable(true)
	}
}
