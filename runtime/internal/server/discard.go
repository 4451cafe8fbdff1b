package server

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// Many requests are answered before their body is read: those without a credential, for
// example. Left alone, net/http would read up to 256 KiB of such a body before it sends
// the answer, without a deadline, and so would wait for ever for a body that never comes.
// Here the answer goes out at once and announces that the connection is closed, which
// also keeps net/http from reading. Two kinds of clients get more: a short body that is on its way anyway is read first, so that a
// rejected request need not cost the connection; and what else comes is dropped within
// bounds after the answer (connection.Close), since a connection that is closed with
// unread bytes is reset, and the answer would be lost to a client that reads it only
// after it has sent everything.

const (
	// shortBody is how much may be left of a body, in bytes, to be worth reading before an
	// error is answered,
	shortBody = 64 << 10
	// and shortBodyWait how long it may take to come.
	shortBodyWait = 50 * time.Millisecond
)

// closeIfDoubtful closes the connection after requests whose end is open to doubt. RFC 9112,
// section 6.1, asks for that when a request has both Content-Length and Transfer-Encoding,
// or is of HTTP/1.0 with a Transfer-Encoding. net/http removes the doubtful field, so it
// holds for all requests that could have had one.
func closeIfDoubtful(header http.Header, r *http.Request) {
	if r.ContentLength < 0 || !r.ProtoAtLeast(1, 1) { // net/http shows a body of the latter as none
		header.Set("Connection", "close")
	}
}

// leave decides, before the header of an answer goes out, what becomes of a connection
// whose request was not read to its end.
func (b *requestBody) leave(header http.Header, status int) {
	if b.ended {
		return
	}
	left := b.length - b.read
	if status >= http.StatusBadRequest && b.length >= 0 && left <= shortBody && b.asked() {
		_ = b.control.SetReadDeadline(time.Now().Add(shortBodyWait)) // a transport without deadlines has none
		n, err := io.CopyN(io.Discard, b.ReadCloser, left+1)
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

// asked reports whether the client sends the body unasked, or was asked for it.
func (b *requestBody) asked() bool { return !b.expects || b.read > 0 }

// finish keeps net/http from waiting for what is left of the body.
func (b *requestBody) finish() {
	if b != nil && !b.ended {
		_ = b.control.SetReadDeadline(time.Now()) // a transport without deadlines has none
	}
}
