package runtimetest

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/net/dns/dnsmessage"

	"mediastack.dev/runtime/internal/remotefile"
)

// Host is the name of a Site, which its certificate is valid for.
const Host = "files.example.com"

// Site is a server of files at 127.0.0.1, with a name server and a trap: a listener at 127.0.0.2 with the
// same port, which nothing may reach.
type Site struct {
	Server *httptest.Server
	// Address is the name and the port of the site.
	Address string
	Port    int
	// Trapped counts the connections to the trap.
	Trapped atomic.Int64
	// Queries counts the questions to the name server for an address of IPv4.
	Queries atomic.Int64

	resolver *net.Resolver
	mu       sync.Mutex
	answers  map[string][][]netip.Addr
}

// NewSite returns a running site.
func NewSite(t *testing.T, handler http.HandlerFunc) *Site {
	t.Helper()
	s := &Site{Server: httptest.NewUnstartedServer(handler), answers: map[string][][]netip.Addr{}}
	s.Server.Config.ErrorLog = nil
	// Another process may use the port at the trap's address.
	var trap net.Listener
	for trap == nil {
		_, port, err := net.SplitHostPort(s.Server.Listener.Addr().String())
		must(t, err)
		s.Address = net.JoinHostPort(Host, port)
		s.Port, err = strconv.Atoi(port)
		must(t, err)
		trap, err = new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort("127.0.0.2", port))
		if !errors.Is(err, syscall.EADDRINUSE) {
			must(t, err)
			break
		}
		used := s.Server.Listener
		s.Server.Listener, err = new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0") // another port, as the first one is still in use
		must(t, err)
		must(t, used.Close())
	}
	t.Cleanup(func() { _ = trap.Close() })
	s.Server.StartTLS()
	t.Cleanup(func() { s.Server.CloseClientConnections(); s.Server.Close() })
	go func() {
		for {
			conn, err := trap.Accept()
			if err != nil {
				return
			}
			s.Trapped.Add(1)
			_ = conn.Close()
		}
	}()
	s.Resolve(Host, "127.0.0.1")
	s.serveNames(t)
	return s
}

// URL returns the URL of a path.
func (s *Site) URL(path string) string { return "https://" + s.Address + path }

// Named returns the URL of a path by another name.
func (s *Site) Named(host, path string) string {
	return "https://" + net.JoinHostPort(host, strconv.Itoa(s.Port)) + path
}

// Resolve sets the addresses that the name server returns for a name.
func (s *Site) Resolve(name string, addresses ...string) { s.rebind(name, addresses) }

// Rebind sets the addresses of a name one after the other: the second answer differs from the first.
func (s *Site) Rebind(name string, addresses ...string) {
	each := make([][]string, len(addresses))
	for i, address := range addresses {
		each[i] = []string{address}
	}
	s.rebind(name, each...)
}

func (s *Site) rebind(name string, answers ...[]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[name] = nil
	for _, answer := range answers {
		var addresses []netip.Addr
		for _, text := range answer {
			addresses = append(addresses, netip.MustParseAddr(text))
		}
		s.answers[name] = append(s.answers[name], addresses)
	}
}

// Deps returns the name server and the certification authority of the site.
func (s *Site) Deps() remotefile.Deps {
	roots := x509.NewCertPool()
	roots.AddCert(s.Server.Certificate())
	return remotefile.Deps{Roots: roots, Resolver: s.resolver}
}

// Config returns a configuration that allows the address and the port of the site.
func (s *Site) Config() remotefile.Config {
	return remotefile.Config{AllowNetworks: []string{"127.0.0.1/32"}, Ports: []int{443, s.Port},
		HeaderTimeout: 5 * time.Minute, StallTimeout: 10 * time.Minute, Timeout: Long}
}

// Client returns a client of the site.
func (s *Site) Client(t *testing.T, change ...func(*remotefile.Config)) *remotefile.Client {
	t.Helper()
	cfg := s.Config()
	for _, apply := range change {
		apply(&cfg)
	}
	client, err := remotefile.New(cfg, s.Deps())
	must(t, err)
	return client
}

// serveNames starts the name server, which answers by UDP.
func (s *Site) serveNames(t *testing.T) {
	t.Helper()
	conn, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		buffer := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			if answer := s.answer(buffer[:n]); answer != nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	}()
	s.resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// answer returns the answer to a question: NXDOMAIN for an unknown name.
func (s *Site) answer(question []byte) []byte {
	var message dnsmessage.Message
	if message.Unpack(question) != nil || len(message.Questions) != 1 {
		return nil
	}
	asked := message.Questions[0]
	name := strings.TrimSuffix(asked.Name.String(), ".")
	s.mu.Lock()
	defer s.mu.Unlock()
	answers, known := s.answers[name]
	reply := dnsmessage.Message{Header: dnsmessage.Header{ID: message.ID, Response: true, Authoritative: true}, Questions: message.Questions}
	if !known {
		reply.RCode = dnsmessage.RCodeNameError
	} else {
		for _, ip := range answers[0] {
			header := dnsmessage.ResourceHeader{Name: asked.Name, Class: dnsmessage.ClassINET}
			switch {
			case ip.Is4() && asked.Type == dnsmessage.TypeA:
				reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: ip.As4()}})
			case ip.Is6() && asked.Type == dnsmessage.TypeAAAA:
				reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: ip.As16()}})
			}
		}
		if asked.Type == dnsmessage.TypeA {
			s.Queries.Add(1)
			if len(answers) > 1 {
				s.answers[name] = answers[1:]
			}
		}
	}
	packed, _ := reply.Pack()
	return packed
}

// RunFetches runs the uploads from a URL of a replica until the test ends. The process has a lease.
func (e *Env) RunFetches(t *testing.T, core *Core) (stop func()) {
	t.Helper()
	_, err := e.Store.Installations.TouchRuntime(t.Context(), uuid.New(), "test", time.Hour)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = core.Tasks.Run(ctx) })
	stop = func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	return stop
}
