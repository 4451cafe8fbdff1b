package oauthhttp

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"mediastack.dev/runtime/oauth"
)

// maxRedirectURILength bounds a redirect URI, in bytes.
const maxRedirectURILength = 1024

// hostPattern matches a host that is safe in a Content-Security-Policy: other characters
// could add directives.
var hostPattern = regexp.MustCompile(`^([0-9A-Za-z.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?$`)

// isWellFormedURI reports whether text can be a redirect URI: absolute, without user
// information or fragment, and in printable ASCII, which excludes homographs.
func isWellFormedURI(text string, uri *url.URL) bool {
	if len(text) > maxRedirectURILength || uri.Scheme == "" || uri.Opaque != "" || uri.User != nil || uri.Fragment != "" || strings.Contains(text, "#") {
		return false
	}
	// The host is percent-decoded and can contain characters that the text does not.
	for _, c := range []byte(text + uri.Host) {
		if c <= ' ' || c > '~' || strings.IndexByte("\"'<>\\`{}|", c) >= 0 {
			return false
		}
	}
	return uri.Scheme != "http" && uri.Scheme != "https" || hostPattern.MatchString(uri.Host)
}

// redirectAllowed reports whether clients may use this redirect URI: https, http with a
// loopback host, or one of Config.AllowedRedirectURIs.
func (a *API) redirectAllowed(text string) bool {
	uri, err := url.Parse(text)
	if err != nil || !isWellFormedURI(text, uri) {
		return false
	}
	switch uri.Scheme {
	case "https":
		return uri.Hostname() != ""
	case "http":
		return isLoopback(uri)
	}
	return slices.Contains(a.cfg.AllowedRedirectURIs, text)
}

// isLoopback reports whether a URI leads to the user's own computer (RFC 8252, section 7.3).
func isLoopback(uri *url.URL) bool {
	return uri.Scheme == "http" && slices.Contains([]string{"localhost", "127.0.0.1", "::1"}, uri.Hostname())
}

// matchRedirect reports whether a redirect URI is registered. It compares bytes, except for
// the port of a loopback URI, which programs choose when they start.
func matchRedirect(registered []string, redirectURI string) bool {
	if slices.Contains(registered, redirectURI) {
		return true
	}
	uri, err := url.Parse(redirectURI)
	if err != nil || !isWellFormedURI(redirectURI, uri) || !isLoopback(uri) {
		return false
	}
	return slices.ContainsFunc(registered, func(text string) bool {
		candidate, err := url.Parse(text)
		return err == nil && isLoopback(candidate) && withoutPort(candidate) == withoutPort(uri)
	})
}

func withoutPort(uri *url.URL) string {
	bare := *uri
	bare.Host = uri.Hostname()
	return bare.String()
}

// isTrusted reports whether the configuration trusts the target of a redirect URI: by its
// host, by its custom scheme, or, for a loopback URI, by the host of the client's metadata
// document.
func (a *API) isTrusted(clientID, redirect string) bool {
	uri, err := url.Parse(redirect)
	if err != nil {
		return false
	}
	switch {
	case uri.Scheme == "https":
		return a.isTrustedHost(uri)
	case isLoopback(uri):
		client, err := url.Parse(clientID)
		return err == nil && client.Scheme == "https" && slices.Contains(a.cfg.TrustedHosts, client.Hostname())
	}
	return true // one of Config.AllowedRedirectURIs
}

// isTrustedHost reports whether an https URL leads to one of Config.TrustedHosts.
func (a *API) isTrustedHost(uri *url.URL) bool {
	return uri.Scheme == "https" && uri.Port() == "" && slices.Contains(a.cfg.TrustedHosts, strings.ToLower(uri.Hostname()))
}

// trustedWebsite returns the client's website if its host is trusted. A trusted redirect host
// does not make the website trusted.
func (a *API) trustedWebsite(client oauth.Client) string {
	if uri, err := url.Parse(client.Website); err == nil && a.isTrustedHost(uri) {
		return client.Website
	}
	return ""
}

// originSource returns the origin of a URI as a source for the Content-Security-Policy. Chromium
// applies the directive form-action to redirects after a form as well, and img-src is applied to the
// redirects of an image.
func originSource(text string) string {
	uri, err := url.Parse(text)
	switch {
	case err != nil, uri.Scheme != "http" && uri.Scheme != "https": // a redirect page leads there
		return ""
	case strings.Contains(uri.Host, "["): // directives have no syntax for IPv6 hosts
		return " " + uri.Scheme + ":"
	}
	return " " + uri.Scheme + "://" + uri.Host
}
