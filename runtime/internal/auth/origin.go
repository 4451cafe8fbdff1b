package auth

import (
	"net/http"
	"net/url"
	"strings"

	"mediastack.dev/runtime/fault"
)

// checkOrigin rejects a request of a page whose origin the account's own list does not contain.
// For an account without a list the browser decides, as the installation's list says: the page
// cannot read the response. A preflight names no account, so that neither is known before. Pages
// of the service itself may always call.
func (a *Authenticator) checkOrigin(w http.ResponseWriter, r *http.Request, list []string) error {
	sent := r.Header.Get("Origin")
	if sent == "" || a.origins == nil || isSameHost(sent, r.Host) || a.origins.AllowsFor(list, sent) {
		return nil
	}
	if list == nil {
		w.Header().Del("Access-Control-Allow-Origin")
		return nil
	}
	return fault.New(fault.Forbidden, "pages of the origin %q may not call this account: add it to spec.cors.origins of the MediaAccount", sent)
}

// isSameHost reports whether an origin is that of the host to which a request was sent. The scheme
// is unknown behind a proxy that terminates TLS.
func isSameHost(text, host string) bool {
	parsed, err := url.Parse(text)
	return err == nil && parsed.Host != "" && strings.EqualFold(parsed.Host, host)
}
