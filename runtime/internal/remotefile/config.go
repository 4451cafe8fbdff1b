package remotefile

import (
	"fmt"
	"time"

	"mediastack.dev/runtime/internal/publicnet"
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
	if err := publicnet.CheckPorts("SERVICE_FETCH_PORTS", c.Ports); err != nil {
		return err
	}
	if _, err := publicnet.ParseNetworks("SERVICE_FETCH_ALLOW_NETWORKS", c.AllowNetworks); err != nil {
		return err
	}
	_, err := publicnet.ParseNetworks("SERVICE_FETCH_DENY_NETWORKS", c.DenyNetworks)
	return err
}
