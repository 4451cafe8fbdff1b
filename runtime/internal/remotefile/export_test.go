package remotefile

import (
	"context"
	"fmt"
	"io"
	"syscall"

	"mediastack.dev/runtime/internal/publicnet"
)

// Intercept ends each connection that the client has judged as allowed, just before it is made, unless pass
// returns true for its address. So a test of what is allowed sends nothing, also if the judgement is wrong.
func (c *Client) Intercept(pass func(address string) bool) {
	judge := c.dialer.Control
	c.dialer.Control = func(network, address string, conn syscall.RawConn) error {
		if err := judge(network, address, conn); err != nil {
			return err
		}
		if !pass(address) {
			return fmt.Errorf("the test ends the connection to %s", address)
		}
		return nil
	}
}

// NewBody returns the body of a response to a request with this context and Config.Timeout.
func NewBody(ctx context.Context, source func(ctx context.Context) io.ReadCloser, cfg Config) io.ReadCloser {
	ctx, cancel := context.WithCancelCause(ctx)
	ctx, stop := context.WithTimeoutCause(ctx, cfg.Timeout, errOverall)
	return newBody(ctx, func(why error) { cancel(why); stop() }, source(ctx), cfg)
}

// Absolute is for tests: whether the search domains of resolv.conf are used depends on the machine.
var Absolute = publicnet.Absolute
