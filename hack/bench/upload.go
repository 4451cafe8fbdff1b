package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/minio/minio-go/v7"
)

// upload compares uploads through REST with bare puts of the same bytes, and with puts
// through a proxy that does nothing else.
func upload(ctx context.Context, b *bench) error {
	t, e, err := b.serveTenant(ctx, "upload")
	if err != nil {
		return err
	}
	through, err := b.env.serveProxy(ctx)
	if err != nil {
		return err
	}
	c := b.compare("upload", "ratio of files/s", []string{"file", "against", "REST/s", "its/s"}, client, service, proxy, postgres, store)
	for _, size := range []struct {
		name   string
		bytes  int
		target float64 // against the proxy, which is the most that is possible
		cpu    map[string]*target
	}{
		{"100 KB", 100_000, 0.75, map[string]*target{service: maximum(0.6), postgres: maximum(0.25)}},
		{"10 MB", 10_000_000, 0.8, map[string]*target{service: maximum(17)}},
	} {
		sides := b.uploads(t, e, through, size.bytes)
		var pairs []pair
		for i, other := range sides[1:] {
			p := pair{against: i + 1, name: size.name + ", " + other.name, cells: []string{size.name, other.name}}
			if other.name == proxy {
				p.target, p.cpu = minimum(size.target), size.cpu
			}
			pairs = append(pairs, p)
		}
		if err := c.measure(ctx, size.name, load{clients: b.Clients, rounds: b.Rounds, length: b.Length}, sides, pairs...); err != nil {
			return err
		}
	}
	c.print()
	b.note("%d clients; the client and all servers share the cores, so CPU time is what decides; the runtime's peak was %.0f MiB", b.Clients, mebibytes(memoryOf(e.PID()).VmHWM))
	return nil
}

// checkStored returns what is called after a round: one object of the round is read again, and all of
// them are removed.
func (b *bench) checkStored(t tenant, folder string, lastKey *atomic.Value, sum [sha256.Size]byte) func(context.Context) error {
	return func(ctx context.Context) error {
		prefix, _ := lastKey.Load().(string)
		if err := b.compareHash(ctx, t, t.keyOf(prefix), sum); err != nil {
			return err
		}
		return t.removeObjects(folder)
	}
}

// uploadSide uploads a file through REST.
func (b *bench) uploadSide(t tenant, e *endpoint, data []byte) side {
	var lastKey atomic.Value
	f := newForm("bench.bin", data)
	return side{name: "REST", after: b.checkStored(t, "media", &lastKey, sha256.Sum256(data)), call: func(ctx context.Context, _ int64) error {
		draft, err := e.store(ctx, f)
		if err == nil {
			lastKey.Store(original(draft.MediaID))
		}
		return err
	}}
}

func (b *bench) uploads(t tenant, e, through *endpoint, size int) []side {
	data := randomBytes(size)
	sum := sha256.Sum256(data)
	var lastKey atomic.Value
	check := func(prefix string) func(context.Context) error { return b.checkStored(t, prefix, &lastKey, sum) }
	// Keys of the service's depth: a store that keeps directories pays for them.
	direct := side{name: "minio-go", after: check("bare"), call: func(ctx context.Context, n int64) error {
		key := fmt.Sprintf("bare/%d/original", n)
		_, err := b.env.bare.Client.PutObject(ctx, t.Account.Bucket, key, bytes.NewReader(data), int64(size),
			minio.PutObjectOptions{DisableContentSha256: true})
		if err == nil {
			lastKey.Store(key)
		}
		return err
	}}
	passed := side{name: proxy, after: check("proxy"), call: func(ctx context.Context, n int64) error {
		key := fmt.Sprintf("proxy/%d/original", n)
		_, err := through.do(ctx, http.MethodPut, "/"+t.Account.Bucket+"/"+key, bytes.NewReader(data), "", http.StatusOK)
		if err == nil {
			lastKey.Store(key)
		}
		return err
	}}
	return []side{b.uploadSide(t, e, data), direct, passed}
}

// original is what the key of an item's file begins with.
func original(mediaID string) string { return "media/" + mediaID + "/original" }

// compareHash reads an object and compares it with what was stored.
func (b *bench) compareHash(ctx context.Context, t tenant, key string, want [sha256.Size]byte) error {
	body, _, _, err := b.env.bare.GetObject(ctx, t.Account.Bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return fmt.Errorf("read %s again: %w", key, err)
	}
	defer body.Close()
	digest := sha256.New()
	if _, err := io.Copy(digest, body); err != nil {
		return fmt.Errorf("read %s again: %w", key, err)
	}
	if [sha256.Size]byte(digest.Sum(nil)) != want {
		return fmt.Errorf("%s has other bytes than were stored", key)
	}
	return nil
}
