// Package scanner has the clients of the scanners that check files before they are sealed: clamd, and services that answer by HTTP. The
// installation names their addresses; no account does. Package gate calls them.
package scanner

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"strings"
	"time"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/gate"
)

// Config names the scanners of the installation. The tags are flag and environment names.
type Config struct {
	Clamd string        `name:"clamd-address" env:"SERVICE_CLAMD_ADDRESS" placeholder:"ADDRESS" help:"Address of clamd: tcp://HOST:PORT, or unix:/PATH. It checks the files of accounts with spec.gate.scanner clamd."`
	URLs  []string      `name:"gate-urls" env:"SERVICE_GATE_URLS" placeholder:"URL,..." help:"URLs of services that check the files of accounts with spec.gate.scanner http. If one fails, the next one is asked."`
	Idle  time.Duration `name:"gate-idle-timeout" env:"SERVICE_GATE_IDLE_TIMEOUT" default:"150s" help:"How long a scanner may take without a byte, and for its answer once it has the whole file: longer than MaxScanTime of clamd, which is 120s by default, or such a file is scanned again and again."`
}

// Validate checks the addresses.
func (c Config) Validate() error {
	if c.Clamd != "" {
		if _, _, err := parseClamd(c.Clamd); err != nil {
			return fmt.Errorf("SERVICE_CLAMD_ADDRESS: %w", err)
		}
	}
	for _, text := range c.URLs {
		if err := checkURL(text); err != nil {
			return fmt.Errorf("SERVICE_GATE_URLS: %w", err)
		}
	}
	if c.Idle <= 0 {
		return fmt.Errorf("SERVICE_GATE_IDLE_TIMEOUT must be positive, not %s", c.Idle)
	}
	return nil
}

// Scanners returns the scanners of the installation, by their names.
func (c Config) Scanners() (map[string]gate.Scanner, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	scanners := map[string]gate.Scanner{}
	if c.Clamd != "" {
		network, address, _ := parseClamd(c.Clamd)
		scanners[account.ScannerClamd] = &Clamd{network: network, address: address, idle: c.Idle}
	}
	if len(c.URLs) > 0 {
		scanners[account.ScannerHTTP] = newHTTP(c.URLs, c.Idle)
	}
	return scanners, nil
}

var errClamdAddress = errors.New("must be tcp://HOST:PORT or unix:/PATH")

// parseClamd returns the network and the address of clamd.
func parseClamd(text string) (network, address string, err error) {
	if file, ok := strings.CutPrefix(text, "unix:"); ok {
		file = strings.TrimPrefix(file, "//")
		if !path.IsAbs(file) {
			return "", "", errClamdAddress
		}
		return "unix", file, nil
	}
	address, ok := strings.CutPrefix(text, "tcp://")
	host, port, err := net.SplitHostPort(address)
	if !ok || err != nil || host == "" || port == "" {
		return "", "", errClamdAddress
	}
	return "tcp", address, nil
}

// checkURL returns an error for a URL to which no file can be sent. The error does not contain it: it may have a password.
func checkURL(text string) error {
	parsed, err := url.Parse(text)
	if err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Host == "" || parsed.Fragment != "" {
		return errors.New("each must be a URL such as https://scanner.example/scan")
	}
	return nil
}
