// Package cdn tests that what is gone from the service is gone from the edge: Debian's Varnish with vmod xkey, with the configuration of the
// guide "Put a CDN in front", before two replicas.
package cdn

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"math/rand"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"mediastack.dev/hack/exchange"
	"mediastack.dev/hack/provision"
	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/postgres"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var must = check.NoError

const (
	loopback = "127.0.0.1"
	// purgeKey is that of the VCL.
	purgeKey = "change-this-key"
	// hit is what the edge says of what it has.
	hit = "varnish; hit"
)

// site is two replicas behind an edge.
type site struct {
	t testing.TB
	// edge is the URL of the edge, as clients reach it.
	edge string
	// way is between the replicas and the edge: purges pass through it.
	way      *testenv.TCPProxy
	varnish  *servers.Process
	replicas []*servers.Runtime
	database string
	tenant   provision.Tenant
	spec     account.Spec
	client   *http.Client

	mu sync.Mutex
	// ends has what must hold of addresses at the end.
	ends map[string]func(exchange.Answer) string
}

// newSite starts a site. env are more settings of the replicas.
func newSite(t testing.TB, env ...string) *site {
	t.Helper()
	s := &site{t: t, database: testenv.Postgres(t), ends: map[string]func(exchange.Answer) string{}}
	s.client = &http.Client{Timeout: wait.Timeout(t), Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	t.Cleanup(s.client.CloseIdleConnections)
	access := testenv.S3(t)
	s.spec = account.Spec{Namespace: "cdn", Name: "demo", MaxStorage: 1 << 40, MaxUploadSize: 1 << 30}
	tenants, err := provision.Accounts(t.Context(), s.database, access, s.spec)
	must(t, err)
	s.tenant = tenants[0]
	port := testenv.FreePort(t)
	address := loopback + ":" + strconv.Itoa(port)
	s.edge = "http://" + address
	s.way = testenv.NewTCPProxy(t, address)
	secret := servers.RandomSecret(32)
	for i := range 2 {
		s.replicas = append(s.replicas, testenv.Runtime(t, servers.RuntimeConfig{Name: fmt.Sprintf("runtime %d", i+1), BaseURL: s.edge, Secret: secret, Stores: testenv.StoreSettings(s.database, access),
			Env: append(append([]string{"SERVICE_TRUSTED_PROXIES=" + loopback + "/32", "SERVICE_CDN_PURGE=surrogate", "SERVICE_CDN_PURGE_URL=http://" + s.way.String(), "SERVICE_CDN_PURGE_KEY=" + purgeKey}, servers.Unlimited...), env...)}))
	}
	folder := testenv.TempDir(t)
	file := filepath.Join(folder, "edge.vcl")
	must(t, os.WriteFile(file, []byte(s.vcl()), 0o600))
	// Without a jail, which needs users of the machine, and without the port of the administrator.
	s.varnish, err = testenv.Group(t).Start(t.Context(), testenv.Spec{Name: "varnish", Path: testenv.Program(t, "varnishd"),
		Args:    []string{"-F", "-j", "none", "-n", filepath.Join(folder, "work"), "-f", file, "-a", address, "-T", "none", "-s", "malloc,256m", "-p", "thread_pool_min=20", "-p", "thread_pools=1"},
		LogFile: filepath.Join(folder, "varnish.log"), Ready: testenv.Answers(s.edge + "/openapi.json")})
	must(t, err)
	_, url := s.upload("probe.txt", text(10))
	s.tagged(url)
	return s
}

// tagged waits until all replicas answer for a file with tags: they record that there is an edge before they let it keep files.
func (s *site) tagged(url string) {
	s.t.Helper()
	wait.UntilNone(s.t, func() string {
		for i := range s.replicas {
			if got := s.get(s.at(i, url)); got.Header.Get("Surrogate-Key") == "" {
				return fmt.Sprintf("replica %d answers without tags: %d %v", i+1, got.Status, got.Header)
			}
		}
		return ""
	})
}

// vcl returns the configuration of the guide with the addresses of the site.
func (s *site) vcl() string {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(testenv.RepoRoot(s.t), "docs/examples/cdn/varnish.vcl"))
	must(s.t, err)
	vcl := string(data)
	replace := func(from, to string) {
		if strings.Count(vcl, from) != 1 {
			s.t.Fatalf("the VCL of the guide has %q %d times", from, strings.Count(vcl, from))
		}
		vcl = strings.Replace(vcl, from, to, 1)
	}
	for i, replica := range s.replicas {
		_, port, _ := strings.Cut(replica.Addr, ":")
		replace(fmt.Sprintf("    .host = \"192.0.2.%d\";\n    .port = \"8080\";\n", i+1), fmt.Sprintf("    .host = %q;\n    .port = %q;\n", loopback, port))
	}
	replace(`"192.0.2.0"/24;`, strconv.Quote(loopback)+";")
	return vcl
}

