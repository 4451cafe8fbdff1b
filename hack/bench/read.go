package main

import (
	"bytes"
	"context"
	"fmt"

	"mediastack.dev/runtime/media"
)

// read compares reads with a bare handler: everything that the service adds is
// authentication, limits, logs, metrics, deadlines and, for private items, signing.
func read(ctx context.Context, b *bench) error {
	t, err := b.env.tenant(ctx, "read")
	if err != nil {
		return err
	}
	secret, err := b.env.tenant(ctx, "read-private")
	if err != nil {
		return err
	}
	const items = 1000
	ids, err := b.env.seed(ctx, t, seed{items: items, access: func(int) media.Access { return media.Public }})
	if err != nil {
		return err
	}
	if _, err := b.env.seed(ctx, secret, seed{items: items, access: func(int) media.Access { return media.Private }}); err != nil {
		return err
	}
	if err := b.env.vacuum(ctx); err != nil {
		return err
	}
	e, err := b.env.serve(ctx, service, t)
	if err != nil {
		return err
	}
	private := *e
	private.key = secret.APIKey
	direct, err := b.env.serveBare(ctx, t, e.baseURL)
	if err != nil {
		return err
	}

	c := b.compare("request", "ratio of requests/s", []string{"request", "service/s", "bare/s"}, client, service, bare, postgres)
	measure := func(what, path string, e, bare *endpoint, wanted *target, cpu map[string]*target) error {
		of := func(int64) string { return path }
		if path == "" {
			of = func(n int64) string { return "/media/get/" + ids[int(n)%len(ids)].String() }
		}
		sides, err := b.reads(ctx, e, bare, of)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return c.measure(ctx, what, load{clients: b.Clients, rounds: b.Rounds, length: b.Length / 3}, sides,
			pair{against: 1, target: wanted, name: what, cells: []string{what}, cpu: cpu})
	}
	if err := measure("get", "", e, direct, minimum(0.85), nil); err != nil {
		return err
	}
	if err := measure("list, limit 10", "/media/get?limit=10", e, direct, minimum(0.7), nil); err != nil {
		return err
	}
	if err := measure("list, limit 100", "/media/get?limit=100", e, direct, minimum(0.7), nil); err != nil {
		return err
	}
	direct.Stop()
	if direct, err = b.env.serveBare(ctx, secret, e.baseURL); err != nil {
		return err
	}
	if err := measure("list, limit 100, private", "/media/get?limit=100", &private, direct, nil, map[string]*target{service: maximum(1.4)}); err != nil {
		return err
	}
	c.print()
	b.note("%d clients; both sides gave the same JSON; a list is two queries on the bare side, which decodes objects with encoding/json and neither signs the addresses of private items nor asks for a key", b.Clients)
	return nil
}

// reads makes the two sides, after a look at whether they answer alike.
func (b *bench) reads(ctx context.Context, e, direct *endpoint, path func(int64) string) ([]side, error) {
	got, err := e.get(ctx, path(0))
	if err != nil {
		return nil, err
	}
	want, err := direct.get(ctx, path(0))
	if err != nil {
		return nil, err
	}
	signed := bytes.Contains(got, []byte("signature="))
	if len(got) != len(want) || !signed && !bytes.Equal(got, want) {
		return nil, fmt.Errorf("the answers differ:\n%.500s\n%.500s", got, want)
	}
	of := func(name string, e *endpoint) side {
		return side{name: name, call: func(ctx context.Context, n int64) error {
			at := path(n)
			answer, err := e.get(ctx, at)
			if err == nil && len(answer) != len(got) {
				err = fmt.Errorf("%s gave %d bytes, not %d", at, len(answer), len(got))
			}
			return err
		}}
	}
	return []side{of("service", e), of("bare", direct)}, nil
}
