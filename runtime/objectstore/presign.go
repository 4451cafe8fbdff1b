package objectstore

import (
	"context"
	"net/url"
	"time"

	"mediastack.dev/runtime/fault"
)

// Presigner makes URLs that give access to one object without credentials, for a limited
// time. It sends no request, and is safe for concurrent use.
type Presigner struct{ store *Store }

// NewPresigner returns a Presigner for clients that reach the store at publicEndpoint, or at
// the configured endpoint if that is empty. The signature covers the host.
func NewPresigner(cfg Config, publicEndpoint string) (*Presigner, error) {
	if publicEndpoint != "" {
		cfg.Endpoint = publicEndpoint
	}
	store, err := New(cfg)
	if err != nil {
		return nil, err
	}
	return &Presigner{store: store}, nil
}

// Presign returns a URL. Its response has the headers in response, by their lower-case names,
// instead of the object's own.
func (p *Presigner) Presign(ctx context.Context, method, bucket, key string, ttl time.Duration, response map[string]string) (string, error) {
	query := url.Values{}
	for name, value := range response {
		query.Set("response-"+name, value)
	}
	signed, err := p.store.client.Presign(ctx, method, bucket, key, ttl, query)
	if err != nil {
		return "", fault.Wrap(err, fault.Internal, "")
	}
	return signed.String(), nil
}
