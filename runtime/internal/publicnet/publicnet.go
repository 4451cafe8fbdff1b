// Package publicnet decides which IP addresses are on the public internet. Packages oauthhttp and
// remotefile, which connect to hosts that clients name, ask it before each connection.
package publicnet

import (
	"net/netip"
	"slices"
)

// globalUnicast6 is the allocated part of IPv6. Other addresses are local, unassigned, or carry an
// IPv4 address: ::/96 (compatible), 64:ff9b::/96 and 64:ff9b:1::/48 (NAT64).
var globalUnicast6 = netip.MustParsePrefix("2000::/3")

// reserved are the networks that the IANA registries of special-purpose addresses (RFC 6890 and its
// updates) list as not globally reachable, and those that carry an IPv4 address.
var reserved = prefixes(
	"0.0.0.0/8",        // this network
	"10.0.0.0/8",       // private
	"100.64.0.0/10",    // shared by the customers of a carrier (CGNAT)
	"127.0.0.0/8",      // loopback
	"169.254.0.0/16",   // link-local, with the metadata of most cloud providers
	"172.16.0.0/12",    // private
	"192.0.0.0/24",     // protocol assignments
	"192.0.2.0/24",     // documentation
	"192.88.99.0/24",   // relays of 6to4
	"192.168.0.0/16",   // private
	"198.18.0.0/15",    // benchmarks
	"198.51.100.0/24",  // documentation
	"203.0.113.0/24",   // documentation
	"224.0.0.0/4",      // multicast
	"240.0.0.0/4",      // reserved, with the broadcast address
	"168.63.129.16/32", // not of IANA: metadata of a cloud provider
	"2001::/23",        // protocol assignments: Teredo, which carries IPv4, benchmarks, ORCHID
	"2001:db8::/32",    // documentation
	"2002::/16",        // 6to4, which carries IPv4
	"3fff::/20",        // documentation
)

// Contains reports whether an address is public. An IPv4 address that is mapped to IPv6 is judged as
// IPv4; every other form of IPv6 that is known to carry an IPv4 address is not public.
func Contains(ip netip.Addr) bool {
	if !ip.IsValid() || ip.Zone() != "" {
		return false
	}
	ip = ip.Unmap()
	if ip.Is6() && (!globalUnicast6.Contains(ip) || isISATAP(ip)) {
		return false
	}
	return !ContainedIn(reserved, ip)
}

// ContainedIn reports whether one of the networks has the address, an IPv4 address in either form.
func ContainedIn(networks []netip.Prefix, ip netip.Addr) bool {
	return slices.ContainsFunc(networks, func(network netip.Prefix) bool { return network.Contains(ip.Unmap()) })
}

// isISATAP reports whether the interface identifier carries an IPv4 address (RFC 5214, section 6.1).
func isISATAP(ip netip.Addr) bool {
	bytes := ip.As16()
	return (bytes[8] == 0 || bytes[8] == 2) && bytes[9] == 0 && bytes[10] == 0x5e && bytes[11] == 0xfe
}

func prefixes(texts ...string) (parsed []netip.Prefix) {
	for _, text := range texts {
		parsed = append(parsed, netip.MustParsePrefix(text))
	}
	return parsed
}
