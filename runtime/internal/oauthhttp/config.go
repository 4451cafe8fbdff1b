package oauthhttp

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Config restricts the clients of the authorization server. The tags are flag and environment names.
type Config struct {
	AllowedRedirectURIs     []string `name:"oauth-allowed-redirect-uris" env:"SERVICE_OAUTH_ALLOWED_REDIRECT_URIS" default:"cursor://anysphere.cursor-mcp/oauth/callback" help:"Complete redirect URIs with custom schemes (app://...) that clients may use. https and loopback URIs need no entry."`
	TrustedHosts            []string `name:"oauth-trusted-hosts" env:"SERVICE_OAUTH_TRUSTED_HOSTS" default:"claude.ai,claude.com,chatgpt.com,vscode.dev" help:"Hosts of redirect URIs for which the consent page shows no warning."`
	ClientMetadataDocuments bool     `name:"oauth-client-metadata-documents" env:"SERVICE_OAUTH_CLIENT_METADATA_DOCUMENTS" default:"true" negatable:"" help:"Accept a public https URL as client_id, and fetch the Client ID Metadata Document from there. Without it Claude, Claude Code and VS Code register at /oauth/register instead."`
}

// browserSchemes are schemes that a browser handles itself. A redirect page links to other
// schemes, so none of these may be allowed.
var browserSchemes = []string{"", "http", "https", "javascript", "vbscript", "data", "blob", "file", "filesystem", "about", "view-source", "ws", "wss"}

// Validate checks the form of the entries.
func (c Config) Validate() error {
	for _, text := range c.AllowedRedirectURIs {
		uri, err := url.Parse(text)
		if text != "" && (err != nil || slices.Contains(browserSchemes, uri.Scheme) || !isWellFormedURI(text, uri)) {
			return fmt.Errorf("SERVICE_OAUTH_ALLOWED_REDIRECT_URIS must hold URIs like app://host/callback, not %q", text)
		}
	}
	for _, host := range c.TrustedHosts {
		if host != "" && (strings.ContainsAny(host, "/:@* ") || host != strings.ToLower(host)) {
			return fmt.Errorf("SERVICE_OAUTH_TRUSTED_HOSTS must hold names like claude.ai, not %q", host)
		}
	}
	return nil
}
