package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/hack/certificate"
	"mediastack.dev/hack/servers"
	"mediastack.dev/runtime/media"
)

// Names of the runtimes that sizing measures, besides service.
const (
	redirecting    = "redirecting"
	serviceTLS     = "runtime, TLS"
	serviceBothTLS = "runtime, TLS to S3"
)

// sizing measures what each kind of request costs in processor time, without TLS and with it, and the
// memory of uploads. It prints the tables of docs/guides/sizing.md.
func sizing(ctx context.Context, b *bench) error {
	s, err := newSizer(ctx, b)
	if err != nil {
		return err
	}
	kinds, err := s.kinds()
	if err != nil {
		return err
	}
	var rows []sizingRow
	for _, k := range kinds {
		row, err := s.measure(ctx, k)
		if err != nil {
			return err
		}
		rows = append(rows, row)
	}
	for _, v := range s.variants { // so they have no part in the memory
		v.e.Stop()
	}
	memory, err := s.uploadMemory(ctx, s.files)
	if err != nil {
		return err
	}
	for _, t := range []struct {
		title string
		text  table
	}{
		{"Processor time of one request, in milliseconds:", timeTable(rows)},
		{"What one core serves:", coreTable(rows)},
		{"Memory of uploads, in MiB:", memoryTable(memory)},
		{"Processor time of other sizes, in milliseconds:", lineTable(rows)},
		{"Processor time in one second, in cores, for three sizes:", loadTable(rows)},
	} {
		b.note("\n%s\n", t.title)
		t.text.markdown(b.out)
	}
	b.note("\n%d clients; connections are kept, except where the row says otherwise; lists and gets of private items; the tables above are those of docs/guides/sizing.md", b.Clients)
	return nil
}

// sizer has the runtimes that are compared.
type sizer struct {
	*bench
	files, items tenant
	ids          []uuid.UUID // of items
	variants     []sizingVariant
}

// sizingVariant is a runtime with its columns in the table, and the process of each.
type sizingVariant struct {
	name    string
	e       *endpoint
	columns map[string]string
	// storeOnly leaves out requests that do not reach S3; redirects takes those of redirected
	// downloads, and no others.
	storeOnly, redirects bool
	tls                  bool
}

func newSizer(ctx context.Context, b *bench) (s *sizer, err error) {
	s = &sizer{bench: b}
	if s.files, err = b.env.tenant(ctx, "sizing-files"); err != nil {
		return nil, err
	}
	if s.items, err = b.env.tenant(ctx, "sizing-items"); err != nil {
		return nil, err
	}
	if s.ids, err = b.env.seed(ctx, s.items, seed{items: 1000, access: func(int) media.Access { return media.Private }}); err != nil {
		return nil, err
	}
	if err := b.env.vacuum(ctx); err != nil {
		return nil, err
	}
	own, err := newCertificate(b.env.dir)
	if err != nil {
		return nil, err
	}
	second, err := b.env.startStoreTLS(ctx, own)
	if err != nil {
		return nil, err
	}
	all := func(runtime string) map[string]string {
		return map[string]string{columnRuntime: runtime, columnPostgres: postgres, columnStore: store}
	}
	plain, err := b.env.serve(ctx, service, s.files)
	if err != nil {
		return nil, err
	}
	redirect, err := b.env.serve(ctx, redirecting, s.files, "SERVICE_DELIVERY_MODE=redirect")
	if err != nil {
		return nil, err
	}
	oneTLS, err := b.env.serveTLS(ctx, serviceTLS, own, b.env.s3.Access, s.files)
	if err != nil {
		return nil, err
	}
	bothTLS, err := b.env.serveTLS(ctx, serviceBothTLS, own, second.Access, s.files)
	if err != nil {
		return nil, err
	}
	s.variants = []sizingVariant{
		{name: service, e: plain, columns: all(service)},
		{name: redirecting, e: redirect, columns: all(redirecting), redirects: true},
		{name: serviceTLS, e: oneTLS, columns: map[string]string{columnTLS: serviceTLS}, tls: true},
		{name: serviceBothTLS, e: bothTLS, columns: map[string]string{columnBothTLS: serviceBothTLS, columnStoreTLS: storeTLS}, tls: true, storeOnly: true},
	}
	return s, plain.switchImagesOn(ctx)
}

