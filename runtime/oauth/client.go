package oauth

import (
	"context"
	"crypto/sha256"
	"slices"
	"time"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/keys"
)

// Client is an application that registered itself (RFC 7591). It has no secret: PKCE
// and its redirect URIs are what ties a code to it.
type Client struct {
	ID           string
	Name         string
	Website      string // empty = said nothing
	RedirectURIs []string
	CreatedAt    time.Time
}

// clientPrefix begins the ids that are given out.
const clientPrefix = "mcl_"

// Register keeps an application. The same words give the same id, whoever says them
// and however often. Busy when too many new ones come from the network.
func (s *Service) Register(ctx context.Context, client Client, from string) (Client, error) {
	uris := slices.Sorted(slices.Values(client.RedirectURIs))
	client.RedirectURIs = slices.Compact(uris)
	words := append([]string{"client", client.Name, client.Website}, client.RedirectURIs...)
	sum := sha256.Sum256(join(words))
	client.ID = clientPrefix + keys.Encode(sum[:])
	client.CreatedAt = s.Now()
	return s.Store.AddClient(ctx, client,
		s.attempt("registrations", from, s.cfg.Registrations, "too many applications were registered from this network"))
}

// FindClient returns a registered application. NotFound.
func (s *Service) FindClient(ctx context.Context, id string) (Client, error) {
	client, err := s.Store.FindClient(ctx, id)
	if fault.Is(err, fault.NotFound) {
		return Client{}, fault.Wrap(err, fault.NotFound, "the application is not registered")
	}
	return client, err
}
