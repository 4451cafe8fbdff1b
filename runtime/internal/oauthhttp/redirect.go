package oauthhttp

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"mediastack.dev/runtime/oauth"
)

// Bounds of what an application says of itself.
const (
	maxRedirectURIs      = 10
	maxRedirectURILength = 1024
	maxClientName        = 100 // characters
)

// hostPattern is a host of the web as it may stand in a Content-Security-Policy, where other
// characters would say something of their own.
var hostPattern = regexp.MustCompile(`^([0-9A-Za-z.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?$`)

// isWellFormedURI reports whether a text can be a redirect URI at all: absolute, without
// user information or fragment, in plain ASCII so that nobody is fooled by its look.
func isWellFormedURI(text string, uri *url.URL) bool {
	if len(text) > maxRedirectURILength || uri.Scheme == "" || uri.Opaque != "" || uri.User != nil || uri.Fragment != "" || strings.Contains(text, "#") {
		return false
	}
	// The host is looked at as well: it is decoded, and can hold what the text does not.
	for _, c := range []byte(text + uri.Host) {
		if c <= ' ' || c > '~' || strings.IndexByte("\"'<>\\`{}|", c) >= 0 {
			return false
		}
	}
	return uri.Scheme != "http" && uri.Scheme != "https" || hostPattern.MatchString(uri.Host)
}

// redirectAllowed reports whether applications may have this redirect URI: https, http to
// this computer only, or one of the configuration's.
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

// isLoopback reports whether a URI leads to the person's own computer (RFC 8252, section 7.3).
func isLoopback(uri *url.URL) bool {
	return uri.Scheme == "http" && slices.Contains([]string{"localhost", "127.0.0.1", "::1"}, uri.Hostname())
}

// matchRedirect reports whether a redirect URI is one of those registered: byte by byte,
// except for the port of this computer, which programs learn when they start.
func matchRedirect(registered []string, sent string) bool {
	if slices.Contains(registered, sent) {
		return true
	}
	uri, err := url.Parse(sent)
	if err != nil || !isWellFormedURI(sent, uri) || !isLoopback(uri) {
		return false
	}
	return slices.ContainsFunc(registered, func(text string) bool {
		one, err := url.Parse(text)
		return err == nil && isLoopback(one) && withoutPort(one) == withoutPort(uri)
	})
}

func withoutPort(uri *url.URL) string {
	bare := *uri
	bare.Host = uri.Hostname()
	return bare.String()
}

// isTrusted reports whether the configuration vouches for where an answer goes: by its
// host, by its own scheme, or, for programs on this computer, by the host whose
// document describes the application.
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
	return true // one of the configuration's
}

// isTrustedHost reports whether the configuration vouches for an address of the web.
func (a *API) isTrustedHost(uri *url.URL) bool {
	return uri.Scheme == "https" && uri.Port() == "" && slices.Contains(a.cfg.TrustedHosts, strings.ToLower(uri.Hostname()))
}

// trustedWebsite returns an application's website if the configuration vouches for it: that it
// vouches for where the answer goes does not make any page of the application's good.
func (a *API) trustedWebsite(client oauth.Client) string {
	if uri, err := url.Parse(client.Website); err == nil && a.isTrustedHost(uri) {
		return client.Website
	}
	return ""
}

// formActionSource is where a form may lead besides to us, for the Content-Security-Policy:
// Chromium holds the redirect after a form to it.
func formActionSource(redirect string) string {
	uri, err := url.Parse(redirect)
	switch {
	case err != nil, uri.Scheme != "http" && uri.Scheme != "https": // a page leads there
		return ""
	case strings.Contains(uri.Host, "["): // there is no form for IPv6
		return " " + uri.Scheme + ":"
	}
	return " " + uri.Scheme + "://" + uri.Host
}
