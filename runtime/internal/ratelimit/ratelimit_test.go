package ratelimit

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/fault"
)

// limiter returns a Limiter whose clock the test advances, and its log.
func limiter(t testing.TB, cfg Config) (*Limiter, *time.Time, *bytes.Buffer) {
	t.Helper()
	now, logs := time.Unix(1e9, 0), &bytes.Buffer{}
	l, err := New(cfg, Deps{Registry: prometheus.NewRegistry(), Now: func() time.Time { return now }, Log: slog.New(slog.NewTextHandler(logs, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return l, &now, logs
}

func TestAllowKey_EmptiesTheBucketAndRefillsIt(t *testing.T) {
	t.Parallel()
	l, now, _ := limiter(t, Config{Key: 0.5, KeyBurst: 3})
	key := uuid.UUID{1}
	for i, want := range []string{`"api_key";r=2;t=2`, `"api_key";r=1;t=2`, `"api_key";r=0;t=2`} {
		header := http.Header{}
		decision := l.AllowKey(key)
		decision.AddHeaders(header)
		if decision.Limited || decision.Err() != nil || header.Get("RateLimit") != want || header.Get("RateLimit-Policy") != `"api_key";q=3;w=6` {
			t.Errorf("request %d: %t, %v", i+1, decision.Limited, header)
		}
	}
	*now = now.Add(500 * time.Millisecond)
	rejected := l.AllowKey(key)
	f := fault.From(rejected.Err())
	if !rejected.Limited || f.Kind != fault.Busy || f.RetryAfter != 1500*time.Millisecond {
		t.Errorf("the fourth: %+v, %+v", rejected, f)
	}
	if l.AllowKey(uuid.UUID{2}).Limited {
		t.Error("another key is rejected, too")
	}
	*now = now.Add(1500 * time.Millisecond) // the rejected request took no token
	if l.AllowKey(key).Limited || !l.AllowKey(key).Limited {
		t.Error("after two seconds one more must pass, and only one")
	}
}

func TestLimiter_AllowsEverythingWhenOff(t *testing.T) {
	t.Parallel()
	off, _, _ := limiter(t, Config{})
	for name, l := range map[string]*Limiter{"off": off, "none": nil} {
		header := http.Header{}
		for range 10_000 {
			decision := l.AllowIP(netip.MustParseAddr("192.0.2.1"))
			decision.AddHeaders(header)
			l.RecordFailure(netip.Addr{})
			if decision.Limited || l.AllowKey(uuid.UUID{}).Limited || l.AllowAttempt(netip.Addr{}).Limited {
				t.Fatalf("%s: rejected", name)
			}
		}
		if len(header) > 0 {
			t.Errorf("%s: %v", name, header)
		}
	}
}

func TestAllowAttempt_CountsFailuresOnly(t *testing.T) {
	t.Parallel()
	l, _, _ := limiter(t, Config{Failures: 1, FailuresBurst: 2})
	from := netip.MustParseAddr("192.0.2.1")
	for range 10 {
		if l.AllowAttempt(from).Limited {
			t.Fatal("an attempt counts")
		}
	}
	l.RecordFailure(from)
	l.RecordFailure(from)
	if !l.AllowAttempt(from).Limited || l.AllowAttempt(netip.MustParseAddr("192.0.2.2")).Limited {
		t.Error("two failures must stop one address, and no other")
	}
}

func TestClientPrefix_IsTheNetworkOfAnIPv6Client(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"192.0.2.1": "192.0.2.1/32", "::ffff:192.0.2.1": "192.0.2.1/32", "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64", "fe80::1%eth0": "fe80::/64",
	} {
		if got := ClientPrefix(netip.MustParseAddr(address)); got.String() != want {
			t.Errorf("%s counts as %s, want %s", address, got, want)
		}
	}
	if got := ClientPrefix(netip.Addr{}); got.IsValid() {
		t.Errorf("no address counts as %s", got)
	}
}

func TestLimiter_BoundsTheClientsItTracks(t *testing.T) {
	t.Parallel()
	l, _, _ := limiter(t, Config{IP: 1, IPBurst: 2})
	for i := range maxTrackedClients + 1000 {
		l.AllowIP(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}))
	}
	if got := l.ips.limiters.Len(); got != maxTrackedClients {
		t.Errorf("%d clients are tracked", got)
	}
}

func TestClientIP_TrustsConfiguredProxiesOnly(t *testing.T) {
	t.Parallel()
	l, _, logs := limiter(t, Config{TrustedProxies: []string{"10.0.0.0/8", " fd00::/8", "192.0.2.7", ""}})
	for _, tt := range []struct {
		peer      string
		forwarded []string
		want      string
	}{
		{"198.51.100.1:1234", nil, "198.51.100.1"},
		{"10.1.1.1:1234", nil, "10.1.1.1"},
		{"10.1.1.1:1234", []string{"198.51.100.1"}, "198.51.100.1"},
		{"10.1.1.1:1234", []string{"203.0.113.9, 198.51.100.1"}, "198.51.100.1"},             // the first is set by the client
		{"10.1.1.1:1234", []string{"203.0.113.9, 198.51.100.1", "10.2.2.2"}, "198.51.100.1"}, // through two proxies
		{"10.1.1.1:1234", []string{"203.0.113.9", "198.51.100.1, 192.0.2.7"}, "198.51.100.1"},
		{"10.1.1.1:1234", []string{"10.3.3.3, 10.2.2.2"}, "10.3.3.3"}, // from within
		{"10.1.1.1:1234", []string{"198.51.100.1, unknown"}, "10.1.1.1"},
		{"10.1.1.1:1234", []string{"198.51.100.1, unknown, 10.2.2.2"}, "10.2.2.2"},
		{"10.1.1.1:1234", []string{" 198.51.100.1:555 "}, "198.51.100.1"},
		{"10.1.1.1:1234", []string{"[2001:db8::1]:555"}, "2001:db8::1"},
		{"10.1.1.1:1234", []string{"[2001:db8::1]"}, "2001:db8::1"},
		{"[fd00::1]:1234", []string{"2001:db8::1"}, "2001:db8::1"},
		{"[::ffff:10.1.1.1]:1234", []string{"198.51.100.1"}, "198.51.100.1"},
		{"@", []string{"198.51.100.1"}, "invalid IP"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr, r.Header["X-Forwarded-For"] = tt.peer, tt.forwarded
		if got := l.ClientIP(r); got.String() != tt.want {
			t.Errorf("%s, %q: %s, want %s", tt.peer, tt.forwarded, got, tt.want)
		}
	}
	if logs.Len() > 0 {
		t.Errorf("the log says %s", logs)
	}
	for range 3 {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = "198.51.100.1:1234"
		r.Header.Set("X-Forwarded-For", "203.0.113.9")
		if got := l.ClientIP(r); got.String() != "198.51.100.1" {
			t.Errorf("an untrusted peer is believed: %s", got)
		}
	}
	if strings.Count(logs.String(), "SERVICE_TRUSTED_PROXIES") != 1 {
		t.Errorf("the log says %s", logs)
	}
}

func TestConfigValidate_RejectsInvalidBounds(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]Config{
		"SERVICE_RATE_LIMIT_KEY must":            {Key: -1, KeyBurst: 1},
		"SERVICE_RATE_LIMIT_IP must":             {IP: 1e9, IPBurst: 1},
		"SERVICE_RATE_LIMIT_AUTH_FAILURES_BURST": {Failures: 1},
		"SERVICE_TRUSTED_PROXIES":                {TrustedProxies: []string{"10.0.0.0/33"}},
	} {
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func BenchmarkAllowIP(b *testing.B) {
	l, now, _ := limiter(b, Config{IP: 1000, IPBurst: 4000})
	var addresses []netip.Addr
	for i := range 1000 {
		addresses = append(addresses, netip.MustParseAddr(fmt.Sprintf("10.0.%d.%d", i/256, i%256)))
	}
	for i := 0; b.Loop(); i++ {
		*now = now.Add(time.Microsecond)
		l.AllowIP(addresses[i%len(addresses)]).AddHeaders(http.Header{})
	}
}
