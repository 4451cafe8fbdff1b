// Package retryafter reads the header Retry-After, whose values the service spreads. Tests use it.
package retryafter

import (
	"net/http"
	"strconv"
)

// maxSpread is the most that is added.
const maxSpread = 10

// Is reports whether an answer asks a client to wait this number of seconds, or what the spread adds to it.
func Is(header http.Header, seconds int) bool {
	got, err := strconv.Atoi(header.Get("Retry-After"))
	return err == nil && got >= seconds && got <= seconds+min(seconds, maxSpread)
}
