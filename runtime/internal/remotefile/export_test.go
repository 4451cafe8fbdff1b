package remotefile

import (
	"fmt"
	"syscall"
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
