// Package answer has what the service's clients do with the answers of other servers, which may be hostile. The clients of webhooks and of
// the CDN call it.
package answer

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"
)

const (
	// MaxRetryAfter bounds what a server may ask for.
	MaxRetryAfter = 24 * time.Hour
	// MaxBody bounds what is read of a body that means nothing, in bytes.
	MaxBody = 64 << 10
	// BodyTime is how long that may take.
	BodyTime = time.Second
)

// RetryAfter reads the value of Retry-After: seconds, or a date (RFC 9110, section 10.2.3). Another text counts as none.
func RetryAfter(text string, now time.Time) time.Duration {
	seconds, err := strconv.ParseUint(text, 10, 32)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return MaxRetryAfter
	case err == nil:
		return min(time.Duration(seconds)*time.Second, MaxRetryAfter)
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return min(max(0, at.Sub(now)), MaxRetryAfter)
}

// Discard reads and closes a body that ends soon, so that the server sees its answer taken, and cancels the request of another one.
func Discard(body io.ReadCloser, cancel context.CancelFunc) {
	late := time.AfterFunc(BodyTime, cancel)
	defer late.Stop()
	_, _ = io.CopyN(io.Discard, body, MaxBody)
	_ = body.Close()
}
