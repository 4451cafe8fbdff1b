package remotefile_test

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/publicnet"
	"mediastack.dev/runtime/internal/remotefile"
)

func defaults() remotefile.Config {
	return remotefile.Config{Ports: []int{443}, HeaderTimeout: 15 * time.Second, StallTimeout: 30 * time.Second, Timeout: time.Hour, MinRate: 16384}
}

var rejectedURLs = []string{
	"", "x", "http://example.com/", "HTTP://example.com", "ftp://example.com/", "file:///etc/passwd", "https:", "https:/a", "https:///a", "https:example.com", "//example.com/",
	"https://user@example.com/", "https://user:secret@example.com/", "https://@example.com/", "https://example.com:80/", "https://example.com:65536/", "https://example.com:x/",
	"https://exa mple.com/", "https://example.com/a b", "https://example.com\\@127.0.0.1/", "https://example.com/\n", "https://ex\u00e4mple.com/", "https://example.com/\u00e4",
	"https://127.0.0.1/", "https://[::1]/", "https://[::ffff:127.0.0.1]/", "https://[fe80::1%25eth0]/", "https://[64:ff9b::1]/", "https://169.254.169.254/latest", "https://example..com/", "https://.com/",
	"https://" + strings.Repeat("a", 64) + ".com/", "https://example.com/" + strings.Repeat("a", remotefile.MaxURL), "https://%65xample.com/", "https://ex*mple.com/", "gopher://example.com:443/",
}

func TestCheck_AcceptsHTTPSWithAPublicHostOnly(t *testing.T) {
	t.Parallel()
	client, err := remotefile.New(defaults(), remotefile.Deps{})
	must(t, err)
	for _, text := range rejectedURLs {
		if err := client.Check(text); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", text, err)
		} else if len(text) > 12 && strings.Contains(err.Error(), text[9:]) {
			t.Errorf("the error quotes the URL: %v", err)
		}
	}
	for _, text := range []string{"https://example.com", "https://example.com:443/a.jpg?x=1#y", "HTTPS://EXAMPLE.com./", "https://1.1.1.1/", "https://[2606:4700::1111]/", "https://a_b.example.com/%20"} {
		if err := client.Check(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestCheck_NamesTheAllowedPorts(t *testing.T) {
	t.Parallel()
	cfg := defaults()
	cfg.Ports = []int{443, 8443}
	client, err := remotefile.New(cfg, remotefile.Deps{})
	must(t, err)
	if err := client.Check("https://example.com:9000/"); err == nil || !strings.Contains(err.Error(), "443 8443") {
		t.Errorf("the error is %v", err)
	}
}

func FuzzCheck(f *testing.F) {
	for _, text := range rejectedURLs {
		f.Add(text)
	}
	f.Add("https://example.com:443/a.jpg?x=1#y")
	f.Add("https://[2606:4700::1111]/")
	cfg := defaults()
	cfg.Ports = []int{443, 8443}
	client, err := remotefile.New(cfg, remotefile.Deps{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if client.Check(text) != nil {
			return
		}
		target, err := url.Parse(text)
		if err != nil {
			t.Fatalf("%q is accepted: %v", text, err)
		}
		if target.Scheme != "https" || target.User != nil || target.Hostname() == "" || strings.ContainsAny(target.Host, "@\\/ %") || !slices.Contains([]string{"", "443", "8443"}, strings.TrimLeft(target.Port(), "0")) {
			t.Errorf("%q is accepted", text)
		}
		if ip, err := netip.ParseAddr(target.Hostname()); err == nil && !publicnet.Contains(ip) {
			t.Errorf("%q is accepted", text)
		}
		// What is accepted means the same after it was written and read again.
		again, err := url.Parse(target.String())
		if err != nil || again.Host != target.Host {
			t.Errorf("%q becomes %q", text, target)
		}
	})
}

// In a pod, "files.example.com" is looked up as "files.example.com.team.svc.cluster.local" first, which a tenant may own.
func TestAbsolute_NamesHaveNoSearchDomain(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"files.example.com:443": "files.example.com.:443", "files.example.com.:443": "files.example.com.:443", "postgres:5432": "postgres.:5432",
		"198.41.0.4:443": "198.41.0.4:443", "[2001:503:ba3e::2:30]:443": "[2001:503:ba3e::2:30]:443",
	} {
		if got, err := remotefile.Absolute(address); err != nil || got != want {
			t.Errorf("%s becomes %s, %v", address, got, err)
		}
	}
}
