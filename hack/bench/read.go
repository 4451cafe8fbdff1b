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
	direct, err := b.env.serveBare(ctx, bare, t, e.baseURL)
	if err != nil {
		return err
	}
	directPrivate, err := b.env.serveBare(ctx, bare+", private", secret, e.baseURL)
	if err != nil {
		return err
	}

	c := b.compare("request", "ratio of requests/s", []string{"request", "service/s", "bare/s"}, client, service, bare, bare+", private", postgres)
	list := func(limit int) func(int64) string {
		return func(int64) string { return fmt.Sprintf("/media/get?limit=%d", limit) }
	}
	for _, one := range []struct {
		what      string
		path      func(int64) string
		e, direct *endpoint
		target    *target
		cpu       map[string]*target
	}{
		{"get", func(n int64) string { return "/media/get/" + ids[int(n)%len(ids)].String() }, e, direct, minimum(0.85), nil},
		{"list, limit 10", list(10), e, direct, minimum(0.7), nil},
		{"list, limit 100", list(100), e, direct, minimum(0.7), nil},
		{"list, limit 100, private", list(100), &private, directPrivate, nil, map[string]*target{service: maximum(1.4)}},
	} {
		sides, err := b.reads(ctx, one.e, one.direct, one.path)
		if err != nil {
			return fmt.Errorf("%s: %w", one.what, err)
		}
		if err := c.measure(ctx, one.what, load{clients: b.Clients, rounds: b.Rounds, length: b.Length / 3}, sides,
			pair{against: 1, target: one.target, name: one.what, cells: []string{one.what}, cpu: one.cpu}); err != nil {
			return err
		}
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
