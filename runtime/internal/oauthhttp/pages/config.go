package pages

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Config says how the pages look. The tags are flag and environment names.
type Config struct {
	Name   string `name:"brand-name" env:"SERVICE_BRAND_NAME" default:"Media storage" help:"Name of the service on the login pages and in mail."`
	Logo   string `name:"brand-logo" env:"SERVICE_BRAND_LOGO" help:"Path of a PNG, SVG or WebP file of at most 256 KiB for the login pages, shown 40 pixels high, on light and on dark ground. Without it a plain mark and the name are shown."`
	Colour string `name:"brand-colour" env:"SERVICE_BRAND_COLOUR" default:"#2456d6" help:"Colour of buttons and links on the login pages, as #rrggbb; lightened or darkened where it could not be read."`
}

// maxName is the longest name of a service, in characters.
const maxName = 60

// Validate checks the form of the settings; New reads the logo.
func (c Config) Validate() error {
	if strings.TrimSpace(c.Name) == "" || utf8.RuneCountInString(c.Name) > maxName || !utf8.ValidString(c.Name) ||
		strings.ContainsFunc(c.Name, func(r rune) bool { return !unicode.IsGraphic(r) }) {
		return fmt.Errorf("SERVICE_BRAND_NAME must be 1 to %d characters that can be seen, not %q", maxName, c.Name)
	}
	if _, err := parseColour(c.Colour); err != nil {
		return fmt.Errorf("SERVICE_BRAND_COLOUR %w", err)
	}
	return nil
}
