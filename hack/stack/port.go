package stack

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
)

// Free ports are taken from below the range that Linux uses for outgoing connections, so that none
// of these can take a port between the choice and its use.
const (
	firstFreePort = 20000
	lastFreePort  = 32000
)

// FreePort chooses a loopback port that nothing listens on.
func FreePort() (int, error) {
	const tries = 100
	for range tries {
		port := firstFreePort + rand.IntN(lastFreePort-firstFreePort)
		if CheckPort(port) == nil {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port found between %d and %d", firstFreePort, lastFreePort)
}

// CheckPort says in one sentence why a loopback port can't be listened on.
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

// choosePort checks a fixed port and chooses a free one for zero.
func choosePort(port int) (int, error) {
	if port == 0 {
		return FreePort()
	}
	return port, CheckPort(port)
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
