package pages

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Config holds the branding of the pages. The tags are flag and environment names.
type Config struct {
	Name  string `name:"brand-name" env:"SERVICE_BRAND_NAME" default:"Media storage" help:"Name of the service on the login pages and in mail."`
	Logo  string `name:"brand-logo" env:"SERVICE_BRAND_LOGO" help:"Path of a PNG, SVG or WebP file of at most 256 KiB for the login pages, 40 pixels high, on light and dark backgrounds. Without it the pages show a generic icon and the name."`
	Color string `name:"brand-color" env:"SERVICE_BRAND_COLOR" default:"#2456d6" help:"Color of buttons and links on the login pages, as #rrggbb; lightened or darkened where its contrast is too low."`
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
	return nil
}
