package auth

import (
	"fmt"
	"time"

	"mediastack.dev/runtime/keys"
)

// Config is the configuration of authentication. The tags are flag and environment names;
// the program sets the fields that have none.
type Config struct {
	Secret         string        `env:"SERVICE_SECRET" required:"" help:"Secret of at least 32 random bytes, in hexadecimal or base64: openssl rand -base64 32 (prefer the environment over the flag)."`
	SecretPrevious string        `env:"SERVICE_SECRET_PREVIOUS" help:"A second secret that is accepted and never signed with, while the secret is rotated."`
	SignatureTTL   time.Duration `env:"SERVICE_SIGNATURE_TTL" default:"1h" help:"Validity of an upload signature whose request does not say expiresIn."`
	KeyCacheTTL    time.Duration `env:"SERVICE_KEY_CACHE_TTL" default:"60s" help:"How long keys, logins and image settings are cached at most; changes invalidate them at once."`

	// Brand is the word in header names: x-<brand>-apikey and x-<brand>-signature.
	Brand string `kong:"-"`
	// Resource is the resource that access tokens must be issued for (RFC 8707). If it is
	// empty, no access token is accepted.
	Resource string `kong:"-"`
	// MetadataURL is the URL of the protected resource metadata (RFC 9728), which challenges
	// name. If it is empty, challenges name API keys only.
	MetadataURL string `kong:"-"`
}

// Validate checks the bounds.
func (c Config) Validate() error {
	if _, err := c.ServerSecret(); err != nil {
		return err
	}
	if c.SignatureTTL < time.Second || c.SignatureTTL > 7*24*time.Hour {
		return fmt.Errorf("SERVICE_SIGNATURE_TTL must be from 1s to 168h, not %s", c.SignatureTTL)
	}
	if c.KeyCacheTTL < 0 || c.KeyCacheTTL > time.Hour {
		return fmt.Errorf("SERVICE_KEY_CACHE_TTL must be from 0s to 1h, not %s", c.KeyCacheTTL)
	}
	return nil
}

// ServerSecret parses the secrets.
func (c Config) ServerSecret() (keys.Secret, error) {
	return keys.ParseSecret(c.Secret, c.SecretPrevious)
}
