package remotefile_test

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"mediastack.dev/runtime/fetch"
	"mediastack.dev/runtime/internal/remotefile"
	"mediastack.dev/runtime/internal/runtimetest"
)

// forms returns the forms in which IPv6 carries an IPv4 address, by their names. All of them reach the IPv4
// address on a network that has the translator or the tunnel.
func forms(carried netip.Addr) map[string]netip.Addr {
	v4 := carried.As4()
	at := func(prefix string, offset int, bytes ...byte) netip.Addr {
		address := netip.MustParseAddr(prefix).As16()
		copy(address[offset:], bytes)
		return netip.AddrFrom16(address)
	}
	inverted := binary.BigEndian.AppendUint32(nil, ^binary.BigEndian.Uint32(v4[:]))
	return map[string]netip.Addr{
		"mapped (RFC 4291)":                  netip.AddrFrom16(carried.As16()),
		"compatible (RFC 4291)":              at("::", 12, v4[:]...),
		"translated (RFC 2765)":              at("::ffff:0:0:0", 12, v4[:]...),
		"NAT64 (RFC 6052)":                   at("64:ff9b::", 12, v4[:]...),
		"NAT64 of a network, /48 (RFC 8215)": at("64:ff9b:1::", 6, v4[0], v4[1], 0, v4[2], v4[3]),
		"NAT64 of a network, /96 (RFC 8215)": at("64:ff9b:1:ffff::", 12, v4[:]...),
		"6to4 (RFC 3056)":                    at("2002::", 2, v4[:]...),
		"6to4, with an interface":            at("2002::1", 2, v4[:]...),
		"Teredo, the server (RFC 4380)":      at("2001::", 4, v4[:]...),
		"Teredo, the client, inverted":       at("2001:0:808:808::", 12, inverted...),
		"ISATAP, local (RFC 5214)":           at("2606:4700::5efe:0:0", 12, v4[:]...),
		"ISATAP, global":                     at("2606:4700::200:5efe:0:0", 12, v4[:]...),
		"ISATAP, link-local":                 at("fe80::5efe:0:0", 12, v4[:]...),
	}
}

// internal are addresses that must not be reached: the trap's, metadata of cloud providers, and private ones.
var internal = []string{"127.0.0.2", "169.254.169.254", "10.0.0.1", "172.16.0.1", "192.168.0.1", "100.100.100.200", "168.63.129.16", "0.0.0.0"}

// redirecting is a site that redirects the path /redirect to a target.
type redirecting struct {
	*runtimetest.Site
	target atomic.Value
}

func newRedirecting(t *testing.T) *redirecting {
	t.Helper()
	r := &redirecting{}
	r.Site = runtimetest.NewSite(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/redirect" {
			w.Header().Set("Location", r.target.Load().(string))
			w.WriteHeader(http.StatusFound)
		}
	})
	return r
}

// rejectsAll requires that a client rejects each address that must not be reached, in each form: as a literal, by
// name, as a second answer of DNS after one that is allowed, and as the target of a redirect, as a literal, by name
// and by a name that is rebound. It returns how many addresses it has tried.
func (r *redirecting) rejectsAll(t *testing.T, client *remotefile.Client) (cases int) {
	t.Helper()
	rejected := func(form, url string, code fetch.Code) {
		t.Helper()
		if _, err := get(t, client, url); !strings.HasPrefix(fmt.Sprint(err), string(code)+": ") {
			t.Errorf("%s: %s: %v, want %s", form, url, err, code)
		}
	}
	for _, text := range internal {
		carried := netip.MustParseAddr(text)
		all := forms(carried)
		all["IPv4"] = carried
		for form, address := range all {
			cases++
			name, rebound := fmt.Sprintf("n%d.example.com", cases), fmt.Sprintf("r%d.example.com", cases)
			form = form + " of " + text
			literal := r.Named(address.String(), "/")
			if client.Check(literal) == nil {
				t.Errorf("%s is accepted in a URL", form)
			}
			rejected(form+", literal", literal, fetch.AddressNotAllowed)
			r.Resolve(name, address.String())
			rejected(form+", by name", r.Named(name, "/"), fetch.AddressNotAllowed)
			for _, path := range []string{"/", "/redirect"} {
				r.Rebind(rebound, "127.0.0.1", address.String())
				r.target.Store(r.Named(rebound, "/"))
				if path == "/" {
					if _, err := get(t, client, r.Named(rebound, "/")); err != nil {
						t.Fatalf("%s: %v", form, err)
					}
				}
				rejected(form+", rebound", r.Named(rebound, path), fetch.AddressNotAllowed)
			}
			r.target.Store(literal)
			rejected(form+", redirected", r.URL("/redirect"), fetch.RedirectNotAllowed)
			r.target.Store(r.Named(name, "/"))
			rejected(form+", redirected by name", r.URL("/redirect"), fetch.AddressNotAllowed)
		}
	}
	return cases
}

// Each connection that would be made ends in the test, which counts it.
func TestOpen_ReachesNoInternalAddressInAnyForm(t *testing.T) {
	t.Parallel()
	site := newRedirecting(t)
	client := site.Client(t)
	var hits, allowed atomic.Int64
	own := netip.MustParseAddrPort(fmt.Sprintf("127.0.0.1:%d", site.Port))
	client.Intercept(func(address string) bool {
		to, err := netip.ParseAddrPort(address)
		if err == nil && netip.AddrPortFrom(to.Addr().Unmap(), to.Port()) == own {
			allowed.Add(1)
			return true
		}
		hits.Add(1)
		t.Errorf("a connection to %s", address)
		return false
	})
	cases := site.rejectsAll(t, client)
	if hits.Load() != 0 || site.Trapped.Load() != 0 {
		t.Errorf("%d connections were about to be made, and %d reached the trap", hits.Load(), site.Trapped.Load())
	}
	if allowed.Load() < int64(4*cases) {
		t.Errorf("only %d connections were allowed in %d cases", allowed.Load(), cases)
	}
	t.Logf("%d forms of addresses, %d hits, %d connections to the site", cases, hits.Load(), allowed.Load())
}

// A public address is connected to: the interception works, and sends nothing.
func TestOpen_WouldConnectToPublicAddresses(t *testing.T) {
	t.Parallel()
	site := runtimetest.NewSite(t, http.NotFound)
	client := site.Client(t)
	var seen []string
	client.Intercept(func(address string) bool { seen = append(seen, address); return false })
	site.Resolve("public.example.com", "198.41.0.4")
	for _, url := range []string{site.Named("public.example.com", "/"), site.Named("198.41.0.4", "/"), site.Named("2001:503:ba3e::2:30", "/")} {
		if _, err := get(t, client, url); err == nil {
			t.Errorf("%s was reached", url)
		}
	}
	if len(seen) != 3 {
		t.Errorf("connections to %v", seen)
	}
}
