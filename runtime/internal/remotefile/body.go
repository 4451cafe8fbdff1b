package remotefile

import (
	"context"
	"errors"
	"io"
	"time"

	"mediastack.dev/runtime/fetch"
	"mediastack.dev/runtime/minrate"
)

// body is the file of a response. It ends the request if the server is slower than the minimum rate.
// The time between reads does not count. It is not safe for concurrent use.
type body struct {
	ctx    context.Context
	end    func(why error)
	source io.ReadCloser
	budget minrate.Budget
	failed error
}

func newBody(ctx context.Context, end func(error), source io.ReadCloser, cfg Config) *body {
	return &body{ctx: ctx, end: end, source: source, budget: minrate.New(cfg.MinRate, cfg.StallTimeout)}
}

// Read reads the next bytes. An error other than io.EOF is a fetch.Failure, or the cause of the end of
// the context that Open was called with.
func (b *body) Read(p []byte) (int, error) {
	if b.failed != nil {
		return 0, b.failed
	}
	began := time.Now()
	stalled := time.AfterFunc(b.budget.Remaining(), func() { b.end(errStalled) })
	n, err := b.source.Read(p)
	stalled.Stop()
	if b.budget.Record(int64(n), time.Since(began)); b.budget.Exceeded() {
		b.end(errStalled)
		b.failed = failure(b.ctx, errStalled)
		return n, b.failed
	}
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, io.EOF) && context.Cause(b.ctx) == nil: // a server may end the file because the request has ended
		b.failed = io.EOF
	case context.Cause(b.ctx) == nil && (errors.Is(err, io.ErrUnexpectedEOF) || isConnection(err)):
		b.failed = fetch.Fail(fetch.Incomplete, "the connection ended before the end of the file")
	default:
		b.failed = failure(b.ctx, err)
	}
	return n, b.failed
}

// Close ends the request.
func (b *body) Close() error {
	b.end(context.Canceled)
	return b.source.Close()
}
