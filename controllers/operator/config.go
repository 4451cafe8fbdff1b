package operator

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"mediastack.dev/controllers/installation"
	identity "mediastack.dev/runtime/installation"
)

// Config configures the operator. The tags are flag and environment names.
type Config struct {
	BaseURL string `env:"SERVICE_BASE_URL" required:"" help:"URL of the service for tenants, without a path, such as https://media.example.org. The operator writes it to the status and the Secret of every account."`

	BucketPrefix        string        `env:"SERVICE_BUCKET_PREFIX" default:"media" help:"Prefix of generated bucket names."`
	BucketCheckInterval time.Duration `env:"SERVICE_BUCKET_CHECK_INTERVAL" default:"30s" help:"Shortest interval between two checks of an account's bucket, from 1s to 24h."`
	BucketCheckRate     int           `env:"SERVICE_BUCKET_CHECK_RATE" default:"15" help:"Periodic checks of buckets a second, of all accounts together, from 1 to 1000. With many accounts the interval grows."`
	UsageInterval       time.Duration `env:"SERVICE_USAGE_INTERVAL" default:"5m" help:"Interval between two comparisons of usage and last use of keys with the status, of all accounts, from 1s to 24h."`
	UsageWriteRate      int           `env:"SERVICE_USAGE_WRITE_RATE" default:"20" help:"Accounts a second whose usage is written to the status, from 1 to 1000."`
	WebhooksPerAccount  int           `env:"SERVICE_WEBHOOKS_PER_ACCOUNT" default:"5" help:"MediaWebhooks that one account may have, from 1 to 100. The oldest ones are in effect."`
	OutageGrace         time.Duration `env:"SERVICE_OUTAGE_GRACE" default:"2m" help:"How long an account that was Ready stays Ready in the status while PostgreSQL, S3 or the runtime is out, from 0s to 1h."`

	RetainedInterval time.Duration `env:"SERVICE_RETAINED_INTERVAL" default:"30s" help:"Interval between two comparisons of the accounts in the database with the cluster, from 1s to 1h."`
	OrphanDelay      time.Duration `env:"SERVICE_ORPHAN_DELAY" default:"20s" help:"How long the MediaAccount of an account must be gone before the account is closed and retained, from 1s to 1h."`
	TakeOverGrace    time.Duration `env:"SERVICE_TAKE_OVER_GRACE" default:"10m" help:"How long after a take-over an account without a MediaAccount stays open, from 0s to 24h."`

	Concurrency int `name:"max-concurrent-reconciles" env:"SERVICE_MAX_CONCURRENT_RECONCILES" default:"8" help:"Reconciliations at a time, each for accounts, for settings, for webhooks and for buckets, from 1 to 100."`
	// Deletions have workers of their own, so that a large one delays no other account.
	MaxConcurrentDeletions int      `env:"SERVICE_MAX_CONCURRENT_DELETIONS" default:"2" help:"Accounts whose media is deleted at a time, from 1 to 100; others take turns."`
	Namespaces             []string `env:"SERVICE_WATCH_NAMESPACES" name:"watch-namespaces" help:"Namespaces to watch, or to look in; all if empty."`

	Namespace    string          `env:"SERVICE_NAMESPACE" help:"Namespace of the operator, for the ConfigMap of the installation; by default that of the pod, or mediastack-system."`
	Deployment   string          `env:"SERVICE_DEPLOYMENT" help:"Name of the operator's Deployment in its namespace. While it is being deleted, a deletion of a MediaAccount retains the media. If it is empty, no Deployment is looked at."`
	Installation identity.Config `embed:""`

	HealthListen  string `env:"SERVICE_HEALTH_LISTEN" default:":8081" help:"Listen address of /healthz and /readyz; 0 disables them."`
	MetricsListen string `env:"SERVICE_METRICS_LISTEN" default:":8080" help:"Listen address of /metrics; 0 disables it."`
	Pprof         bool   `env:"SERVICE_PPROF" default:"false" help:"Serve profiles of the process at /debug/pprof/, of the runtime on SERVICE_ADMIN_LISTEN, of the operator on SERVICE_METRICS_LISTEN."`

	MetricsTLS MetricsTLSConfig `embed:"" prefix:"metrics-tls-"`

	LeaderElect             bool   `env:"SERVICE_LEADER_ELECT" help:"Reconcile only while holding the lease; required for several replicas."`
	LeaderElectionNamespace string `env:"SERVICE_LEADER_ELECTION_NAMESPACE" help:"Namespace of the lease; by default that of the pod."`
}

