package servers

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"mediastack.dev/hack/setup"
)

// Free ports are taken from below the range that Linux uses for outgoing connections, so that none
// of these can take a port between the choice and its use.
const (
	firstFreePort = 20000
	lastFreePort  = 32000
)

// reservations are the ports that programs have chosen, so that none is chosen twice between the choice and its use: the
// test packages of a run are many programs. The byte at the number of a port is locked in a file that all share. The
// kernel ends the locks of a program with it.
var reservations struct {
	sync.Mutex
	file *os.File // closing it would end the locks of this program
	own  map[int]bool
}

// reservationsFile is the name of the file, in the cache.
const reservationsFile = "ports.lock"

// ReservePort reserves a port for this program until it ends, and reports whether it was not reserved before, by this
// program or another one of the same user.
func ReservePort(port int) (bool, error) {
	reservations.Lock()
	defer reservations.Unlock()
	if reservations.own[port] {
		return false, nil
	}
	if reservations.file == nil {
		dir, err := setup.CacheDir()
		if err != nil {
			return false, err
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return false, fmt.Errorf("reserve a port: %w", err)
		}
		file, err := os.OpenFile(filepath.Join(dir, reservationsFile), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return false, fmt.Errorf("reserve a port: %w", err)
		}
		reservations.file, reservations.own = file, map[int]bool{}
	}
	err := unix.FcntlFlock(reservations.file.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Start: int64(port), Len: 1})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reserve port %d: %w", port, err)
	}
	reservations.own[port] = true
	return true, nil
}

// FreePort chooses a loopback port that nothing listens on and no program has reserved, and reserves it.
func FreePort() (int, error) {
	const tries = 200
	for range tries {
		port := firstFreePort + rand.IntN(lastFreePort-firstFreePort)
		// A check listens for a moment: that of a port of another program could make that program fail.
		reserved, err := ReservePort(port)
		if err != nil {
			return 0, err
		}
		if reserved && CheckPort(port) == nil {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port found between %d and %d", firstFreePort, lastFreePort)
}

// ChoosePort checks that a port can be listened on, and chooses a free one for zero. It returns a port that is reserved,
// too: a program that starts this one may have chosen it.
func ChoosePort(port int) (int, error) {
	if port == 0 {
		return FreePort()
	}
	if err := CheckPort(port); err != nil {
		return 0, err
	}
	_, err := ReservePort(port)
	return port, err
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
