package listing

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Config is what directories show. The tags are flag and environment names; the program sets the fields that have none.
type Config struct {
	Enabled     bool   `name:"listing" env:"SERVICE_LISTING" default:"true" negatable:"" help:"Serve the server card and the catalog, by which MCP clients and directories find the service. They name no tenant."`
	Name        string `name:"listing-name" env:"SERVICE_LISTING_NAME" help:"Name in directories, in reverse-DNS form: com.example/media. Default: the reversed host of SERVICE_BASE_URL, with /media-storage."`
	Description string `name:"listing-description" env:"SERVICE_LISTING_DESCRIPTION" default:"Store, find, organize and publish images, videos, audio and documents." help:"What directories say of the service, in 1 to 100 characters."`
	Challenge   string `name:"openai-apps-challenge" env:"SERVICE_OPENAI_APPS_CHALLENGE" help:"Token that OpenAI issues to verify the domain of an app: served as text at /.well-known/openai-apps-challenge."`

	// Title is the display name, Website the page about the service; both are those of the brand.
	Title   string `kong:"-"`
	Website string `kong:"-"`
	// Version is that of the service.
	Version string `kong:"-"`
	// BaseURL is the URL by which clients reach the service.
	BaseURL string `kong:"-"`
}

// The bounds of both schemas.
const (
	maxName        = 200
	maxDescription = 100
	maxChallenge   = 512
)

var namePattern = regexp.MustCompile(`^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$`)

// Validate checks the settings.
func (c Config) Validate() error {
	if c.Name != "" && (len(c.Name) < 3 || len(c.Name) > maxName || !namePattern.MatchString(c.Name)) {
		return fmt.Errorf("SERVICE_LISTING_NAME must be a name like com.example/media, of at most %d characters, not %q", maxName, c.Name)
	}
	if n := utf8.RuneCountInString(c.Description); n < 1 || n > maxDescription || strings.TrimSpace(c.Description) == "" || hasControl(c.Description) {
		return fmt.Errorf("SERVICE_LISTING_DESCRIPTION must be 1 to %d visible characters, not %q", maxDescription, c.Description)
	}
	if len(c.Challenge) > maxChallenge || strings.ContainsFunc(c.Challenge, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("SERVICE_OPENAI_APPS_CHALLENGE must be a token of at most %d visible ASCII characters", maxChallenge)
	}
	return nil
}

func hasControl(text string) bool {
	return !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) })
}

// name returns the name, or the one that follows from the host of the base URL.
func (c Config) name() string {
	if c.Name != "" {
		return c.Name
	}
	return ReversedHost(c.host()) + "/media-storage"
}

func (c Config) host() string {
	base, err := url.Parse(c.BaseURL)
	if err != nil {
		return ""
	}
	return base.Hostname()
}

// ReversedHost returns a host as a namespace: media.example.com as com.example.media. A host that is an IP address has
// no namespace; it is "local", which nobody can publish.
func ReversedHost(host string) string {
	host = strings.ToLower(strings.TrimRight(host, "."))
	if _, err := netip.ParseAddr(host); err == nil || host == "" || !regexp.MustCompile(`^[a-z0-9.-]+$`).MatchString(host) {
		return "local"
	}
	labels := strings.Split(host, ".")
	slices.Reverse(labels)
	return strings.Join(labels, ".")
}

// ErrNotPublic is the reason why there is no server.json: a registry lists what everyone can reach.
var ErrNotPublic = errors.New("SERVICE_BASE_URL must be an https URL with a host name: a registry lists servers that everyone can reach")

// CheckPublic returns an error if the base URL is none that a registry takes.
func (c Config) CheckPublic() error {
	base, err := url.Parse(c.BaseURL)
	if err != nil || base.Scheme != "https" || ReversedHost(base.Hostname()) == "local" || !strings.Contains(base.Hostname(), ".") {
		return ErrNotPublic
	}
	return nil
}
