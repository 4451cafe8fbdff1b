package fetch

import (
	"fmt"
	"time"
)

// Config bounds the jobs. The tags are flag and environment names.
type Config struct {
	Enabled       bool          `name:"fetch-enabled" env:"SERVICE_FETCH_ENABLED" default:"false" help:"Offer uploads from a URL: download files from URLs that tenants name."`
	Concurrency   int           `name:"fetch-concurrency" env:"SERVICE_FETCH_CONCURRENCY" default:"4" help:"Files that a process downloads at once, from 1 to 256. Each takes an upload slot. Of several, the last free one is for an account of which none runs."`
	PerAccount    int           `name:"fetch-per-account" env:"SERVICE_FETCH_PER_ACCOUNT" default:"2" help:"Files that are downloaded at once for one account, by all processes; from 1 to 256."`
	MaxOpen       int           `name:"fetch-max-open" env:"SERVICE_FETCH_MAX_OPEN" default:"100" help:"Uploads from a URL of one account that may wait or run; more are rejected with 429. From 1 to 10000."`
	MaxAttempts   int           `name:"fetch-max-attempts" env:"SERVICE_FETCH_MAX_ATTEMPTS" default:"5" help:"How often a download is tried that the service could not complete, from 1 to 10."`
	ContendedRate int64         `name:"fetch-contended-min-transfer-rate" env:"SERVICE_FETCH_CONTENDED_MIN_TRANSFER_RATE" default:"262144" help:"Bytes per second that a server must send while an account of which no job runs waits for a slot; 0 = none."`
	CheckInterval time.Duration `name:"fetch-check-interval" env:"SERVICE_FETCH_CHECK_INTERVAL" default:"5s" help:"How often a process looks for jobs, records the progress of its own ones, and checks their credentials; from 10ms to 1m."`
}

// Validate checks the bounds.
func (c Config) Validate() error {
	for _, n := range []struct {
		name            string
		value, min, max int
	}{
		{"SERVICE_FETCH_CONCURRENCY", c.Concurrency, 1, 256},
		{"SERVICE_FETCH_PER_ACCOUNT", c.PerAccount, 1, 256},
		{"SERVICE_FETCH_MAX_OPEN", c.MaxOpen, 1, 10_000},
		{"SERVICE_FETCH_MAX_ATTEMPTS", c.MaxAttempts, 1, 10},
	} {
		if n.value < n.min || n.value > n.max {
			return fmt.Errorf("%s must be from %d to %d, not %d", n.name, n.min, n.max, n.value)
		}
	}
	if c.ContendedRate < 0 {
		return fmt.Errorf("SERVICE_FETCH_CONTENDED_MIN_TRANSFER_RATE must not be negative, but is %d", c.ContendedRate)
	}
	if c.CheckInterval < 10*time.Millisecond || c.CheckInterval > time.Minute {
		return fmt.Errorf("SERVICE_FETCH_CHECK_INTERVAL must be from 10ms to 1m, not %s", c.CheckInterval)
	}
	return nil
}
