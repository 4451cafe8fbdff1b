//go:build !race

// With the race detector a sync.Pool drops what is returned to it, at random.

package delivery

import (
	"strings"
	"testing"
	"time"

	"mediastack.dev/runtime/settings"
)

// A list has up to 300 addresses: signing one allocates its text, and nothing else.
func TestURL_AllocatesItsTextOnly(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	d, item := at(t, &now, time.Hour, time.Hour)
	urls, object := d.URLs(), item.File()
	var address string
	allocations := testing.AllocsPerRun(1000, func() { address = urls.URL(item, object, settings.OriginalsPublic) })
	if !strings.Contains(address, "&signature=") || allocations > 1 {
		t.Errorf("%v allocations for %s", allocations, address)
	}
}
