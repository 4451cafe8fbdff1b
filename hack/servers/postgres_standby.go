package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// StartStandby copies the running cluster into the directory of the configuration and starts the copy as a
// streaming replica. From then on a commit of the primary waits until the replica has it, so that
// Promote loses nothing that was acknowledged.
func (p *Postgres) StartStandby(ctx context.Context, config PostgresConfig) (*Postgres, error) {
	bin, credential, err := config.prepare()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(config.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the replica's data directory: %w", err)
	}
	if err := own(config.Dir, credential); err != nil {
		return nil, err
	}
	copying := exec.CommandContext(ctx, filepath.Join(bin, "pg_basebackup"), "-D", config.Dir, "-U", postgresUser,
		"-h", p.socketDir, "-p", fmt.Sprint(p.socketPort()), "-R", "-X", "stream", "-c", "fast", "--no-sync")
	copying.Dir, copying.Env = "/", minimalEnv()
	copying.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
	if output, err := copying.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("copy the cluster: %w: %s", err, strings.TrimSpace(string(output)))
	}
	socketDir, err := makeSocketDir(config.Dir, credential)
	if err != nil {
		return nil, err
	}
	replica := &Postgres{Port: config.Port, config: config, socketDir: socketDir, group: p.group}
	replica.spec = p.spec
	replica.spec.Name, replica.spec.LogFile = "the replica", config.LogFile
	replica.spec.Args, replica.spec.Ready = replica.arguments(), replica.ping
	if err := replica.Restart(ctx); err != nil {
		return nil, err
	}
	return replica, p.commitWithReplica(ctx)
}

// commitWithReplica makes commits wait for a replica, and waits until one streams.
func (p *Postgres) commitWithReplica(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, p.AdminURL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, statement := range []string{"ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	for {
		var streams bool
		if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = 'sync')").Scan(&streams); err != nil {
			return err
		}
		if streams {
			return p.awaitCheckpointer(ctx)
		}
		select {
		case <-ctx.Done():
			return errors.New("no replica follows the primary")
		case <-time.After(probePause):
		}
	}
}

// awaitCheckpointer waits until commits wait for a replica. The checkpointer decides that, when it has read the changed configuration:
// it does so before the next checkpoint. The server accepts a connection when it has told all its processes to read it.
func (p *Postgres) awaitCheckpointer(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, p.AdminURL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, "CHECKPOINT")
	return err
}

// Promote makes a replica, whose primary has ended, the primary.
func (p *Postgres) Promote(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, p.AdminURL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var promoted bool
	if err := conn.QueryRow(ctx, "SELECT pg_promote()").Scan(&promoted); err != nil {
		return err
	}
	if !promoted {
		return errors.New("the replica was not promoted")
	}
	return nil
}
