package objectstore

import (
	"context"
	"net/url"
	"time"

	"mediastack.dev/runtime/fault"
)

// Presigner makes addresses that open one object without credentials, for a while.
// It sends nothing, and is safe for concurrent use.
type Presigner struct{ store *Store }

// NewPresigner signs for the store as its clients reach it: at publicEndpoint, or at
// the configured endpoint when that is empty. The host is part of what is signed.
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

// Presign returns the address. The answer under it carries the headers in response, by
// their lower-case names, instead of the object's own.
func (p *Presigner) Presign(ctx context.Context, method, bucket, key string, ttl time.Duration, response map[string]string) (string, error) {
	query := url.Values{}
	for name, value := range response {
		query.Set("response-"+name, value)
	}
	address, err := p.store.client.Presign(ctx, method, bucket, key, ttl, query)
	if err != nil {
		return "", fault.Wrap(err, fault.Internal, "")
	}
	return address.String(), nil
}
