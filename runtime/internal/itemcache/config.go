package itemcache

import (
	"fmt"
	"time"
)

// Config bounds the cache. The tags are flag and environment names.
type Config struct {
	Entries int           `name:"item-cache-entries" env:"SERVICE_ITEM_CACHE_ENTRIES" default:"10000" help:"Items whose rows a process caches for downloads and for reads of one item, from 0 to 1000000. Files are not cached. 0 = no cache."`
	Bytes   int64         `name:"item-cache-bytes" env:"SERVICE_ITEM_CACHE_BYTES" default:"16777216" help:"Memory of these rows, in bytes, from 65536 to 17179869184. A row takes about 1 KiB."`
	Lease   time.Duration `name:"item-cache-lease" env:"SERVICE_ITEM_CACHE_LEASE" default:"500ms" help:"How long cached rows are served after PostgreSQL last confirmed that changes are waited for, from 100ms to 5s. A delete waits at most twice as long for a process that does not respond."`
}

// Bounds of the configuration.
const (
	maxEntries = 1_000_000
	minBytes   = 64 << 10
	maxBytes   = 16 << 30
	minLease   = 100 * time.Millisecond
	maxLease   = 5 * time.Second
)

// Validate checks the bounds.
func (c Config) Validate() error {
	switch {
	case c.Entries < 0 || c.Entries > maxEntries:
		return fmt.Errorf("SERVICE_ITEM_CACHE_ENTRIES must be from 0 to %d, not %d", maxEntries, c.Entries)
	case c.Bytes < minBytes || c.Bytes > maxBytes:
		return fmt.Errorf("SERVICE_ITEM_CACHE_BYTES must be from %d to %d, not %d", minBytes, maxBytes, c.Bytes)
	case c.Lease < minLease || c.Lease > maxLease || c.Lease%time.Millisecond != 0:
		return fmt.Errorf("SERVICE_ITEM_CACHE_LEASE must be from %s to %s, in whole milliseconds, not %s", minLease, maxLease, c.Lease)
	}
	return nil
}
