package webhookclient

import (
	"errors"
	"syscall"
)

// errIntercepted ends a connection that a client was about to make.
var errIntercepted = errors.New("the test ends the connection")

// Intercept calls seen with each address that the client has judged as allowed, and ends the connection just before it is made. So a test of what
// is allowed sends nothing, also if the judgement is wrong.
func (c *Client) Intercept(seen func(address string)) {
	for _, r := range []route{c.secure, c.plain} {
		judge := r.dialer.Control
		r.dialer.Control = func(network, address string, conn syscall.RawConn) error {
			if err := judge(network, address, conn); err != nil {
				return err
			}
			seen(address)
			return errIntercepted
		}
	}
}
