package main

import (
	"encoding/json"
	"strings"

	"mediastack.dev/runtime/internal/listing"
	"mediastack.dev/runtime/internal/mail"
	"mediastack.dev/runtime/internal/mcp"
	"mediastack.dev/runtime/internal/oauthhttp/pages"
	"mediastack.dev/runtime/internal/server"
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
func newListing(cfg listing.Config, of server.Config, brand pages.Config, shown *pages.Pages) (*listing.Listing, error) {
	cfg.BaseURL, cfg.Title, cfg.Website, cfg.Version = of.BaseURL, brand.Name, brand.Website, versionText()
	deps := listing.Deps{ProtocolVersions: mcp.ProtocolVersions(), Icons: iconsOf(of.BaseURL, shown)}
	if shown == nil {
		deps.KeyHeader = "x-" + of.Brand + "-apikey"
	}
	return listing.New(cfg, deps)
}

// serverJSONCommand prints the document for a registry. It has the settings of serve that the document follows from.
type serverJSONCommand struct {
	Server  server.Config  `embed:"" group:"Server"`
	Listing listing.Config `embed:"" group:"Server"`
	Pages   pages.Config   `embed:"" group:"Login"`
	Mail    mail.Config    `embed:"" group:"Login"`
}

// Run prints the document. It reaches no server.
func (c *serverJSONCommand) Run(io stdio) error {
	var shown *pages.Pages
	if c.Mail.Enabled() {
		var err error
		if shown, err = pages.New(c.Pages); err != nil {
			return usageError{err}
		}
	}
	found, err := newListing(c.Listing, c.Server, c.Pages, shown)
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
