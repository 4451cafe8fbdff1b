package main

import (
	"encoding/json"
	"strings"

	"mediastack.dev/runtime/internal/listing"
	"mediastack.dev/runtime/internal/mcp"
	"mediastack.dev/runtime/internal/oauthhttp/pages"
)

// iconsOf returns the icons of the service. Its pages serve them, so without logins there are none.
func iconsOf(baseURL string, shown *pages.Pages) []listing.Icon {
	if shown == nil {
		return nil
	}
	path, kind := shown.Picture()
	icon := listing.Icon{URL: strings.TrimRight(baseURL, "/") + path, Type: kind}
	if kind == "image/svg+xml" {
		icon.Sizes = []string{"any"}
	}
	return []listing.Icon{icon}
}

// newListing returns what directories read. shown is nil where nobody can log in.
func newListing(c *serveCommand, shown *pages.Pages) (*listing.Listing, error) {
	cfg := c.Listing
	cfg.BaseURL, cfg.Title, cfg.Website, cfg.Version = c.Server.BaseURL, c.Pages.Name, c.Pages.Website, versionText()
	deps := listing.Deps{ProtocolVersions: mcp.ProtocolVersions(), Icons: iconsOf(c.Server.BaseURL, shown)}
	if !c.Mail.Enabled() {
		deps.KeyHeader = "x-" + c.Server.Brand + "-apikey"
	}
	return listing.New(cfg, deps)
}

// serverJSONCommand prints the document for a registry. It has the settings of serve, so that it says what serve does.
type serverJSONCommand struct {
	Settings serveCommand `embed:""`
}

// Run prints the document. It reaches no server.
func (c *serverJSONCommand) Run(io stdio) error {
	var shown *pages.Pages
	if c.Settings.Mail.Enabled() {
		var err error
		if shown, err = pages.New(c.Settings.Pages); err != nil {
			return usageError{err}
		}
	}
	found, err := newListing(&c.Settings, shown)
	if err != nil {
		return usageError{err}
	}
	document, err := found.ServerJSON()
	if err != nil {
		return usageError{err}
	}
	encoder := json.NewEncoder(io.out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(document)
}
