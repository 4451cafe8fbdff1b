package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// clamdSignature is the signature of the EICAR test file, in the format of the databases with the extension ndb: at any place of a file of any
// type. The databases that ClamAV distributes are not needed: tests are about what is done with a finding.
const clamdSignature = "Eicar-Test-Signature:0:*:58354f2150254041505b345c505a58353428505e2937434329377d2445494341522d5354414e444152442d414e544956495255532d544553542d46494c452124482b482a\n"

// ClamdConfig configures a clamd.
type ClamdConfig struct {
	// Dir holds its configuration and its signatures; it is made when absent.
	Dir string
	// LogFile takes what it prints.
	LogFile string
	// Port is the TCP port; zero chooses a free one.
	Port int
	// StreamMaxLength is the largest file that it takes, in bytes; 4 MiB when zero.
	StreamMaxLength int64
}

// Clamd is a running clamd of Debian's clamav-daemon, with the signature of the EICAR test file.
type Clamd struct {
	*Process
	// Address is that of TCP.
	Address string

	group *Group
	spec  Spec
}

// Restart starts a server that has ended again, at its address.
func (c *Clamd) Restart(ctx context.Context) (err error) {
	c.Process, err = c.group.Start(ctx, c.spec)
	return err
}

// findClamd returns the path of clamd, which Debian has in a folder that users other than root do not search.
func findClamd() (string, error) {
	for _, name := range []string{"clamd", "/usr/sbin/clamd"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("clamd is missing: install Debian's clamav-daemon, as hack/packages.sh packages does")
}

// StartClamd starts a clamd on loopback.
func (g *Group) StartClamd(ctx context.Context, config ClamdConfig) (*Clamd, error) {
	binary, err := findClamd()
	if err != nil {
		return nil, err
	}
	port, err := ChoosePort(config.Port)
	if err != nil {
		return nil, fmt.Errorf("clamd: %w", err)
	}
	database := filepath.Join(config.Dir, "signatures")
	if err := os.MkdirAll(database, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of clamd: %w", err)
	}
	largest := config.StreamMaxLength
	if largest == 0 {
		largest = 4 << 20
	}
	// It says of encrypted archives, and of those that are larger than its limits, that it has not scanned them.
	settings := fmt.Sprintf("Foreground yes\nTCPAddr 127.0.0.1\nTCPSocket %d\nDatabaseDirectory %s\nTemporaryDirectory %s\nStreamMaxLength %d\nAlertEncrypted yes\nAlertExceedsMax yes\nMaxThreads 4\n",
		port, database, config.Dir, largest)
	if os.Geteuid() == 0 {
		settings += "User root\n" // the folder is that of the test
	}
	file := filepath.Join(config.Dir, "clamd.conf")
	for path, text := range map[string]string{filepath.Join(database, "eicar.ndb"): clamdSignature, file: settings} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return nil, fmt.Errorf("configure clamd: %w", err)
		}
	}
	c := &Clamd{Address: loopback(port), group: g}
	c.spec = Spec{Name: "clamd", Path: binary, Args: []string{"--config-file=" + file}, LogFile: config.LogFile, Ready: Accepts(c.Address)}
	return c, c.Restart(ctx)
}
