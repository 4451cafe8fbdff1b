// Package weburl has rules for URLs that tenants name, as far as the URL alone says. The operator checks what it stores with them, and the
// runtime what it sends to.
package weburl

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// IsHost reports whether a host is an IP address without a zone, or a name of DNS in its usual form.
func IsHost(host string) bool {
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

// PortOf returns the port of a URL of http or https; 0 if it is malformed.
func PortOf(target *url.URL) int {
	if target.Port() == "" {
		if target.Scheme == "http" {
			return 80
		}
		return 443
	}
	port, err := strconv.ParseUint(target.Port(), 10, 16)
	if err != nil {
		return 0
	}
	return int(port)
}
