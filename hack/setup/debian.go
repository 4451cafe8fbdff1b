package setup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

const createClusterConf = "/etc/postgresql-common/createcluster.conf"

// Packages makes sure that the Debian packages are there which the trial stack and the tests use.
// As root on Debian or Ubuntu it installs what is missing; anywhere else its error says what to install.
func Packages(ctx context.Context, out io.Writer) error {
	var missing []string
	_, noPostgres := FindPostgres()
	if noPostgres != nil {
		missing = append(missing, "postgresql")
	}
	if _, err := exec.LookPath("curl"); err != nil {
		missing = append(missing, "curl")
	}
	if len(missing) == 0 {
		return nil
	}
	if _, noApt := exec.LookPath("apt-get"); noApt != nil || os.Getuid() != 0 {
		if noPostgres == nil {
			fmt.Fprintln(out, "curl is missing; only the lines that `make run` prints need it")
		}
		return noPostgres
	}
	if noPostgres != nil {
		if err := keepClusterFromStarting(); err != nil {
			return err
		}
	}
	started := time.Now()
	fmt.Fprintln(out, "Debian packages: installing", strings.Join(missing, " and "))
	if err := aptGet(ctx, out, "update"); err != nil {
		return err
	}
	if err := aptGet(ctx, out, append([]string{"install", "-y", "--no-install-recommends"}, missing...)...); err != nil {
		return err
	}
	fmt.Fprintf(out, "Debian packages: installed in %s\n", time.Since(started).Round(time.Second))
	_, noPostgres = FindPostgres()
	return noPostgres
}

// keepClusterFromStarting tells the postgresql package not to make and start a cluster of its own:
// the trial stack has a private one. A machine that has the file already keeps it as it is.
func keepClusterFromStarting() error {
	if err := os.MkdirAll("/etc/postgresql-common", 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(createClusterConf, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = file.WriteString("# Written by mediastack's set-up, which runs PostgreSQL clusters of its own.\ncreate_main_cluster = false\n")
	return errors.Join(err, file.Close())
}

func aptGet(ctx context.Context, out io.Writer, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-q", "-o", "DPkg::Lock::Timeout=120", "-o", "Dpkg::Options::=--force-confold"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	done := make(chan struct{})
	defer close(done)
	go func() {
		started := time.Now()
		ticker := time.NewTicker(progressEvery)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				fmt.Fprintf(out, "Debian packages: apt-get %s, %s so far\n", args[0], time.Since(started).Round(time.Second))
			}
		}
	}()
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get %s: %w: %s", strings.Join(args, " "), err, lastLine(string(output)))
	}
	return nil
}
