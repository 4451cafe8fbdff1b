package oauthhttp

import (
	"fmt"
	"net/netip"
	"slices"
)

// globalUnicast6 is the allocated part of IPv6. Other addresses are local, translated to IPv4
// or unassigned.
var globalUnicast6 = netip.MustParsePrefix("2000::/3")

// reservedPrefixes are networks outside the public internet that netip does not classify.
// 168.63.129.16 is a metadata endpoint of a cloud provider.
var reservedPrefixes = func() []netip.Prefix {
	var prefixes []netip.Prefix
	for _, text := range []string{"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24",
		"168.63.129.16/32", "203.0.113.0/24", "240.0.0.0/4", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"} {
		prefixes = append(prefixes, netip.MustParsePrefix(text))
	}
	return prefixes
}()

// allowPublic rejects connections to anything but the https port of a public IP address. It
// prevents server-side request forgery by the URL of a metadata document.
func allowPublic(to netip.AddrPort) error {
	ip := to.Addr()
	switch {
	case to.Port() != 443:
		return fmt.Errorf("port %d is not https", to.Port())
	case !ip.IsGlobalUnicast() || ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsMulticast() ||
		ip.Is6() && !globalUnicast6.Contains(ip) || slices.ContainsFunc(reservedPrefixes, func(p netip.Prefix) bool { return p.Contains(ip) }):
		return fmt.Errorf("%s is not a public address", ip)
	}
	return nil
}
