package objectstore

import (
	"context"
	"io"
	"net/http"
	"net/http/httptrace"

	"mediastack.dev/runtime/splice"
)

// traceConn returns a context of a request, and a pointer to the connection that its response comes from: nil for TLS.
func traceConn(ctx context.Context) (context.Context, **bodyConn) {
	var used *bodyConn
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { used, _ = info.Conn.(*bodyConn) }}), &used
}

// fillPipe makes reads of the body fill a pipe, if the body is long and of a known length.
func (c *bodyConn) fillPipe(response *http.Response, pipe *splice.Pipe) {
	if c == nil || c.raw == nil || response.ContentLength < splice.MinLength || response.Uncompressed {
		return
	}
	c.pipe.Store(pipe)
	response.Body = &splicedBody{response.Body, c, pipe}
}

// splicedBody is a body whose connection fills a pipe until it is closed.
type splicedBody struct {
	io.ReadCloser
	conn *bodyConn
	pipe *splice.Pipe
}

// Close implements io.Closer.
func (b *splicedBody) Close() error {
	b.conn.pipe.CompareAndSwap(b.pipe, nil) // after its end the connection may have the next request
	return b.ReadCloser.Close()
}