// sizingKind is a kind of request.
type sizingKind struct {
	name  string
	bytes int64 // of the file; 0 = none
	// noStore is a request that does not reach S3; redirect is a download that S3 sends; noTLS is not
	// measured with TLS.
	noStore, redirect, noTLS bool
	load                     load
	// prepare is called before the first round, on a runtime without TLS; nil = nothing.
	prepare func(ctx context.Context, e *endpoint) error
	side    func(e *endpoint) side
	after   func() error
}

// kinds are the kinds of requests, in the order of the table.
func (s *sizer) kinds() ([]sizingKind, error) {
	steady := load{clients: s.Clients, rounds: s.Rounds, length: s.Length}
	rounds := min(s.Rounds, 3) // of long calls
	var kinds []sizingKind
	upload := func(size int) {
		data := randomBytes(size)
		kinds = append(kinds, sizingKind{name: "upload of " + sizeName(size), bytes: int64(size), load: steady,
			side: func(e *endpoint) side { return s.uploadSide(s.files, e, data) }})
	}
	upload(100_000)
	upload(10_000_000)
	block := randomBytes(1 << 20)
	for _, chunk := range []int64{64 << 20, 8 << 20} {
		f := resumableFile{block: block, size: s.ResumableBytes, chunk: chunk}
		kinds = append(kinds, sizingKind{name: fmt.Sprintf("resumable upload, %s in chunks of %s", sizeName(int(f.size)), sizeName(int(chunk))), bytes: f.size,
			load: load{clients: 1, rounds: rounds, calls: 1}, side: func(e *endpoint) side { return s.resumableSide(s.files, e, f) }})
	}
	read := func(name string, of func(n int64) string, change func(*http.Transport)) {
		kinds = append(kinds, sizingKind{name: name, noStore: true, load: load{clients: s.Clients, rounds: s.Rounds, length: s.Length / 2}, side: func(e *endpoint) side {
			return s.readSide(e, of, change)
		}})
	}
	get := func(n int64) string { return "/media/get/" + s.ids[int(n)%len(s.ids)].String() }
	kept := func(*http.Transport) {}
	read("get", get, kept)
	read("get on a new connection", get, func(t *http.Transport) { t.DisableKeepAlives = true })
	read("list of 10", func(int64) string { return "/media/get?limit=10" }, kept)
	read("list of 100", func(int64) string { return "/media/get?limit=100" }, kept)
	download := func(name string, size, copies int, redirect bool) {
		var stored *files
		carried := int64(size)
		if redirect {
			carried = 0 // the runtime sends an address
		}
		kinds = append(kinds, sizingKind{name: name, bytes: carried, redirect: redirect, load: steady,
			prepare: func(ctx context.Context, e *endpoint) (err error) {
				stored, err = s.storeFiles(ctx, e, size, copies)
				return err
			},
			side:  func(e *endpoint) side { return side{call: stored.through(e)} },
			after: func() error { return s.files.removeObjects("media") },
		})
	}
	download("download of 100 KB", 100_000, 64, false)
	download("download of 10 MB", 10_000_000, 8, false)
	download("the same, sent by S3 (`SERVICE_DELIVERY_MODE=redirect`)", 10_000_000, 8, true)
	s.say("%s: making the photos", s.name)
	photos, err := imageFiles(s.Megapixels)
	for i, photo := range photos {
		const unit = 100_000 // the name has the size in tenths of a megabyte
		tenths := (len(photo.data) + unit/2) / unit
		kinds = append(kinds, sizingKind{name: fmt.Sprintf("thumbnail and WebP of a %s, %.1f MB", photo.what, float64(tenths)/10), bytes: int64(tenths * unit), noTLS: i > 0,
			load: load{rounds: rounds, calls: int64(s.Photos)}, side: func(e *endpoint) side { return imageSide(s.files, e, photo) }})
	}
	return kinds, err
}

