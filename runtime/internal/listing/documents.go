package listing

import (
	"mediastack.dev/runtime/internal/api"
)

// The schemas that the documents follow, and their media types.
const (
	cardSchema   = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
	serverSchema = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
	cardType     = "application/mcp-server-card+json"
	catalogType  = "application/ai-catalog+json"
)

// Icon is a picture that clients show for the service.
type Icon struct {
	URL  string `json:"src"`
	Type string `json:"mimeType,omitempty"`
	// Sizes are as in HTML: any, or 64x64.
	Sizes []string `json:"sizes,omitempty"`
}

// header is a request header that a client has to ask its user for.
type header struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Required    bool   `json:"isRequired"`
	Secret      bool   `json:"isSecret"`
}

// remote is the endpoint.
type remote struct {
	Type     string   `json:"type"`
	URL      string   `json:"url"`
	Headers  []header `json:"headers,omitempty"`
	Versions []string `json:"supportedProtocolVersions,omitempty"`
}

// document is a server card, or a server.json.
type document struct {
	Schema      string   `json:"$schema"`
	Name        string   `json:"name"`
	Title       string   `json:"title,omitempty"`
	Description string   `json:"description"`
	Version     string   `json:"version"`
	Website     string   `json:"websiteUrl,omitempty"`
	Icons       []Icon   `json:"icons,omitempty"`
	Remotes     []remote `json:"remotes"`
}

// catalog lists the server cards of a host: one.
type catalog struct {
	Version string         `json:"specVersion"`
	Entries []catalogEntry `json:"entries"`
}

type catalogEntry struct {
	ID   string `json:"identifier"`
	Type string `json:"type"`
	URL  string `json:"url"`
}

// base returns what both documents have.
func (l *Listing) base(schema string) document {
	d := document{Schema: schema, Name: l.cfg.name(), Title: l.cfg.Title, Description: l.cfg.Description, Version: l.cfg.Version, Website: l.cfg.Website, Icons: l.deps.Icons,
		Remotes: []remote{{Type: "streamable-http", URL: l.root + api.ToolsRoute}}}
	if l.deps.KeyHeader != "" {
		d.Remotes[0].Headers = []header{{Name: l.deps.KeyHeader, Description: "An API key of an app. Its administrator has it.", Required: true, Secret: true}}
	}
	return d
}

// Card returns the server card. It lists no tools: which ones there are depends on the account.
func (l *Listing) card() document {
	d := l.base(cardSchema)
	d.Remotes[0].Versions = l.deps.ProtocolVersions
	return d
}

// ServerJSON returns the document for a registry. A registry takes icons by https only.
func (l *Listing) ServerJSON() (any, error) {
	if err := l.cfg.CheckPublic(); err != nil {
		return nil, err
	}
	return l.base(serverSchema), nil
}

func (l *Listing) catalog() catalog {
	return catalog{Version: "1.0", Entries: []catalogEntry{{ID: "urn:air:" + l.cfg.host() + ":mcp:media-storage", Type: cardType, URL: l.root + api.ServerCardRoute}}}
}
