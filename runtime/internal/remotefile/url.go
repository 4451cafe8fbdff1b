package remotefile

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"mediastack.dev/runtime/fault"
)

// MaxURL is the maximum length of a URL, in bytes.
const MaxURL = 4096

// Check returns an Invalid fault unless the client may send a request to the URL, as far as the URL
// alone says. It does not quote the URL, which may hold a token.
func (c *Client) Check(text string) error {
	_, err := c.parse(text)
	return err
}

// parse returns the URL without its fragment.
func (c *Client) parse(text string) (*url.URL, error) {
	if len(text) > MaxURL {
		return nil, fault.New(fault.Invalid, "url must be at most %d bytes", MaxURL)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f }) || strings.Contains(text, `\`) {
		return nil, fault.New(fault.Invalid, "url must be a URL in ASCII without white space: encode other characters")
	}
	target, err := url.Parse(text)
	if err != nil {
		return nil, fault.New(fault.Invalid, "url is malformed")
	}
	return target, c.judge(target)
}

// judge returns an Invalid fault unless the client may send a request to the URL.
func (c *Client) judge(target *url.URL) error {
	target.Fragment, target.RawFragment = "", ""
	switch {
	case target.Scheme != "https":
		return fault.New(fault.Invalid, "url must begin with https://")
	case target.User != nil:
		return fault.New(fault.Invalid, "url must not have a user name or password")
	case target.Opaque != "" || !isHost(target.Hostname()):
		return fault.New(fault.Invalid, "url must have a host")
	case !slices.Contains(c.cfg.Ports, portOf(target)):
		return fault.New(fault.Invalid, "url has a port from which files cannot be fetched: the ports that can be used are %s", c.ports())
	}
	if ip, err := netip.ParseAddr(target.Hostname()); err == nil && !c.allows(ip) {
		return fault.New(fault.Invalid, "url has an address that is not public")
	}
	return nil
}

// ports returns the ports that are allowed, for texts.
func (c *Client) ports() string {
	return strings.Trim(fmt.Sprint(c.cfg.Ports), "[]")
}

// isHost reports whether a host is an IP address without a zone, or a name of DNS in its usual form.
func isHost(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Zone() == ""
	}
	if len(host) == 0 || len(host) > 253 {
		return false
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(host, "."), ".") {
		if label == "" || len(label) > 63 || strings.ContainsFunc(label, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
		}) {
			return false
		}
	}
	return true
}

// portOf returns the port of a URL of https; 0 if it is malformed.
func portOf(target *url.URL) int {
	if target.Port() == "" {
		return 443
	}
	port, err := strconv.ParseUint(target.Port(), 10, 16)
	if err != nil {
		return 0
	}
	return int(port)
}

// absolute returns the address of a connection with a host that is looked up as it is: the search
// domains of the pod would add those of the cluster to it.
func absolute(address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	if _, err := netip.ParseAddr(host); err != nil && !strings.HasSuffix(host, ".") {
		host += "."
	}
	return net.JoinHostPort(host, port), nil
}
