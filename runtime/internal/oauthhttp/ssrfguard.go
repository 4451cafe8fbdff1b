package oauthhttp

import (
	"fmt"
	"net/netip"

	"mediastack.dev/runtime/internal/publicnet"
)

// allowPublic rejects connections to anything but the https port of a public IP address. It
// prevents server-side request forgery by the URL of a metadata document.
func allowPublic(to netip.AddrPort) error {
	switch {
	case to.Port() != 443:
		return fmt.Errorf("port %d is not https", to.Port())
	case to.Addr().Is4In6() || !publicnet.Contains(to.Addr()): // the dialer has unmapped it
		return fmt.Errorf("%s is not a public address", to.Addr())
	}
	return nil
}
