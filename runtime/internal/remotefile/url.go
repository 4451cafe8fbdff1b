package remotefile

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/weburl"
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
	case target.Opaque != "" || !weburl.IsHost(target.Hostname()):
		return fault.New(fault.Invalid, "url must have a host")
	case !slices.Contains(c.cfg.Ports, weburl.PortOf(target)):
		return fault.New(fault.Invalid, "url has a port from which files cannot be fetched: the ports that can be used are %s", c.ports())
	}
	if ip, err := netip.ParseAddr(target.Hostname()); err == nil && !c.policy.Allows(ip) {
		return fault.New(fault.Invalid, "url has an address that is not public")
	}
	return nil
}

// ports returns the ports that are allowed, for texts.
func (c *Client) ports() string {
	return strings.Trim(fmt.Sprint(c.cfg.Ports), "[]")
}
