package webhookclient

import (
	"fmt"
	"time"

	"mediastack.dev/runtime/internal/publicnet"
)

// Config bounds the requests. The tags are flag and environment names.
type Config struct {
	AllowNetworks []string      `name:"webhooks-allow-networks" env:"SERVICE_WEBHOOKS_ALLOW_NETWORKS" help:"Networks (CIDR) that are not public, and in which receivers of webhooks may be in spite of it, at any port, also by http."`
	DenyNetworks  []string      `name:"webhooks-deny-networks" env:"SERVICE_WEBHOOKS_DENY_NETWORKS" help:"Networks (CIDR) to which no webhook is sent, although they are public or allowed."`
	Ports         []int         `name:"webhooks-ports" env:"SERVICE_WEBHOOKS_PORTS" default:"443" help:"Ports of public receivers of webhooks."`
	Timeout       time.Duration `name:"webhooks-timeout" env:"SERVICE_WEBHOOKS_TIMEOUT" default:"15s" help:"Time for one attempt at a delivery of a webhook, from 1s to 1m."`
}

// Validate checks the bounds.
func (c Config) Validate() error {
	if c.Timeout < time.Second || c.Timeout > time.Minute {
		return fmt.Errorf("SERVICE_WEBHOOKS_TIMEOUT must be from 1s to 1m, not %s", c.Timeout)
	}
	if err := publicnet.CheckPorts("SERVICE_WEBHOOKS_PORTS", c.Ports); err != nil {
		return err
	}
	if _, err := publicnet.ParseNetworks("SERVICE_WEBHOOKS_ALLOW_NETWORKS", c.AllowNetworks); err != nil {
		return err
	}
	_, err := publicnet.ParseNetworks("SERVICE_WEBHOOKS_DENY_NETWORKS", c.DenyNetworks)
	return err
}