// direct returns the URL of a replica.
func (s *site) direct(replica int) string { return "http://" + s.replicas[replica].Addr }

// at returns the address of a file at a replica.
func (s *site) at(replica int, url string) string {
	return s.direct(replica) + strings.TrimPrefix(url, s.edge)
}

// get asks for an address as a client does.
func (s *site) get(url string, header ...string) exchange.Answer {
	s.t.Helper()
	got, err := exchange.Send(s.t.Context(), s.client, http.MethodGet, url, nil, header...)
	must(s.t, err)
	return got
}

// call sends a request of the tenant to a replica, which must be answered 200.
func (s *site) call(replica int, method, path string, body any, header ...string) exchange.Answer {
	s.t.Helper()
	got, err := s.try(s.t.Context(), replica, method, path, body, header...)
	must(s.t, err)
	if got.Status != http.StatusOK {
		s.t.Fatalf("%s %s: %d %s", method, path, got.Status, got.Body)
	}
	return got
}

// try is call that may fail.
func (s *site) try(ctx context.Context, replica int, method, path string, body any, header ...string) (exchange.Answer, error) {
	var sent io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return exchange.Answer{}, err
		}
		sent = bytes.NewReader(data)
		header = append([]string{"Content-Type", "application/json"}, header...) // a later one replaces it
	}
	return exchange.Send(ctx, s.client, method, s.direct(replica)+path, sent, append(header, "X-Service-Apikey", s.tenant.APIKey)...)
}

// patch changes an item.
func (s *site) patch(replica int, id string, change any) {
	s.t.Helper()
	s.call(replica, http.MethodPatch, "/media/"+id, change, "Content-Type", "application/merge-patch+json")
}

// upload stores a public file, and returns its id and its address.
func (s *site) upload(name string, data []byte, fields ...string) (id, url string) {
	s.t.Helper()
	id, url, err := s.tryUpload(s.t.Context(), 0, name, data, fields...)
	must(s.t, err)
	return id, url
}

// tryUpload is upload that may fail.
func (s *site) tryUpload(ctx context.Context, replica int, name string, data []byte, fields ...string) (id, url string, err error) {
	body, contentType := exchange.Form(name, data, append([]string{"access", "public"}, fields...)...)
	key := []string{"X-Service-Apikey", s.tenant.APIKey}
	got, err := exchange.Expect(ctx, s.client, http.StatusCreated, http.MethodPost, s.direct(replica)+"/media/create", bytes.NewReader(body), append(key, "Content-Type", contentType)...)
	if err != nil {
		return "", "", err
	}
	var made struct{ MediaID string }
	if err := json.Unmarshal(got.Body, &made); err != nil {
		return "", "", err
	}
	if got, err = exchange.Expect(ctx, s.client, http.StatusOK, http.MethodPost, s.direct(replica)+"/media/seal/"+made.MediaID, nil, key...); err != nil {
		return "", "", err
	}
	var sealed document
	if err := json.Unmarshal(got.Body, &sealed); err != nil {
		return "", "", err
	}
	return made.MediaID, sealed.File, nil
}

// document is what a test reads of an item.
type document struct {
	File    string
	Presets map[string]struct{ URL string }
}

// document reads an item.
func (s *site) document(id string) (d document) {
	s.t.Helper()
	must(s.t, json.Unmarshal(s.call(0, http.MethodGet, "/media/get/"+id+"?fields=file,presets", nil).Body, &d))
	return d
}