// maxOutageGrace bounds how long a status may hide an outage.
const maxOutageGrace = time.Hour

// maxInterval bounds how late a periodic comparison may be.
const maxInterval = 24 * time.Hour

// maxBucketPrefix leaves room in 63 characters for a readable name and a unique suffix.
const maxBucketPrefix = 20

// Validate checks the values, normalizes BaseURL and sets the default of Namespace.
func (c *Config) Validate() error {
	base, err := parseBaseURL(c.BaseURL)
	if err != nil {
		return err
	}
	c.BaseURL = base
	if err := c.validateNumbers(); err != nil {
		return err
	}
	if err := errors.Join(c.Installation.Validate(), c.MetricsTLS.Validate()); err != nil {
		return err
	}
	if c.Namespace == "" {
		c.Namespace = installation.OwnNamespace()
	}
	if len(c.BucketPrefix) > maxBucketPrefix || strings.Trim(c.BucketPrefix, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" ||
		c.BucketPrefix == "" || strings.HasPrefix(c.BucketPrefix, "-") {
		return fmt.Errorf("SERVICE_BUCKET_PREFIX must be 1 to %d of a-z, 0-9 and '-', and not begin with '-', not %q", maxBucketPrefix, c.BucketPrefix)
	}
	return nil
}

// validateNumbers checks the bounds of durations and numbers. An error names the variable, the bounds and the value.
func (c *Config) validateNumbers() error {
	for _, one := range []struct {
		name             string
		value, low, high time.Duration
	}{
		{"SERVICE_BUCKET_CHECK_INTERVAL", c.BucketCheckInterval, time.Second, maxInterval},
		{"SERVICE_USAGE_INTERVAL", c.UsageInterval, time.Second, maxInterval},
		{"SERVICE_OUTAGE_GRACE", c.OutageGrace, 0, maxOutageGrace},
		{"SERVICE_RETAINED_INTERVAL", c.RetainedInterval, time.Second, time.Hour},
		{"SERVICE_ORPHAN_DELAY", c.OrphanDelay, time.Second, time.Hour},
		{"SERVICE_TAKE_OVER_GRACE", c.TakeOverGrace, 0, 24 * time.Hour},
	} {
		if one.value < one.low || one.value > one.high {
			return fmt.Errorf("%s must be from %s to %s, not %s", one.name, one.low, one.high, one.value)
		}
	}
	for _, one := range []struct {
		name        string
		value, high int
	}{
		{"SERVICE_BUCKET_CHECK_RATE", c.BucketCheckRate, 1000},
		{"SERVICE_USAGE_WRITE_RATE", c.UsageWriteRate, 1000},
		{"SERVICE_WEBHOOKS_PER_ACCOUNT", c.WebhooksPerAccount, 100},
		{"SERVICE_MAX_CONCURRENT_RECONCILES", c.Concurrency, 100},
		{"SERVICE_MAX_CONCURRENT_DELETIONS", c.MaxConcurrentDeletions, 100},
	} {
		if one.value < 1 || one.value > one.high {
			return fmt.Errorf("%s must be from 1 to %d, not %d", one.name, one.high, one.value)
		}
	}
	return nil
}

// parseBaseURL accepts http and https URLs of a host, as the runtime does, and returns them
// without a trailing slash.
func parseBaseURL(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return "", fmt.Errorf("the base URL (--base-url or SERVICE_BASE_URL) must look like https://media.example.org, with no path, user, query or fragment, not %q", text)
	}
	return strings.TrimRight(u.String(), "/"), nil
}
