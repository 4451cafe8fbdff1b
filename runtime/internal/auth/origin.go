package auth

import (
	"net/http"
	"net/url"
	"strings"

	"mediastack.dev/runtime/fault"
)

// checkOrigin rejects a request of a page whose origin may not call for the account. A preflight names
// no account, so that it is answered for the origins of all. Pages of the service itself may always call.
// An origin that may call for no account passes if the account has no list: no browser has sent the
// request, because the preflight was rejected.
func (a *Authenticator) checkOrigin(r *http.Request, list []string) error {
	sent := r.Header.Get("Origin")
	if sent == "" || a.origins == nil || isSameHost(sent, r.Host) || list == nil && !a.origins.Allows(sent) {
		return nil
	}
	if err := a.origins.CheckAccount(list, sent); err != nil {
		return fault.New(fault.Forbidden, "pages of the origin %q may not call this account: %s", sent, err)
	}
	return nil
}

// isSameHost reports whether an origin is that of the host to which a request was sent. The scheme
// is unknown behind a proxy that terminates TLS.
func isSameHost(text, host string) bool {
	parsed, err := url.Parse(text)
	return err == nil && parsed.Host != "" && strings.EqualFold(parsed.Host, host)
}
