package rendition

import (
	"fmt"
	"time"
)

// Config bounds the work of one process. The tags are flag and environment names.
type Config struct {
	CacheEntries int           `name:"rendition-cache-entries" env:"SERVICE_RENDITION_CACHE_ENTRIES" default:"10000" help:"Stored renditions whose rows a process caches for a minute, from 0 to 1000000. Pictures are not cached. A row takes about 500 bytes. 0 = no cache."`
	Timeout      time.Duration `name:"rendition-timeout" env:"SERVICE_RENDITION_TIMEOUT" default:"1m" help:"Time to make and store a rendition, the wait for a worker included; from 1s to 10m. A process that needs longer loses it to another one 30 s later."`
	Jobs         int           `name:"rendition-jobs" env:"SERVICE_RENDITION_JOBS" default:"8" help:"Renditions that are made at once, or that could not be stored and are being sent, from 1 to 1024, at least SERVICE_IMAGE_WORKERS; half of them of one account. Their data are in memory."`
	MaxBytes     int64         `name:"rendition-max-bytes" env:"SERVICE_RENDITION_MAX_BYTES" default:"16777216" help:"Maximum size of a rendition in bytes, from 65536 to 67108864. A larger one is not made, and answered with 415."`
	// UnstoredCache is in bytes.
	UnstoredCache int64         `name:"rendition-unstored-cache" env:"SERVICE_RENDITION_UNSTORED_CACHE" default:"33554432" help:"Bytes of memory for renditions of up to 1 MiB that could not be stored, for 10 minutes each; half of it of one account; from 0 to 17179869184, 0 = none."`
	FailureTTL    time.Duration `name:"rendition-failure-ttl" env:"SERVICE_RENDITION_FAILURE_TTL" default:"10m" help:"How long a process remembers that a rendition, or none of the file, can be made because the file is unsuitable or image workers failed on it; from 0s to 24h, 0s = not at all."`
}

// Validate checks the bounds.
func (c Config) Validate() error {
	switch {
	case c.CacheEntries < 0 || c.CacheEntries > 1_000_000:
		return fmt.Errorf("SERVICE_RENDITION_CACHE_ENTRIES must be from 0 to 1000000, not %d", c.CacheEntries)
	case c.Timeout < time.Second || c.Timeout > 10*time.Minute:
		return fmt.Errorf("SERVICE_RENDITION_TIMEOUT must be from 1s to 10m, not %s", c.Timeout)
	case c.Jobs < 1 || c.Jobs > 1024:
		return fmt.Errorf("SERVICE_RENDITION_JOBS must be from 1 to 1024, not %d", c.Jobs)
	case c.MaxBytes < 64<<10 || c.MaxBytes > 64<<20:
		return fmt.Errorf("SERVICE_RENDITION_MAX_BYTES must be from 65536 to 67108864, not %d", c.MaxBytes)
	case c.UnstoredCache < 0 || c.UnstoredCache > 16<<30:
		return fmt.Errorf("SERVICE_RENDITION_UNSTORED_CACHE must be from 0 to 17179869184, not %d", c.UnstoredCache)
	case c.FailureTTL < 0 || c.FailureTTL > 24*time.Hour:
		return fmt.Errorf("SERVICE_RENDITION_FAILURE_TTL must be from 0s to 24h, not %s", c.FailureTTL)
	}
	return nil
}
