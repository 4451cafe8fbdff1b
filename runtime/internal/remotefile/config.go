package remotefile

import (
	"fmt"
	"net/netip"
	"time"
)

// Config bounds the requests. The tags are flag and environment names.
type Config struct {
	AllowNetworks []string      `name:"fetch-allow-networks" env:"SERVICE_FETCH_ALLOW_NETWORKS" help:"Networks (CIDR) that are not public, and from which files may be fetched in spite of it."`
	DenyNetworks  []string      `name:"fetch-deny-networks" env:"SERVICE_FETCH_DENY_NETWORKS" help:"Networks (CIDR) from which no file is fetched, although they are public or allowed."`
	Ports         []int         `name:"fetch-ports" env:"SERVICE_FETCH_PORTS" default:"443" help:"Ports from which files may be fetched."`
	HeaderTimeout time.Duration `name:"fetch-header-timeout" env:"SERVICE_FETCH_HEADER_TIMEOUT" default:"15s" help:"Time for the connection, for TLS and for the header of a response, each; from 100ms to 5m."`
	StallTimeout  time.Duration `name:"fetch-stall-timeout" env:"SERVICE_FETCH_STALL_TIMEOUT" default:"30s" help:"How long a server may stall while it sends a file, from 100ms to 10m."`
	Timeout       time.Duration `name:"fetch-timeout" env:"SERVICE_FETCH_TIMEOUT" default:"1h" help:"Time for one file, from 1s to 24h."`
	MinRate       int64         `name:"fetch-min-transfer-rate" env:"SERVICE_FETCH_MIN_TRANSFER_RATE" default:"16384" help:"Bytes per second over SERVICE_FETCH_STALL_TIMEOUT that a server must send; 0 accepts any progress."`
}

// Validate checks the bounds.
func (c Config) Validate() error {
	for _, d := range []struct {
		name            string
		value, min, max time.Duration
	}{
		{"SERVICE_FETCH_HEADER_TIMEOUT", c.HeaderTimeout, 100 * time.Millisecond, 5 * time.Minute},
		{"SERVICE_FETCH_STALL_TIMEOUT", c.StallTimeout, 100 * time.Millisecond, 10 * time.Minute},
		{"SERVICE_FETCH_TIMEOUT", c.Timeout, time.Second, 24 * time.Hour},
	} {
		if d.value < d.min || d.value > d.max {
			return fmt.Errorf("%s must be from %s to %s, not %s", d.name, d.min, d.max, d.value)
		}
	}
	if c.MinRate < 0 {
		return fmt.Errorf("SERVICE_FETCH_MIN_TRANSFER_RATE must not be negative, but is %d", c.MinRate)
	}
	if len(c.Ports) == 0 {
		return fmt.Errorf("SERVICE_FETCH_PORTS must have a port")
	}
	for _, port := range c.Ports {
		if port < 1 || port > 65535 {
			return fmt.Errorf("SERVICE_FETCH_PORTS must hold numbers from 1 to 65535, not %d", port)
		}
	}
	if _, err := networks("SERVICE_FETCH_ALLOW_NETWORKS", c.AllowNetworks); err != nil {
		return err
	}
	_, err := networks("SERVICE_FETCH_DENY_NETWORKS", c.DenyNetworks)
	return err
}

// networks parses a list of networks. One of IPv4 in the form of IPv6 would contain nothing: it is
// an error.
func networks(setting string, texts []string) (parsed []netip.Prefix, err error) {
	for _, text := range texts {
		network, err := netip.ParsePrefix(text)
		if err != nil || network.Addr().Is4In6() {
			return nil, fmt.Errorf("%s must hold networks like 10.1.0.0/16 or fd00:1::/32, not %q", setting, text)
		}
		parsed = append(parsed, network.Masked())
	}
	return parsed, nil
}