// readSide reads items of the other account. change is made to the transport of the client.
func (s *sizer) readSide(e *endpoint, of func(n int64) string, change func(*http.Transport)) side {
	own := e.changed(change)
	own.key = s.items.APIKey
	return side{call: func(ctx context.Context, n int64) error {
		_, err := own.get(ctx, of(n))
		return err
	}}
}

// measure measures one kind of request.
func (s *sizer) measure(ctx context.Context, k sizingKind) (sizingRow, error) {
	variants := slices.DeleteFunc(slices.Clone(s.variants), func(v sizingVariant) bool {
		return v.redirects != k.redirect || v.storeOnly && k.noStore || v.tls && k.noTLS
	})
	if k.prepare != nil {
		if err := k.prepare(ctx, s.variants[0].e); err != nil {
			return sizingRow{}, err
		}
	}
	var sides []side
	for _, v := range variants {
		one := k.side(v.e)
		one.name = v.name
		sides = append(sides, one)
	}
	rounds, err := s.measureRounds(ctx, k.name, k.load, sides...)
	if err != nil {
		return sizingRow{}, err
	}
	row := sizingRow{request: k.name, bytes: k.bytes, cost: map[string]float64{}}
	for i, v := range variants {
		for column, process := range v.columns {
			if k.noStore && column == columnStore {
				continue
			}
			values := figures(rounds[i], func(r round) float64 { return r.perCall(process) })
			row.cost[column] = median(values)
		}
	}
	if k.after != nil {
		return row, k.after()
	}
	return row, nil
}

// certificateFiles are a self-signed certificate of the loopback address, in files, and what trusts it.
type certificateFiles struct {
	file, keyFile string
	roots         *x509.CertPool
}

func newCertificate(dir string) (certificateFiles, error) {
	made, err := certificate.SelfSigned(&x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, time.Now().Add(24*time.Hour))
	if err != nil {
		return certificateFiles{}, err
	}
	c := certificateFiles{file: filepath.Join(dir, "tls.crt"), keyFile: filepath.Join(dir, "tls.key"), roots: x509.NewCertPool()}
	c.roots.AddCert(made.Certificate)
	return c, errors.Join(os.WriteFile(c.file, made.PEM, 0o600), os.WriteFile(c.keyFile, made.KeyPEM, 0o600))
}

// serveTLS starts a runtime that takes HTTPS only. It reaches the given S3 store, whose certificate
// may be the same one.
func (env *environment) serveTLS(ctx context.Context, name string, c certificateFiles, access servers.S3Access, t tenant) (*endpoint, error) {
	port, err := servers.FreePort()
	if err != nil {
		return nil, err
	}
	e, err := env.serveConfig(ctx, t, servers.RuntimeConfig{Name: name, Port: port, BaseURL: fmt.Sprintf("https://127.0.0.1:%d", port),
		Env: []string{"SERVICE_TLS_CERT_FILE=" + c.file, "SERVICE_TLS_KEY_FILE=" + c.keyFile, "SERVICE_S3_ENDPOINT=" + access.Endpoint, "SSL_CERT_FILE=" + c.file}})
	if err != nil {
		return nil, err
	}
	return e.changed(func(transport *http.Transport) { transport.TLSClientConfig = &tls.Config{RootCAs: c.roots} }), nil
}

// startStoreTLS starts a second S3 store with the same objects, which takes HTTPS only.
func (env *environment) startStoreTLS(ctx context.Context, c certificateFiles) (*servers.S3, error) {
	second, err := env.group.StartS3(ctx, servers.S3Config{
		Dir: filepath.Join(env.dir, "s3"), LogFile: filepath.Join(env.dir, "s3-tls.log"), CertFile: c.file, KeyFile: c.keyFile,
		AccessKey: env.s3.Access.AccessKey, SecretKey: env.s3.Access.SecretKey,
	})
	if err == nil {
		env.watched[storeTLS] = second.PID()
	}
	return second, err
}
