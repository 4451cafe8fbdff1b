package ratelimit

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// parseProxies parses CIDRs; an address without a length is one host.
func parseProxies(texts []string) ([]netip.Prefix, error) {
	var proxies []netip.Prefix
	for _, text := range texts {
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			ip, err := netip.ParseAddr(text)
			if err != nil {
				return nil, fmt.Errorf("SERVICE_TRUSTED_PROXIES must hold addresses like 10.0.0.0/8, not %q", text)
			}
			prefix = netip.PrefixFrom(ip, ip.BitLen())
		}
		proxies = append(proxies, prefix.Masked())
	}
	return proxies, nil
}

// ClientIP returns the IP that a request comes from: the peer's or, if the peer is a
// trusted proxy, the last one in X-Forwarded-For that is not a trusted proxy. Entries
// before an untrusted one are ignored, since that client can send anything. The field
// Forwarded is ignored too: a proxy that sets X-Forwarded-For passes it on unchanged.
func (l *Limiter) ClientIP(r *http.Request) netip.Addr {
	peer := parseAddr(r.RemoteAddr)
	if l == nil || !peer.IsValid() {
		return peer
	}
	forwarded := r.Header.Values("X-Forwarded-For")
	if !l.TrustsProxy(peer) {
		if len(forwarded) > 0 {
			l.warnOnce.Do(func() {
				l.log.WarnContext(r.Context(), "X-Forwarded-For of an untrusted peer ignored: all its requests count as one client IP; set SERVICE_TRUSTED_PROXIES if it is your proxy", "peer", peer)
			})
		}
		return peer
	}
	hops := strings.Split(strings.Join(forwarded, ","), ",")
	for _, hop := range slices.Backward(hops) {
		previous := parseAddr(strings.TrimSpace(hop))
		if !previous.IsValid() {
			break
		}
		if peer = previous; !l.TrustsProxy(peer) {
			break
		}
	}
	return peer
}

// TrustsProxy reports whether an IP is that of a trusted proxy (SERVICE_TRUSTED_PROXIES).
func (l *Limiter) TrustsProxy(ip netip.Addr) bool {
	return l != nil && slices.ContainsFunc(l.proxies, func(proxy netip.Prefix) bool { return proxy.Contains(ip) })
}

// ClientPrefix returns the prefix that counts as one client: the IP, or its /64 for IPv6.
func ClientPrefix(ip netip.Addr) netip.Prefix {
	ip = ip.Unmap().WithZone("")
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	prefix, _ := ip.Prefix(bits) // the zero prefix for an invalid IP: all of them count as one client
	return prefix
}

// parseAddr parses an IP, with a port or without. It returns the zero Addr for other texts.
func parseAddr(text string) netip.Addr {
	if withPort, err := netip.ParseAddrPort(text); err == nil {
		return withPort.Addr().Unmap().WithZone("")
	}
	ip, err := netip.ParseAddr(strings.Trim(text, "[]"))
	if err != nil {
		return netip.Addr{}
	}
	return ip.Unmap().WithZone("")
}
