package cdnclient

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"mediastack.dev/runtime/webhook"
	"mediastack.dev/runtime/weburl"
)

// Config says which CDN is in front, and how it takes purges. The tags are flag and environment names.
type Config struct {
	Purger  string        `name:"cdn-purge" env:"SERVICE_CDN_PURGE" enum:",surrogate,cloudflare,fastly,webhook" default:"" help:"How the CDN in front takes purges: surrogate (PURGE with Surrogate-Key, such as Varnish), cloudflare, fastly, or webhook; empty = there is no CDN, or one without purges."`
	URLs    []string      `name:"cdn-purge-url" env:"SERVICE_CDN_PURGE_URL" help:"Address that takes purges: the whole URL of the API, or with surrogate those of all edges, separated by commas. A purge is done when every one has accepted it."`
	Key     string        `name:"cdn-purge-key" env:"SERVICE_CDN_PURGE_KEY" help:"Key of purges: the API token of cloudflare or fastly, the whsec_ secret of webhook, the bearer token of surrogate if its edges want one (prefer the environment over the flag)."`
	Timeout time.Duration `name:"cdn-purge-timeout" env:"SERVICE_CDN_PURGE_TIMEOUT" default:"10s" help:"Time for one request that purges, from 1s to 1m."`
	Header  string        `name:"cdn-tag-header" env:"SERVICE_CDN_TAG_HEADER" help:"Header with the tags of a file. By default Surrogate-Key for surrogate and fastly, and Cache-Tag for the others."`
}

// Values of Config.Purger.
const (
	surrogate  = "surrogate"
	cloudflare = "cloudflare"
	fastly     = "fastly"
	byWebhook  = "webhook"
)

const (
	cacheTag     = "Cache-Tag"
	surrogateKey = "Surrogate-Key"
	// maxURLs is how many edges a purge is sent to.
	maxURLs = 32
	// maxURL and maxKey are lengths, in bytes.
	maxURL = 2048
	maxKey = 4096
	// maxHeaderName is the length of the name of a header.
	maxHeaderName = 64
)

// Enabled reports whether there is a purger.
func (c Config) Enabled() bool { return c.Purger != "" }

// TagHeader returns the name of the header that has the tags of a file, and what separates them: a comma in Cache-Tag, as Cloudflare wants
// it (https://developers.cloudflare.com/cache/how-to/purge-cache/purge-by-tags/), else a space, as Fastly does
// (https://www.fastly.com/documentation/reference/http/http-headers/Surrogate-Key/).
func (c Config) TagHeader() (name, separator string) {
	name = http.CanonicalHeaderKey(c.Header)
	if name == "" {
		name = cacheTag
		if c.Purger == surrogate || c.Purger == fastly {
			name = surrogateKey
		}
	}
	if name == cacheTag {
		return name, ","
	}
	return name, " "
}

// Validate checks the settings. Its errors quote neither the key nor a URL, which may have a key in it.
func (c Config) Validate() error {
	if c.Timeout < time.Second || c.Timeout > time.Minute {
		return fmt.Errorf("SERVICE_CDN_PURGE_TIMEOUT must be from 1s to 1m, not %s", c.Timeout)
	}
	if !c.Enabled() {
		return c.validateUnused()
	}
	if !slices.Contains([]string{surrogate, cloudflare, fastly, byWebhook}, c.Purger) {
		return fmt.Errorf("SERVICE_CDN_PURGE must be surrogate, cloudflare, fastly or webhook, or empty, not %q", c.Purger)
	}
	if err := c.validateURLs(); err != nil {
		return err
	}
	if err := c.validateKey(); err != nil {
		return err
	}
	return c.validateHeader()
}

// validateUnused rejects settings without a purger, which would have no effect: its name was forgotten. The key may stay in its Secret.
func (c Config) validateUnused() error {
	for _, setting := range []struct {
		name string
		set  bool
	}{{"SERVICE_CDN_PURGE_URL", len(c.URLs) > 0}, {"SERVICE_CDN_TAG_HEADER", c.Header != ""}} {
		if setting.set {
			return fmt.Errorf("%s is set, but SERVICE_CDN_PURGE is not", setting.name)
		}
	}
	return nil
}