// keep lets the edge keep an address, and returns what it has.
func (s *site) keep(url string, header ...string) exchange.Answer {
	s.t.Helper()
	if first := s.get(url, header...); first.Status != http.StatusOK || first.Header.Get("Cache-Status") == hit {
		s.t.Fatalf("%s: the first answer is %d, %q", url, first.Status, first.Header.Get("Cache-Status"))
	}
	second := s.get(url, header...)
	if second.Status != http.StatusOK || second.Header.Get("Cache-Status") != hit {
		s.t.Fatalf("%s: the second answer is %d, %q", url, second.Status, second.Header.Get("Cache-Status"))
	}
	return second
}

// becomes waits until the answer of the edge has no problem, and has it checked again at the end.
func (s *site) becomes(what, url string, problem func(exchange.Answer) string) {
	s.t.Helper()
	wait.UntilNone(s.t, func() string {
		if text := problem(s.get(url)); text != "" {
			return what + ": " + text
		}
		return ""
	})
	s.finally(url, problem)
}

// finally has an address checked at the end.
func (s *site) finally(url string, problem func(exchange.Answer) string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends[url] = problem
}

// gone is the problem of an answer that is not 404.
func gone(answer exchange.Answer) string {
	if answer.Status != http.StatusNotFound {
		return fmt.Sprintf("it is answered %d, %q", answer.Status, answer.Header.Get("Cache-Status"))
	}
	return ""
}

// other returns the problem of an answer that still is what it was.
func other(was exchange.Answer) func(exchange.Answer) string {
	return func(answer exchange.Answer) string {
		if answer.Status != http.StatusOK || bytes.Equal(answer.Body, was.Body) {
			return fmt.Sprintf("it is answered %d, with the former bytes: %t", answer.Status, bytes.Equal(answer.Body, was.Body))
		}
		return ""
	}
}

// settle waits until all purges were sent, each twice, and checks the addresses once more: none may have come back.
func (s *site) settle() {
	s.t.Helper()
	wait.UntilNone(s.t, func() string {
		if n := s.count("SELECT count(*) FROM cdn_purge"); n != 0 {
			return fmt.Sprintf("%d purges wait", n)
		}
		return ""
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	stale := 0
	for url, problem := range s.ends {
		if text := problem(s.get(url)); text != "" {
			stale++
			s.t.Errorf("at the end, %s: %s", url, text)
		}
	}
	s.t.Logf("%d addresses checked at the end, %d stale", len(s.ends), stale)
	clear(s.ends)
}

// count returns what a statement counts.
func (s *site) count(statement string) (n int64) {
	s.t.Helper()
	must(s.t, testenv.Connections(s.t, s.database).QueryRow(s.t.Context(), statement).Scan(&n))
	return n
}

// metric returns the sum of a series over the replicas.
func (s *site) metric(series string) (sum float64) {
	s.t.Helper()
	for _, replica := range s.replicas {
		for _, setting := range replica.Spec.Env {
			address, ok := strings.CutPrefix(setting, "SERVICE_ADMIN_LISTEN=")
			if !ok {
				continue
			}
			for line := range strings.Lines(string(s.get("http://" + address + "/metrics").Body)) {
				if value, ok := strings.CutPrefix(line, series+" "); ok {
					number, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
					must(s.t, err)
					sum += number
				}
			}
		}
	}
	return sum
}

// suspend suspends the account, or ends that.
func (s *site) suspend(suspended bool) {
	s.t.Helper()
	store, err := postgres.Open(s.t.Context(), postgres.Config{DatabaseURL: s.database})
	must(s.t, err)
	defer store.Close()
	spec := s.spec
	spec.Suspended = suspended
	_, err = account.NewRegistry(store.Accounts, "cdn", time.Now).Ensure(s.t.Context(), spec)
	must(s.t, err)
}

// presets sets the presets of the tenant.
func (s *site) presets(list ...map[string]any) {
	s.t.Helper()
	s.call(0, http.MethodPost, "/settings/media/create", map[string]any{"presets": list})
}

// text returns a file that no other test has.
func text(size int) []byte {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte('a' + rand.Intn(26))
	}
	return data
}

// picture returns a PNG whose halves differ.
func picture(t testing.TB) []byte {
	t.Helper()
	img := image.NewRGBA(image.Rect(0, 0, 400, 200))
	shade := uint8(rand.Intn(256))
	for y := range 200 {
		for x := range 400 {
			img.Set(x, y, color.RGBA{uint8(x * 255 / 400), uint8(y), shade, 255})
		}
	}
	var out bytes.Buffer
	must(t, png.Encode(&out, img))
	return out.Bytes()
}
