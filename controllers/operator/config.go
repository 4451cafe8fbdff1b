package operator

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// Config is what an admin can set about the operator. The tags are flag and
// environment names.
type Config struct {
	BaseURL string `env:"SERVICE_BASE_URL" required:"" help:"URL that tenants reach the runtime at, e.g. https://media.example.org. It is written into every account's status and Secrets."`

	BucketPrefix        string        `env:"SERVICE_BUCKET_PREFIX" default:"media" help:"Beginning of the names of buckets that the operator names."`
	BucketCheckInterval time.Duration `env:"SERVICE_BUCKET_CHECK_INTERVAL" default:"30s" help:"How often every account's bucket is looked at."`
	UsageInterval       time.Duration `env:"SERVICE_USAGE_INTERVAL" default:"5m" help:"How often usage, the keys' last use and tenants' settings are read for the status."`

	Concurrency int      `name:"max-concurrent-reconciles" env:"SERVICE_MAX_CONCURRENT_RECONCILES" default:"8" help:"How many accounts, and how many settings, are worked on at a time."`
	Namespaces  []string `env:"SERVICE_WATCH_NAMESPACES" name:"watch-namespaces" help:"Watch these namespaces only (comma-separated); without it, all."`

	HealthListen  string `env:"SERVICE_HEALTH_LISTEN" default:":8081" help:"Address of /healthz and /readyz; 0 turns them off."`
	MetricsListen string `env:"SERVICE_METRICS_LISTEN" default:":8080" help:"Address of /metrics; 0 turns it off."`

	LeaderElect             bool   `env:"SERVICE_LEADER_ELECT" help:"Work only while holding the lease, so that several replicas can run."`
	LeaderElectionNamespace string `env:"SERVICE_LEADER_ELECTION_NAMESPACE" help:"Namespace of the lease; without it, the pod's own."`
}

// bucketPrefixMax leaves room in 63 characters for a readable name and a unique end.
const bucketPrefixMax = 20

// Validate checks what the flags' types do not.
func (c *Config) Validate() error {
	base, err := cleanBaseURL(c.BaseURL)
	if err != nil {
		return err
	}
	c.BaseURL = base
	if c.BucketCheckInterval < time.Second || c.UsageInterval < time.Second {
		return errors.New("the bucket check interval and the usage interval must be 1s or more")
	}
	if c.Concurrency < 1 || c.Concurrency > 100 {
		return fmt.Errorf("the concurrency must be from 1 to 100, not %d", c.Concurrency)
	}
	if len(c.BucketPrefix) > bucketPrefixMax || strings.Trim(c.BucketPrefix, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" ||
		c.BucketPrefix == "" || strings.HasPrefix(c.BucketPrefix, "-") {
		return fmt.Errorf("the bucket prefix must be 1 to %d of a-z, 0-9 and '-', and not begin with '-'; it is %q", bucketPrefixMax, c.BucketPrefix)
	}
	return nil
}

// cleanBaseURL accepts http and https URLs of a host, as the runtime does, and gives
// them without a slash at the end.
func cleanBaseURL(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return "", fmt.Errorf("the base URL (--base-url or SERVICE_BASE_URL) must look like https://media.example.org, with no path, user, query or fragment, not %q", text)
	}
	return strings.TrimRight(u.String(), "/"), nil
}
