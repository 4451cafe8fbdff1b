package publicnet

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
)

// Policy says to which addresses a client connects for tenants, who name the hosts.
type Policy struct {
	// Settings is the beginning of the names of the settings that the policy is made of, for errors: SERVICE_FETCH.
	Settings string
	// Public permits public addresses.
	Public bool
	// Allow are networks that need not be public, and Deny are networks that are excluded in spite of all.
	Allow, Deny []netip.Prefix
	// Ports are those that may be used; in AnyPort networks, all may be.
	Ports   []int
	AnyPort []netip.Prefix
}

// NotAllowedError is the error of a connection to an address that is not allowed.
type NotAllowedError struct{ Address, Why string }

// Error names the address: it is for the administrator's log.
func (e *NotAllowedError) Error() string {
	return fmt.Sprintf("the host resolved to %s, which is %s", e.Address, e.Why)
}

// Allows reports whether connections to an address are allowed, at a port that is.
func (p Policy) Allows(ip netip.Addr) bool {
	if ContainedIn(p.Deny, ip) {
		return false
	}
	return p.Public && Contains(ip) || ip.Zone() == "" && ContainedIn(p.Allow, ip)
}

// AllowsPort reports whether a port may be used at an address; a zero address is one that is not known yet.
func (p Policy) AllowsPort(ip netip.Addr, port int) bool {
	return slices.Contains(p.Ports, port) || len(p.AnyPort) > 0 && (!ip.IsValid() || ContainedIn(p.AnyPort, ip))
}

// Dial connects to the address of a host. The search domains of the pod are not used.
func Dial(ctx context.Context, dialer *net.Dialer, network, address string) (net.Conn, error) {
	address, err := Absolute(address)
	if err != nil {
		return nil, err
	}
	return dialer.DialContext(ctx, network, address)
}

// Control is the Control of a net.Dialer, which calls it for each address that it tries. It judges an address when the connection is made, after
// the name was resolved: a second answer of DNS has no effect. The error of an address that is not allowed is a NotAllowedError.
func (p Policy) Control(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	switch {
	case err != nil:
		return &NotAllowedError{address, "not an address of IP"}
	case ContainedIn(p.Deny, to.Addr()):
		return &NotAllowedError{address, "in " + p.Settings + "_DENY_NETWORKS"}
	case !p.Allows(to.Addr()):
		return &NotAllowedError{address, "not public, and not in " + p.Settings + "_ALLOW_NETWORKS"}
	case !p.AllowsPort(to.Addr(), int(to.Port())):
		return &NotAllowedError{address, "of a port that is not in " + p.Settings + "_PORTS"}
	}
	return nil
}

// Absolute returns the address of a connection with a host that is looked up as it is: the search
// domains of the pod would add those of the cluster to it.
func Absolute(address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	if _, err := netip.ParseAddr(host); err != nil && !strings.HasSuffix(host, ".") {
		host += "."
	}
	return net.JoinHostPort(host, port), nil
}

// ParseNetworks parses the networks of a setting. One of IPv4 in the form of IPv6 would contain nothing: it is an error.
func ParseNetworks(setting string, texts []string) (parsed []netip.Prefix, err error) {
	for _, text := range texts {
		network, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil || network.Addr().Is4In6() {
			return nil, fmt.Errorf("%s must hold networks like 10.1.0.0/16 or fd00:1::/32, not %q", setting, text)
		}
		parsed = append(parsed, network.Masked())
	}
	return parsed, nil
}

// CheckPorts checks the ports of a setting.
func CheckPorts(setting string, ports []int) error {
	if len(ports) == 0 {
		return fmt.Errorf("%s must have a port", setting)
	}
	for _, port := range ports {
		if port < 1 || port > 65535 {
			return fmt.Errorf("%s must hold numbers from 1 to 65535, not %d", setting, port)
		}
	}
	return nil
}
