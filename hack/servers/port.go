package servers

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"syscall"
)

// Free ports are taken from below the range that Linux uses for outgoing connections, so that none
// of these can take a port between the choice and its use.
const (
	firstFreePort = 20000
	lastFreePort  = 32000
)

// chosen holds the ports that this program has returned, so that it returns none twice between the
// choice and its use.
var chosen sync.Map

// FreePort chooses a loopback port that nothing listens on.
func FreePort() (int, error) {
	const tries = 200
	for range tries {
		port := firstFreePort + rand.IntN(lastFreePort-firstFreePort)
		if CheckPort(port) != nil {
			continue
		}
		if _, taken := chosen.LoadOrStore(port, true); !taken {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port found between %d and %d", firstFreePort, lastFreePort)
}

// ChoosePort checks that a port can be listened on, and chooses a free one for zero.
func ChoosePort(port int) (int, error) {
	if port == 0 {
		return FreePort()
	}
	if err := CheckPort(port); err != nil {
		return 0, err
	}
	chosen.Store(port, true)
	return port, nil
}

// CheckPort returns in one sentence why a loopback port can't be listened on.
func CheckPort(port int) error {
	listener, err := net.Listen("tcp", loopback(port))
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("port %d is already in use", port)
	}
	if err != nil {
		return fmt.Errorf("port %d can't be used: %w", port, err)
	}
	return listener.Close()
}

const loopbackAddress = "127.0.0.1"

func loopback(port int) string { return hostPort("", port) }

// hostPort returns the address of a port at an IP address, 127.0.0.1 when that is empty.
func hostPort(ip string, port int) string {
	return net.JoinHostPort(cmp.Or(ip, loopbackAddress), strconv.Itoa(port))
}
