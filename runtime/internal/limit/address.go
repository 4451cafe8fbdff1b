package limit

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// parseProxies reads CIDRs; an address alone is one host.
func parseProxies(texts []string) ([]netip.Prefix, error) {
	var proxies []netip.Prefix
	for _, text := range texts {
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			address, wrong := netip.ParseAddr(text)
			if wrong != nil {
				return nil, fmt.Errorf("SERVICE_TRUSTED_PROXIES must hold addresses like 10.0.0.0/8, not %q", text)
			}
			prefix = netip.PrefixFrom(address, address.BitLen())
		}
		proxies = append(proxies, prefix.Masked())
	}
	return proxies, nil
}

// Client returns the address that a request comes from: the peer's, or, as long as the
// peer is a trusted proxy, the one before it in X-Forwarded-For. What stands left of
// an address that is not trusted is that client's invention. The field Forwarded is
// not read: a proxy that writes the one field hands the other on as it came.
func (l *Limiter) Client(r *http.Request) netip.Addr {
	peer := hostOf(r.RemoteAddr)
	if l == nil || !peer.IsValid() {
		return peer
	}
	forwarded := r.Header.Values("X-Forwarded-For")
	if !l.Trusts(peer) {
		if len(forwarded) > 0 {
			l.warned.Do(func() {
				l.log.WarnContext(r.Context(), "a peer that SERVICE_TRUSTED_PROXIES does not name sends X-Forwarded-For: limits by address take it for one client", "peer", peer)
			})
		}
		return peer
	}
	steps := strings.Split(strings.Join(forwarded, ","), ",")
	for _, step := range slices.Backward(steps) {
		before := hostOf(strings.TrimSpace(step))
		if !before.IsValid() {
			break
		}
		if peer = before; !l.Trusts(peer) {
			break
		}
	}
	return peer
}

// Trusts reports whether an address is that of a proxy in front (SERVICE_TRUSTED_PROXIES).
func (l *Limiter) Trusts(address netip.Addr) bool {
	return l != nil && slices.ContainsFunc(l.proxies, func(proxy netip.Prefix) bool { return proxy.Contains(address) })
}

// hostOf reads an address, with a port or without.
func hostOf(text string) netip.Addr {
	if with, err := netip.ParseAddrPort(text); err == nil {
		return with.Addr().Unmap().WithZone("")
	}
	address, err := netip.ParseAddr(strings.Trim(text, "[]"))
	if err != nil {
		return netip.Addr{}
	}
	return address.Unmap().WithZone("")
}
