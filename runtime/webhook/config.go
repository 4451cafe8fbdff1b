package webhook

import (
	"fmt"
	"time"
)

// Config bounds the deliveries. The tags are flag and environment names.
type Config struct {
	Concurrency   int           `name:"webhooks-concurrency" env:"SERVICE_WEBHOOKS_CONCURRENCY" default:"64" help:"Deliveries of webhooks that a process sends at once, from 2 to 1000. Half of them are for webhooks whose receivers take longer than a second."`
	PerWebhook    int           `name:"webhooks-per-webhook" env:"SERVICE_WEBHOOKS_PER_WEBHOOK" default:"8" help:"Deliveries of one webhook that are sent at once, by all processes; from 1 to 100."`
	MaxPending    int           `name:"webhooks-max-pending" env:"SERVICE_WEBHOOKS_MAX_PENDING" default:"1000" help:"Deliveries of one webhook that may wait, from 10 to 10000. More events wait in the journal."`
	CheckInterval time.Duration `name:"webhooks-check-interval" env:"SERVICE_WEBHOOKS_CHECK_INTERVAL" default:"500ms" help:"How often a process looks for events that a webhook sends, from 50ms to 1m."`
}

// Validate checks the bounds.
func (c Config) Validate() error {
	for _, n := range []struct {
		name            string
		value, min, max int
	}{
		{"SERVICE_WEBHOOKS_CONCURRENCY", c.Concurrency, 2, 1000},
		{"SERVICE_WEBHOOKS_PER_WEBHOOK", c.PerWebhook, 1, 100},
		{"SERVICE_WEBHOOKS_MAX_PENDING", c.MaxPending, 10, 10_000},
	} {
		if n.value < n.min || n.value > n.max {
			return fmt.Errorf("%s must be from %d to %d, not %d", n.name, n.min, n.max, n.value)
		}
	}
	if c.CheckInterval < 50*time.Millisecond || c.CheckInterval > time.Minute {
		return fmt.Errorf("SERVICE_WEBHOOKS_CHECK_INTERVAL must be from 50ms to 1m, not %s", c.CheckInterval)
	}
	return nil
}
