package servers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"mediastack.dev/hack/setup"
)

// BaseBackup copies the files of the running cluster into a new directory, in which StartPostgres can
// start a copy. The log that the server wrote meanwhile is included.
func (p *Postgres) BaseBackup(ctx context.Context, dir string) error {
	credential, err := postgresCredential()
	if err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if err := own(dir, credential); err != nil {
		return err
	}
	return runPostgres(ctx, credential, "pg_basebackup", "--dbname", p.AdminURL(postgresUser), "--pgdata", dir, "--checkpoint", "fast")
}

// Dump writes a database into a file of the custom format, with which several versions of PostgreSQL can
// work.
func (p *Postgres) Dump(ctx context.Context, database, file string) error {
	return runPostgres(ctx, nil, "pg_dump", "--dbname", p.AdminURL(database), "--format", "custom", "--file", file)
}

// RestoreDump reads the file of a dump into an empty database. The role of the product owns all of it.
func (p *Postgres) RestoreDump(ctx context.Context, database, file string) error {
	return runPostgres(ctx, nil, "pg_restore", "--dbname", p.AdminURL(database), "--no-owner", "--role", Role, "--exit-on-error", file)
}

func runPostgres(ctx context.Context, credential *syscall.Credential, program string, args ...string) error {
	bin, err := setup.FindPostgres()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(bin, program), args...)
	cmd.Dir = "/"
	cmd.Env = minimalEnv()
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s failed (%w): %s", program, err, strings.TrimSpace(string(output)))
	}
	return nil
}
