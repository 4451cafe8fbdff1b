package cdnclient

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"mediastack.dev/runtime/webhook"
)

// methodPurge is what Varnish and other caches are configured for, by convention.
const methodPurge = "PURGE"

// document is the body of a purge for Cloudflare (https://developers.cloudflare.com/api/resources/cache/methods/purge/), and for webhooks.
type document struct {
	Tags []string `json:"tags"`
}

// request returns the request that purges tags at one endpoint.
func (c *Client) request(ctx context.Context, to endpoint, tags []string) (*http.Request, error) {
	method, header, body := http.MethodPost, http.Header{"User-Agent": {userAgent}, "Accept": {"application/json"}}, []byte(nil)
	// A purge can be sent twice, so the transport does that if a kept connection turns out to be closed. The empty value tells only the
	// transport (https://pkg.go.dev/net/http#Transport).
	header["Idempotency-Key"] = []string{}
	if c.cfg.Purger == cloudflare || c.cfg.Purger == byWebhook {
		var err error
		if body, err = json.Marshal(document{tags}); err != nil {
			return nil, err
		}
		header.Set("Content-Type", "application/json")
	}
	switch c.cfg.Purger {
	case surrogate:
		method = methodPurge
		header.Set(surrogateKey, strings.Join(tags, " "))
		if c.cfg.Key != "" {
			header.Set("Authorization", "Bearer "+c.cfg.Key)
		}
	case fastly:
		// Several keys in one request are in a header (https://www.fastly.com/documentation/reference/api/purging/#bulk-purge-tag). Without
		// Fastly-Soft-Purge the files are gone; with it they would be stale, and could be sent while the service is away.
		header.Set("Fastly-Key", c.cfg.Key)
		header.Set(surrogateKey, strings.Join(tags, " "))
	case cloudflare:
		header.Set("Authorization", "Bearer "+c.cfg.Key)
	case byWebhook:
		at := c.now()
		id := messageID(tags, at)
		header.Set(webhook.HeaderID, id)
		header.Set(webhook.HeaderTimestamp, webhook.Timestamp(at))
		header.Set(webhook.HeaderSignature, webhook.Signature(c.keys, id, at, body))
	}
	request, err := http.NewRequestWithContext(ctx, method, to.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header = header
	return request, nil
}

// messageID identifies a purge to a receiver of webhooks. The time is in it: a receiver that handles each id once must not skip the same tags
// when they are purged again.
func messageID(tags []string, at time.Time) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\n%s", at.UnixNano(), strings.Join(tags, "\n")))
	return "purge-" + hex.EncodeToString(sum[:12])
}