func (c Config) validateURLs() error {
	switch {
	case len(c.URLs) == 0:
		return errors.New("SERVICE_CDN_PURGE_URL must be set when SERVICE_CDN_PURGE is")
	case len(c.URLs) > 1 && c.Purger != surrogate:
		return fmt.Errorf("SERVICE_CDN_PURGE_URL must be one URL, not %d: only SERVICE_CDN_PURGE=surrogate has several", len(c.URLs))
	case len(c.URLs) > maxURLs:
		return fmt.Errorf("SERVICE_CDN_PURGE_URL must be at most %d URLs, not %d", maxURLs, len(c.URLs))
	}
	for i, text := range c.URLs {
		which := "SERVICE_CDN_PURGE_URL"
		if len(c.URLs) > 1 {
			which = fmt.Sprintf("URL %d of SERVICE_CDN_PURGE_URL", i+1)
		}
		if slices.Contains(c.URLs[:i], text) {
			return fmt.Errorf("%s is there twice", which)
		}
		if err := c.validateURL(text); err != nil {
			return fmt.Errorf("%s %w", which, err)
		}
	}
	return nil
}

func (c Config) validateURL(text string) error {
	if len(text) > maxURL || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f }) || strings.Contains(text, `\`) {
		return fmt.Errorf("must have at most %d bytes in ASCII, without white space", maxURL)
	}
	target, err := url.Parse(text)
	if err != nil {
		return errors.New("is malformed")
	}
	switch {
	case target.Scheme != "https" && target.Scheme != "http":
		return errors.New("must begin with https:// or http://")
	case target.User != nil:
		return errors.New("must not have a user name or password: set SERVICE_CDN_PURGE_KEY")
	case target.Opaque != "" || !weburl.IsHost(target.Hostname()) || weburl.PortOf(target) == 0:
		return errors.New("must have a host, and a port from 1 to 65535 if any")
	case strings.Contains(text, "#"):
		return errors.New("must not have a fragment (#)")
	case target.Scheme == "http" && (c.Purger == cloudflare || c.Purger == fastly) && !isLoopback(target.Hostname()):
		return errors.New("must begin with https://, since the key is sent to it")
	}
	return nil
}

// isLoopback reports whether a host is this machine.
func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.Unmap().IsLoopback()
}

func (c Config) validateKey() error {
	if c.Key == "" {
		if c.Purger == surrogate {
			return nil
		}
		return fmt.Errorf("SERVICE_CDN_PURGE_KEY must be set when SERVICE_CDN_PURGE is %s", c.Purger)
	}
	if len(c.Key) > maxKey || strings.ContainsFunc(c.Key, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return fmt.Errorf("SERVICE_CDN_PURGE_KEY must be at most %d bytes in ASCII, without white space or an end of line", maxKey)
	}
	if c.Purger == byWebhook {
		if _, err := webhook.ParseSecret(c.Key); err != nil {
			return fmt.Errorf("SERVICE_CDN_PURGE_KEY: %w", err)
		}
	}
	return nil
}

// reserved are headers that the answer with a file has for another purpose, or that frame it.
var reserved = []string{
	"Accept-Ranges", "Age", "Allow", "Cache-Control", "Cdn-Cache-Control", "Connection", "Date", "Etag", "Expires", "Keep-Alive", "Last-Modified", "Link",
	"Location", "Pragma", "Retry-After", "Server", "Set-Cookie", "Strict-Transport-Security", "Surrogate-Control", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
	"Vary", "Via", "Warning", "Www-Authenticate", "X-Picture-Substitute", "X-Request-Id",
}

func (c Config) validateHeader() error {
	if c.Header == "" {
		return nil
	}
	name := http.CanonicalHeaderKey(c.Header)
	isToken := !strings.ContainsFunc(name, isOther)
	if !isToken || len(name) > maxHeaderName {
		return fmt.Errorf("SERVICE_CDN_TAG_HEADER must be the name of a header: at most %d letters, digits, - or _", maxHeaderName)
	}
	for _, prefix := range []string{"Content-", "Access-Control-", "Cross-Origin-", "Ratelimit"} {
		if strings.HasPrefix(name, prefix) {
			return fmt.Errorf("SERVICE_CDN_TAG_HEADER must not be %s, which has another meaning", name)
		}
	}
	if slices.Contains(reserved, name) {
		return fmt.Errorf("SERVICE_CDN_TAG_HEADER must not be %s, which has another meaning", name)
	}
	return nil
}
