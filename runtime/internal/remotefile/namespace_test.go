package remotefile_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/wait"
)

// inNamespace is set in the process of the test that has a network of its own.
const inNamespace = "MEDIASTACK_TEST_NETWORK_NAMESPACE"

// The kernel answers for what the dialer is told: in a network of their own, in which each of the addresses exists and
// has a listener, none is reached. Nothing leaves that network: it has no other interface.
func TestOpen_ReachesNoListenerOfAnInternalAddress(t *testing.T) {
	if os.Getenv(inNamespace) != "" {
		reachesNoListener(t)
		return
	}
	t.Parallel()
	testenv.Program(t, "ip")
	program, err := os.Executable()
	must(t, err)
	child := exec.CommandContext(t.Context(), program, "-test.run=^"+t.Name()+"$", "-test.v")
	child.Env = append(os.Environ(), inNamespace+"=1")
	child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}}
	output, err := child.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) {
		t.Skipf("the test needs the right to make network namespaces: %v", err)
	}
	if err != nil || !strings.Contains(string(output), "--- PASS") {
		t.Errorf("%v\n%s", err, output)
	}
	t.Logf("%s", output)
}

func reachesNoListener(t *testing.T) {
	t.Helper()
	interfaces, err := net.Interfaces()
	must(t, err)
	for _, one := range interfaces {
		if one.Flags&net.FlagLoopback == 0 && one.Flags&net.FlagUp != 0 {
			t.Fatalf("this network has the interface %s: nothing may be sent", one.Name)
		}
	}
	configure(t, "link set lo up")
	site := newRedirecting(t)
	const public4, public6 = "198.41.0.4", "2001:503:ba3e::2:30" // here, they are of this network
	addresses := map[netip.Addr]bool{netip.MustParseAddr(public4): true, netip.MustParseAddr(public6): true}
	for _, text := range internal {
		carried := netip.MustParseAddr(text)
		for _, address := range forms(carried) {
			addresses[address.Unmap()] = true // as a connection to it is made
		}
		addresses[carried] = true
	}
	var hits atomic.Int64
	listeners := map[netip.Addr]string{}
	for address := range addresses {
		// The loopback addresses exist, one of a link needs a zone, and the unspecified ones are those of the machine.
		if !address.IsLoopback() && !address.IsLinkLocalUnicast() && !address.IsUnspecified() || address == netip.MustParseAddr("169.254.169.254") {
			options := ""
			if address.Is6() {
				options = "nodad" // it is usable at once
			}
			configure(t, fmt.Sprintf("addr add %s/%d dev lo %s", address, address.BitLen(), options))
		}
		if address.IsUnspecified() {
			continue
		}
		to := net.JoinHostPort(address.String(), fmt.Sprint(site.Port))
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", to)
		if err != nil {
			t.Logf("no listener at %s: %v", to, err) // that of the site at 127.0.0.2 is one already
			continue
		}
		listeners[address] = to
		t.Cleanup(func() { _ = listener.Close() })
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				hits.Add(1)
				_ = conn.Close()
			}
		}()
	}
	for address, to := range listeners { // each can be reached
		before := hits.Load()
		conn, err := dialRouted(t, to)
		if err != nil {
			t.Fatalf("%s: %v", address, err)
		}
		_ = conn.Close()
		// The client sees its connection before the listener does.
		wait.Until(t, "the listener has accepted the connection", func() bool { return hits.Load() > before })
	}
	if len(listeners) < 80 {
		t.Errorf("there are %d listeners only", len(listeners))
	}
	hits.Store(0)
	cases := site.rejectsAll(t, site.Client(t))
	if hits.Load() != 0 || site.Trapped.Load() != 0 {
		t.Errorf("%d connections reached a listener, and %d the trap", hits.Load(), site.Trapped.Load())
	}
	t.Logf("%d forms of addresses, %d listeners, %d hits", cases, len(listeners), hits.Load())
	for i, address := range []string{public4, public6} { // the listeners count: public addresses are reached
		name := fmt.Sprintf("public%d.example.com", i)
		site.Resolve(name, address)
		if _, err := get(t, site.Client(t), site.Named(name, "/")); err == nil || hits.Load() != int64(i+1) {
			t.Errorf("%s: %v, %d hits", address, err, hits.Load())
		}
	}
}

// dialRouted connects to an address that this network has been given: the kernel adds the route to an IPv6
// address some time after the address.
func dialRouted(t *testing.T, to string) (conn net.Conn, err error) {
	t.Helper()
	wait.Until(t, "there is a route to "+to, func() bool {
		conn, err = (&net.Dialer{Timeout: wait.Timeout(t)}).DialContext(t.Context(), "tcp", to)
		return !errors.Is(err, syscall.ENETUNREACH)
	})
	return conn, err
}

// configure changes the network of this process, which has no other one.
func configure(t *testing.T, command string) {
	t.Helper()
	if output, err := exec.CommandContext(t.Context(), "ip", strings.Fields(command)...).CombinedOutput(); err != nil {
		t.Logf("ip %s: %v: %s", command, err, output)
	}
}
