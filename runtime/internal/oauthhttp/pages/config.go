package pages

import (
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"mediastack.dev/runtime/account"
)

// Config holds the branding of the pages. The tags are flag and environment names.
type Config struct {
	Name  string `name:"brand-name" env:"SERVICE_BRAND_NAME" default:"Media storage" help:"Name of the service on the login pages and in mail."`
	Logo  string `name:"brand-logo" env:"SERVICE_BRAND_LOGO" help:"Path of a PNG, SVG or WebP file of at most 256 KiB for the login pages, 40 pixels high, on light and dark backgrounds. Without it the pages show a generic icon and the name."`
	Color string `name:"brand-color" env:"SERVICE_BRAND_COLOR" default:"#2456d6" help:"Color of buttons and links on the login pages, as #rrggbb; lightened or darkened where its contrast is too low."`

	Website string `name:"brand-website" env:"SERVICE_BRAND_WEBSITE" help:"URL of a page about the service, which MCP clients and directories show. Default: SERVICE_BASE_URL."`
	Support string `name:"support-url" env:"SERVICE_SUPPORT_URL" help:"URL at which users get help, or a mailto: address: a link on the login pages."`
	Privacy string `name:"privacy-url" env:"SERVICE_PRIVACY_URL" help:"URL of the privacy policy: a link on the login pages, and op_policy_uri in the OAuth metadata."`
	Terms   string `name:"terms-url" env:"SERVICE_TERMS_URL" help:"URL of the terms of service: a link on the login pages, and op_tos_uri in the OAuth metadata."`
}

// maxName bounds the brand name, in characters.
const maxName = 60

// Validate checks the form of the settings; New reads the logo.
func (c Config) Validate() error {
	if strings.TrimSpace(c.Name) == "" || utf8.RuneCountInString(c.Name) > maxName || !utf8.ValidString(c.Name) ||
		strings.ContainsFunc(c.Name, func(r rune) bool { return !unicode.IsGraphic(r) }) {
		return fmt.Errorf("SERVICE_BRAND_NAME must be 1 to %d visible characters, not %q", maxName, c.Name)
	}
	if _, err := parseColor(c.Color); err != nil {
		return fmt.Errorf("SERVICE_BRAND_COLOR %w", err)
	}
	for _, link := range []struct{ name, text string }{{"SERVICE_BRAND_WEBSITE", c.Website}, {"SERVICE_SUPPORT_URL", c.Support}, {"SERVICE_PRIVACY_URL", c.Privacy}, {"SERVICE_TERMS_URL", c.Terms}} {
		if link.text == "" || isWebPage(link.text) || link.name == "SERVICE_SUPPORT_URL" && isMailto(link.text) {
			continue
		}
		return fmt.Errorf("%s must be a URL like https://example.org/page, not %q", link.name, link.text)
	}
	return nil
}

// isWebPage reports whether a text is the URL of a page. Without https only those of a test are.
func isWebPage(text string) bool {
	page, err := url.Parse(text)
	return err == nil && (page.Scheme == "https" || page.Scheme == "http") && page.Host != "" && page.User == nil && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

// isMailto reports whether a text is the URL of one e-mail address, without a subject or text.
func isMailto(text string) bool {
	address, ok := strings.CutPrefix(text, "mailto:")
	_, isAddress := account.ParseEmail(address)
	return ok && isAddress && !strings.ContainsAny(address, "?%#")
}
