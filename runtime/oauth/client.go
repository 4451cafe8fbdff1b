package oauth

import (
	"context"
	"crypto/sha256"
	"slices"
	"time"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/keys"
)

// Client is a dynamically registered client (RFC 7591). It is public: it has no secret, and
// PKCE and its redirect URIs bind authorization codes to it.
type Client struct {
	ID           string
	Name         string
	Website      string // empty if the client sent none
	RedirectURIs []string
	CreatedAt    time.Time
}

// clientPrefix is the prefix of the IDs of registered clients.
const clientPrefix = "mcl_"

// RegisterClient stores a client. Registration is idempotent: equal metadata yields the same
// ID. network is the source of the request; Busy if it registered too many new clients.
func (s *Service) RegisterClient(ctx context.Context, client Client, network string) (Client, error) {
	uris := slices.Sorted(slices.Values(client.RedirectURIs))
	client.RedirectURIs = slices.Compact(uris)
	metadata := append([]string{"client", client.Name, client.Website}, client.RedirectURIs...)
	sum := sha256.Sum256(macInput(metadata...))
	client.ID = clientPrefix + keys.Encode(sum[:])
	client.CreatedAt = s.Now()
	return s.Store.AddClient(ctx, client, s.rateLimit("registrations", network, s.cfg.RegistrationsPerIP, ReasonTooManyRegistrations))
}

// FindClient returns a registered client; NotFound.
func (s *Service) FindClient(ctx context.Context, id string) (Client, error) {
	client, err := s.Store.FindClient(ctx, id)
	if fault.Is(err, fault.NotFound) {
		return Client{}, fault.Wrap(err, fault.NotFound, "the client is not registered")
	}
	return client, err
}
