// Package proxy tests the runtime behind a real proxy, HAProxy, that passes bodies on while they arrive.
// Its clients have addresses of their own (127.0.0.0/8), which it forwards.
package proxy

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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

// proxyAddress is the address from which the proxy connects to the runtime, which trusts it.
const proxyAddress = "127.0.0.9"

// configuration is that of HAProxy. What it would end by itself would hide what the runtime does, so it has
// long timeouts and tries nothing twice. It does not buffer bodies, and keeps no connection that no request uses.
const configuration = `
global
	maxconn %[6]d
	nbthread 1
defaults
	mode http
	timeout connect 10m
	timeout client 10m
	timeout server 10m
	retries 0
	maxconn %[6]d
frontend plain
	bind 127.0.0.1:%[1]d
	default_backend forwarding
frontend multiplexed
	bind 127.0.0.1:%[2]d proto h2
	default_backend forwarding
frontend nameless
	bind 127.0.0.1:%[3]d
	default_backend silent
backend forwarding
	option forwardfor
	source %[5]s
	server runtime %[4]s pool-max-conn 0
backend silent
	source %[5]s
	server runtime %[4]s pool-max-conn 0
`

// site is a runtime behind a proxy.
type site struct {
	t testing.TB
	// plain, http2 and nameless are addresses of the proxy: of HTTP/1.1, of HTTP/2 without TLS, and of one that does
	// not forward the address of the client.
	plain, http2, nameless string
	admin                  string
	database               string
	access                 testenv.S3Access
	tenants                []provision.Tenant
}

// newSite starts a runtime with so many accounts, behind a proxy for so many clients.
func newSite(t testing.TB, accounts, clients int, env ...string) *site {
	t.Helper()
	s := &site{t: t, database: testenv.Postgres(t), access: testenv.S3(t)}
	var specs []account.Spec
	for i := range accounts {
		specs = append(specs, account.Spec{Namespace: "proxy", Name: fmt.Sprintf("account-%d", i), MaxStorage: 1 << 40, MaxUploadSize: 1 << 30})
	}
	var err error
	s.tenants, err = provision.Accounts(t.Context(), s.database, s.access, specs...)
	must(t, err)
	ports := []int{testenv.FreePort(t), testenv.FreePort(t), testenv.FreePort(t)}
	addresses := make([]string, len(ports))
	for i, port := range ports {
		addresses[i] = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	}
	s.plain, s.http2, s.nameless = addresses[0], addresses[1], addresses[2]
	runtime := testenv.Runtime(t, servers.RuntimeConfig{BaseURL: "http://" + s.plain, Stores: testenv.StoreSettings(s.database, s.access),
		Env: append([]string{"SERVICE_TRUSTED_PROXIES=" + proxyAddress, "SERVICE_PPROF=true", "SERVICE_RATE_LIMIT_KEY=0", "SERVICE_RATE_LIMIT_IP=0"}, env...)})
	for _, setting := range runtime.Spec.Env {
		if address, ok := strings.CutPrefix(setting, "SERVICE_ADMIN_LISTEN="); ok {
			s.admin = "http://" + address
		}
	}
	folder := testenv.TempDir(t)
	file := filepath.Join(folder, "haproxy.cfg")
	must(t, os.WriteFile(file, fmt.Appendf(nil, configuration, ports[0], ports[1], ports[2], runtime.Addr, proxyAddress, clients+100), 0o600))
	_, err = testenv.Group(t).Start(t.Context(), testenv.Spec{Name: "haproxy", Path: testenv.Program(t, "haproxy"), Args: []string{"-db", "-f", file},
		LogFile: filepath.Join(folder, "haproxy.log"), Ready: testenv.Answers("http://" + s.plain + "/openapi.json")})
	must(t, err)
	return s
}

// accounts returns a key of each of the first accounts.
func (s *site) accounts(n int) (keys []string) {
	for _, one := range s.tenants[:n] {
		keys = append(keys, one.APIKey)
	}
	return keys
}

// keys returns so many more keys of the first account, each of an app of its own.
func (s *site) keys(n int) (keys []string) {
	s.t.Helper()
	store, err := postgres.Open(s.t.Context(), postgres.Config{DatabaseURL: s.database})
	must(s.t, err)
	defer store.Close()
	registry := account.NewRegistry(store.Accounts, "proxy", time.Now)
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("app-%d", i))
	}
	open, _, err := registry.OpenApps(s.t.Context(), s.tenants[0].Account.ID, names)
	must(s.t, err)
	for _, app := range open {
		if app.ID == s.tenants[0].AppID {
			continue
		}
		key, _, err := registry.IssueKey(s.t.Context(), app.ID, 1, 0)
		must(s.t, err)
		keys = append(keys, key.Reveal())
	}
	return keys
}

// get reads a page of the admin server.
func (s *site) get(path string) string {
	s.t.Helper()
	got, err := exchange.Expect(s.t.Context(), http.DefaultClient, http.StatusOK, http.MethodGet, s.admin+path, nil)
	must(s.t, err)
	return string(got.Body)
}

// metric returns the value of one series.
func (s *site) metric(series string) float64 {
	s.t.Helper()
	for line := range strings.Lines(s.get("/metrics")) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			number, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			must(s.t, err)
			return number
		}
	}
	s.t.Fatalf("there is no metric %s", series)
	return 0
}

// memory is what the runtime holds after a garbage collection.
type memory struct{ heap, goroutines float64 }

func (s *site) memory() memory {
	s.t.Helper()
	for range 2 { // a pool keeps what it has for one collection
		s.get("/debug/pprof/heap?gc=1")
	}
	return memory{s.metric("go_memstats_heap_alloc_bytes"), s.metric("go_goroutines")}
}

// idle waits until no body is on its way.
func (s *site) idle(bodies float64) {
	s.t.Helper()
	wait.Until(s.t, "the bodies are gone", func() bool { return s.metric("mediastack_http_bodies_in_flight") <= bodies })
}
