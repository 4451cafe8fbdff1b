package operator_test

import (
	"strings"
	"testing"
	"time"

	"mediastack.dev/controllers/operator"
	"mediastack.dev/runtime/installation"
)

func TestConfigValidate_RejectsInvalidValues(t *testing.T) {
	t.Parallel()
	valid := operator.Config{
		BaseURL: "https://media.example.org/", BucketPrefix: "media",
		BucketCheckInterval: 30 * time.Second, UsageInterval: time.Minute, BucketCheckRate: 15, UsageWriteRate: 20, WebhooksPerAccount: 5, Concurrency: 8, MaxConcurrentDeletions: 2,
		Installation:     installation.Config{CheckInterval: 15 * time.Second, HeartbeatInterval: time.Minute},
		RetainedInterval: 30 * time.Second, OrphanDelay: 20 * time.Second, TakeOverGrace: 10 * time.Minute,
	}
	good := valid
	if err := good.Validate(); err != nil || good.BaseURL != "https://media.example.org" {
		t.Fatalf("a good configuration gives %q, %v", good.BaseURL, err)
	}
	cases := map[string]struct {
		change func(*operator.Config)
		says   string
	}{
		"no scheme":             {func(c *operator.Config) { c.BaseURL = "media.example.org" }, "base URL"},
		"another scheme":        {func(c *operator.Config) { c.BaseURL = "ftp://media.example.org" }, "base URL"},
		"a path":                {func(c *operator.Config) { c.BaseURL = "https://example.org/media" }, "base URL"},
		"a query":               {func(c *operator.Config) { c.BaseURL = "https://media.example.org/?a=b" }, "base URL"},
		"a password in the URL": {func(c *operator.Config) { c.BaseURL = "https://a:b@media.example.org" }, "base URL"},
		"no bucket checks":      {func(c *operator.Config) { c.BucketCheckRate = 0 }, "SERVICE_BUCKET_CHECK_RATE must be from 1 to 1000, not 0"},
		"too many writes":       {func(c *operator.Config) { c.UsageWriteRate = 1001 }, "SERVICE_USAGE_WRITE_RATE must be from 1 to 1000, not 1001"},
		"no interval":           {func(c *operator.Config) { c.BucketCheckInterval = 0 }, "SERVICE_BUCKET_CHECK_INTERVAL must be from 1s to 24h0m0s, not 0s"},
		"a negative grace":      {func(c *operator.Config) { c.OutageGrace = -1 }, "SERVICE_OUTAGE_GRACE must be from 0s to 1h0m0s"},
		"a grace too long":      {func(c *operator.Config) { c.OutageGrace = 2 * time.Hour }, "SERVICE_OUTAGE_GRACE must be from 0s to 1h0m0s, not 2h0m0s"},
		"no retained interval":  {func(c *operator.Config) { c.RetainedInterval = 0 }, "SERVICE_RETAINED_INTERVAL must be from 1s to 1h"},
		"no orphan delay":       {func(c *operator.Config) { c.OrphanDelay = 0 }, "SERVICE_ORPHAN_DELAY"},
		"a negative take-over":  {func(c *operator.Config) { c.TakeOverGrace = -1 }, "SERVICE_TAKE_OVER_GRACE"},
		"no webhooks":           {func(c *operator.Config) { c.WebhooksPerAccount = 0 }, "SERVICE_WEBHOOKS_PER_ACCOUNT must be from 1 to 100, not 0"},
		"no workers":            {func(c *operator.Config) { c.Concurrency = 0 }, "SERVICE_MAX_CONCURRENT_RECONCILES must be from 1 to 100, not 0"},
		"installation check":    {func(c *operator.Config) { c.Installation.CheckInterval = 0 }, "SERVICE_INSTALLATION_CHECK_INTERVAL"},
		"no deletion workers":   {func(c *operator.Config) { c.MaxConcurrentDeletions = 0 }, "SERVICE_MAX_CONCURRENT_DELETIONS"},
		"upper case prefix":     {func(c *operator.Config) { c.BucketPrefix = "Media" }, "SERVICE_BUCKET_PREFIX"},
		"a prefix too long":     {func(c *operator.Config) { c.BucketPrefix = strings.Repeat("m", 21) }, "SERVICE_BUCKET_PREFIX"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := valid
			c.change(&config)
			if err := config.Validate(); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v", err)
			}
		})
	}
}
