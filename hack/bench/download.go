package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/minio/minio-go/v7"
)

// hashEvery is how many downloads come between two whose bytes are hashed.
const hashEvery = 50

// download compares files served by the runtime with bare gets of the same objects, and with a proxy that
// does nothing else.
func download(ctx context.Context, b *bench) error {
	t, e, err := b.serveTenant(ctx, "download")
	if err != nil {
		return err
	}
	passing, err := b.env.serveProxy(ctx)
	if err != nil {
		return err
	}
	c := b.compare("download", "ratio of files/s", []string{"file", "against", "files/s", "its/s"}, client, service, proxy, postgres, store)
	for _, size := range []struct {
		name          string
		bytes, copies int
		direct, proxy *target // against minio-go, and against the proxy
	}{{"100 KB", 100_000, 64, minimum(0.65), minimum(1)}, {"10 MB", 10_000_000, 8, nil, minimum(1.1)}} {
		files, err := b.storeFiles(ctx, e, size.bytes, size.copies)
		if err != nil {
			return err
		}
		keys := make([]string, len(files.items))
		for i, item := range files.items {
			keys[i] = t.keyOf(original(item.MediaID))
		}
		sides := []side{
			{name: "stream", call: files.through(e)},
			{name: "minio-go", call: func(ctx context.Context, n int64) error {
				body, _, _, err := b.env.bare.GetObject(ctx, t.Account.Bucket, keys[n%int64(len(keys))], minio.GetObjectOptions{})
				if err != nil {
					return err
				}
				defer body.Close()
				return files.check(n, body)
			}},
			{name: proxy, call: func(ctx context.Context, n int64) error {
				return files.read(ctx, n, passing, "/"+t.Account.Bucket+"/"+keys[n%int64(len(keys))])
			}},
		}
		var pairs []pair
		for i, wanted := range []*target{size.direct, size.proxy} {
			against := sides[i+1].name
			pairs = append(pairs, pair{against: i + 1, target: wanted, name: size.name + " against " + against, cells: []string{size.name, against}})
		}
		if err := c.measure(ctx, size.name, load{clients: b.Clients, rounds: b.Rounds, length: b.Length}, sides, pairs...); err != nil {
			return err
		}
		if err := t.removeObjects("media"); err != nil {
			return err
		}
	}
	c.print()
	b.note("%d clients; sealed public files; every length and every %dth hash is checked", b.Clients, hashEvery)
	return nil
}

func sizeName(bytes int) string {
	if bytes > 0 && bytes%(1<<30) == 0 {
		return fmt.Sprintf("%d GiB", bytes>>30)
	}
	if bytes > 0 && bytes%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", bytes>>20)
	}
	if bytes >= 1_000_000 {
		return fmt.Sprintf("%d MB", bytes/1_000_000)
	}
	return fmt.Sprintf("%d KB", bytes/1000)
}

// files are sealed items with the same bytes.
type files struct {
	items []document
	size  int64
	sum   [sha256.Size]byte
}

// storeFiles uploads and seals public files.
func (b *bench) storeFiles(ctx context.Context, e *endpoint, size, copies int) (*files, error) {
	data := randomBytes(size)
	f := newForm("bench.bin", data, "access", "public")
	stored := &files{size: int64(size), sum: sha256.Sum256(data)}
	for range copies {
		draft, err := e.store(ctx, f)
		if err != nil {
			return nil, err
		}
		item, err := e.seal(ctx, draft.MediaID)
		if err != nil {
			return nil, err
		}
		stored.items = append(stored.items, item)
	}
	return stored, nil
}

// of returns the file that a call reads.
func (f *files) of(n int64) document { return f.items[n%int64(len(f.items))] }

// through reads files from a runtime, following it where it leads.
func (f *files) through(e *endpoint) call {
	return func(ctx context.Context, n int64) error {
		return f.read(ctx, n, e, "/media/file/"+f.of(n).MediaID+"/original/bench.bin")
	}
}

// read reads one file to its end.
func (f *files) read(ctx context.Context, n int64, e *endpoint, path string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, e.baseURL+path, nil)
	if err != nil {
		return err
	}
	response, err := e.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("a file was answered %s", response.Status)
	}
	return f.check(n, response.Body)
}

// check reads a body to its end.
func (f *files) check(n int64, body io.Reader) error {
	digest := sha256.New()
	into := io.Discard
	if n%hashEvery == 0 {
		into = digest
	}
	read, err := io.Copy(into, body)
	switch {
	case err != nil:
		return err
	case read != f.size:
		return fmt.Errorf("of %d bytes %d came", f.size, read)
	case n%hashEvery == 0 && [sha256.Size]byte(digest.Sum(nil)) != f.sum:
		return errors.New("other bytes came than were stored")
	}
	return nil
}
