package servers

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/procfs"

	"mediastack.dev/hack/setup"
)

const (
	postgresUser = "postgres"
	// Role is the role without special rights that owns the databases of the product.
	Role = "mediastack"
	// The longest path of a unix socket is 107 bytes; PostgreSQL adds "/.s.PGSQL.5432".
	maxSocketFolder = 107 - len("/.s.PGSQL.65535")
	// A socket's name holds a port even where no port is listened on.
	socketOnlyPort = 5432
	crashTimeout   = 10 * time.Second
)

// PostgresConfig configures a PostgreSQL cluster.
type PostgresConfig struct {
	// Dir holds the cluster; it is made when absent. A root supervisor runs the server as the user
	// postgres, who must be able to reach the directory: see PostgresCanReach.
	Dir string
	// LogFile takes the server's log.
	LogFile string
	// TCP also listens on a port, where passwords are asked for.
	TCP bool
	// Address is the IP address of the port; 127.0.0.1 when empty. Any address may reach another one.
	Address string
	// Port is the TCP port; zero chooses a free one.
	Port int
	// Password is the password of the role mediastack. Needed with TCP.
	Password string
	// Volatile trades safety against a crash of the machine for speed. Tests only.
	Volatile bool
	// Settings are more settings of the server, by name.
	Settings map[string]string
}

// Postgres is a running PostgreSQL cluster.
type Postgres struct {
	*Process
	// Port is the TCP port, or zero.
	Port int

	config    PostgresConfig
	socketDir string
	group     *Group
	spec      Spec
}

// MakeDataDir makes a new directory below parent, the one for temporary files when it is empty, in which
// PostgreSQL can keep its data: see PostgresCanReach.
func MakeDataDir(parent, pattern string) (string, error) {
	parent = cmp.Or(parent, os.TempDir())
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", err
	}
	if !PostgresCanReach(parent) {
		return "", fmt.Errorf("the user postgres can't reach %s: choose another directory", parent)
	}
	dir, err := os.MkdirTemp(parent, pattern)
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o711) // the user postgres must pass
}

// PostgresCanReach reports whether PostgreSQL, which never runs as root, could keep its data in a
// directory: every parent must let the user postgres pass.
func PostgresCanReach(dir string) bool {
	if os.Getuid() != 0 {
		return true
	}
	credential, err := postgresCredential()
	if err != nil {
		return false
	}
	for ; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err == nil {
			stat := info.Sys().(*syscall.Stat_t)
			mode := info.Mode().Perm()
			passes := mode&0o001 != 0 || stat.Uid == credential.Uid && mode&0o100 != 0 || stat.Gid == credential.Gid && mode&0o010 != 0
			if !passes {
				return false
			}
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}

// postgresCredential is the user that the server runs as; nil keeps the caller's.
func postgresCredential() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	account, err := user.Lookup(postgresUser)
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root, and there is no user %q to run it as: on Debian, run `apt-get install postgresql`", postgresUser)
	}
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// prepare finds the programs and the user that runs them, and chooses the port.
func (c *PostgresConfig) prepare() (bin string, credential *syscall.Credential, err error) {
	if bin, err = setup.FindPostgres(); err != nil {
		return "", nil, err
	}
	if credential, err = postgresCredential(); err != nil {
		return "", nil, err
	}
	if c.TCP {
		if c.Port, err = ChoosePort(c.Port); err != nil {
			return "", nil, fmt.Errorf("PostgreSQL: %w", err)
		}
	}
	return bin, credential, nil
}

// StartPostgres makes the cluster when it is not there yet, and starts it.
func (g *Group) StartPostgres(ctx context.Context, config PostgresConfig) (*Postgres, error) {
	bin, credential, err := config.prepare()
	if err != nil {
		return nil, err
	}
	if err := initCluster(ctx, bin, config, credential); err != nil {
		return nil, err
	}
	socketDir, err := makeSocketDir(config.Dir, credential)
	if err != nil {
		return nil, err
	}

	postgres := &Postgres{Port: config.Port, config: config, socketDir: socketDir, group: g}
	postgres.spec = Spec{
		Name:       "PostgreSQL",
		Path:       filepath.Join(bin, "postgres"),
		Args:       postgres.arguments(),
		LogFile:    config.LogFile,
		Credential: credential,
		// SIGINT is PostgreSQL's "fast" shutdown; SIGTERM would wait for clients to leave.
		StopSignal:   syscall.SIGINT,
		OrphanSignal: syscall.SIGINT,
		Ready:        postgres.ping,
	}
	if err := postgres.Restart(ctx); err != nil {
		return nil, err
	}
	if err := postgres.prepareRole(ctx); err != nil {
		postgres.Stop()
		return nil, err
	}
	return postgres, nil
}

// Restart starts a server that has ended again, with its data and at its address. One that was killed a
// moment ago may have children that need some time to notice, and until then PostgreSQL does not start.
func (p *Postgres) Restart(ctx context.Context) error {
	deadline := time.Now().Add(crashTimeout)
	for {
		process, err := p.group.Start(ctx, p.spec)
		var exit *ExitError
		if !errors.As(err, &exit) || time.Now().After(deadline) ||
			!strings.Contains(exit.LastLine, "pre-existing shared memory block") && !strings.Contains(exit.LastLine, `"postmaster.pid" already exists`) {
			p.Process = process
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(probePause):
		}
	}
}

func (p *Postgres) arguments() []string {
	settings := map[string]string{
		"listen_addresses":        "",
		"port":                    strconv.Itoa(p.socketPort()),
		"unix_socket_directories": p.socketDir,
		"max_connections":         "200",
		"logging_collector":       "off",
		"password_encryption":     "scram-sha-256",
		"timezone":                "UTC",
	}
	if p.config.TCP {
		settings["listen_addresses"] = cmp.Or(p.config.Address, loopbackAddress)
	}
	if p.config.Volatile {
		// Commits stay synchronous: what was acknowledged has to outlive a crash of the process.
		settings["fsync"] = "off"
		settings["full_page_writes"] = "off"
	}
	maps.Copy(settings, p.config.Settings)
	args := []string{"-D", p.config.Dir}
	for name, value := range settings {
		args = append(args, "-c", name+"="+value)
	}
	return args
}

func (p *Postgres) socketPort() int {
	if p.config.TCP {
		return p.config.Port
	}
	return socketOnlyPort
}

// initCluster makes the cluster's directory. A directory that a crash left half made is made anew.
func initCluster(ctx context.Context, bin string, config PostgresConfig, credential *syscall.Credential) error {
	complete := filepath.Join(config.Dir, ".complete")
	if _, err := os.Stat(complete); err == nil {
		return checkClusterVersion(bin, config.Dir)
	}
	if err := os.RemoveAll(config.Dir); err != nil {
		return fmt.Errorf("clear a half-made PostgreSQL cluster: %w", err)
	}
	if err := os.MkdirAll(config.Dir, 0o700); err != nil {
		return fmt.Errorf("make PostgreSQL's data directory: %w", err)
	}
	if err := own(config.Dir, credential); err != nil {
		return fmt.Errorf("give PostgreSQL its data directory: %w", err)
	}
	args := []string{
		"-D", config.Dir, "-U", postgresUser, "-E", "UTF8", "--locale=C.UTF-8",
		// Only the owner of the socket's directory, and root, can reach the socket.
		"--auth-local=trust", "--auth-host=scram-sha-256",
	}
	if config.Volatile {
		args = append(args, "--no-sync")
	}
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), args...)
	cmd.Dir = "/"
	cmd.Env = minimalEnv()
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
	if output, err := cmd.CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(output)), "\n")
		return fmt.Errorf("initdb in %s failed (%w): %s", config.Dir, err, lines[len(lines)-1])
	}
	if config.Address != "" {
		if err := admitEveryAddress(config.Dir); err != nil {
			return err
		}
	}
	if err := os.WriteFile(complete, nil, 0o600); err != nil {
		return err
	}
	return own(complete, credential) // a base backup reads every file
}

// admitEveryAddress lets every address log in with a password; initdb admits loopback only.
func admitEveryAddress(dir string) error {
	rules, err := os.OpenFile(filepath.Join(dir, "pg_hba.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = rules.WriteString("host all all all scram-sha-256\n")
	return errors.Join(err, rules.Close())
}

// checkClusterVersion explains what happens after the system's PostgreSQL was upgraded.
func checkClusterVersion(bin, dir string) error {
	content, err := os.ReadFile(filepath.Join(dir, "PG_VERSION"))
	if err != nil {
		return fmt.Errorf("read the version of the PostgreSQL cluster: %w", err)
	}
	have, installed := strings.TrimSpace(string(content)), filepath.Base(filepath.Dir(bin))
	if _, err := strconv.Atoi(installed); err == nil && have != installed {
		return fmt.Errorf("the cluster in %s was made by PostgreSQL %s, but %s is installed: start over with `make clean`", dir, have, installed)
	}
	return nil
}

// makeSocketDir makes a private directory for the socket: beside the data where that path is short
// enough, else in a directory for temporary files. It is the same over restarts either way.
func makeSocketDir(dataDir string, credential *syscall.Credential) (string, error) {
	beside := dataDir + "-socket"
	if len(beside) <= maxSocketFolder && PostgresCanReach(filepath.Dir(beside)) {
		return beside, makePrivateDir(beside, credential)
	}
	for _, parent := range []string{os.TempDir(), "/tmp", "/run"} {
		if len(parent)+len("/mediastack-pg-0123456789abcdef") > maxSocketFolder || !PostgresCanReach(parent) {
			continue
		}
		digest := sha256.Sum256([]byte(dataDir))
		dir := filepath.Join(parent, "mediastack-pg-"+hex.EncodeToString(digest[:8]))
		if err := makePrivateDir(dir, credential); err == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("PostgreSQL's socket needs a directory with a short path that the user postgres can reach, but neither %s nor %s, /tmp and /run will do", beside, os.TempDir())
}

// makePrivateDir makes a directory, or takes one over that nobody else could have prepared.
func makePrivateDir(dir string, credential *syscall.Credential) error {
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, os.ErrExist) {
		info, err := os.Lstat(dir)
		if err != nil {
			return err
		}
		owner := info.Sys().(*syscall.Stat_t).Uid
		ours := owner == uint32(os.Getuid()) || credential != nil && owner == credential.Uid
		if !info.IsDir() || info.Mode().Perm()&0o077 != 0 || !ours {
			return fmt.Errorf("%s is there already, and not a private directory of PostgreSQL's", dir)
		}
	} else if err != nil {
		return fmt.Errorf("make the directory of PostgreSQL's socket: %w", err)
	}
	return own(dir, credential)
}

func own(path string, credential *syscall.Credential) error {
	if credential == nil {
		return nil
	}
	return os.Chown(path, int(credential.Uid), int(credential.Gid))
}

// Kill ends the server as a power cut would: its processes, one for each connection, go with it, and no
// client hears another word. (Killing the first process alone leaves the others to find out.)
func (p *Postgres) Kill() {
	// A stopped server starts no process between the count and the kill; one that was
	// missed would hold the memory that all share, and keep the next server from starting.
	_ = syscall.Kill(p.PID(), syscall.SIGSTOP)
	backends := Children(p.PID())
	p.Process.Kill()
	for _, pid := range backends {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	for _, pid := range backends {
		for i := 0; i < int(crashTimeout/probePause) && processLives(pid); i++ {
			time.Sleep(probePause)
		}
	}
}

// Children returns the processes that a process has started, by their ids in order.
func Children(pid int) []int {
	processes, _ := procfs.AllProcs()
	var children []int
	for _, process := range processes {
		if stat, err := process.Stat(); err == nil && stat.PPID == pid {
			children = append(children, process.PID)
		}
	}
	slices.Sort(children)
	return children
}

// processLives reports whether a process has not ended; one that only waits to be collected has.
func processLives(pid int) bool {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return false
	}
	stat, err := process.Stat()
	return err == nil && stat.State != "Z" && stat.State != "X"
}

func (p *Postgres) ping(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, p.AdminURL("postgres"))
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// prepareRole makes the role that owns the product's databases.
func (p *Postgres) prepareRole(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, p.AdminURL("postgres"))
	if err != nil {
		return fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var exists bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)", Role).Scan(&exists); err != nil {
		return fmt.Errorf("look for the role %s: %w", Role, err)
	}
	verb := "CREATE"
	if exists {
		verb = "ALTER"
	}
	password := "NULL"
	if p.config.Password != "" {
		password = "'" + strings.ReplaceAll(p.config.Password, "'", "''") + "'"
	}
	if _, err := conn.Exec(ctx, fmt.Sprintf("%s ROLE %s LOGIN PASSWORD %s", verb, Role, password)); err != nil {
		return fmt.Errorf("make the role %s: %w", Role, err)
	}
	return nil
}

// AttachPostgres returns a cluster that another process started, which can't be stopped here, by the
// directory of its socket.
func AttachPostgres(socketDir string) *Postgres { return &Postgres{socketDir: socketDir} }

// SocketDir returns the directory of the server's socket.
func (p *Postgres) SocketDir() string { return p.socketDir }

// Ended reports whether the server was stopped, or ended by itself.
func (p *Postgres) Ended() bool {
	if p.Process == nil {
		return false
	}
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}

// Dir returns the directory of the cluster.
func (p *Postgres) Dir() string { return p.config.Dir }

// AdminURL is the superuser's way to a database, through the socket.
func (p *Postgres) AdminURL(database string) string { return p.socketURL(postgresUser, database) }

// URL is the product's way to a database: with the password over TCP where the cluster listens
// there, else through the socket.
func (p *Postgres) URL(database string) string {
	if !p.config.TCP {
		return p.socketURL(Role, database)
	}
	address := url.URL{
		Scheme: "postgres", User: url.UserPassword(Role, p.config.Password),
		Host: hostPort(p.config.Address, p.Port), Path: "/" + database, RawQuery: "sslmode=disable",
	}
	return address.String()
}

func (p *Postgres) socketURL(role, database string) string {
	query := url.Values{"host": {p.socketDir}, "port": {strconv.Itoa(p.socketPort())}}
	address := url.URL{Scheme: "postgres", User: url.User(role), Path: "/" + database, RawQuery: query.Encode()}
	return address.String()
}

// CreateDatabase makes an empty database that the role mediastack owns, unless it is there already.
func (p *Postgres) CreateDatabase(ctx context.Context, name string) error {
	conn, err := pgx.Connect(ctx, p.AdminURL("postgres"))
	if err != nil {
		return fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var exists bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&exists); err != nil {
		return fmt.Errorf("look for the database %s: %w", name, err)
	}
	if exists {
		return nil
	}
	// STRATEGY does not exist before PostgreSQL 15; the default is the fast one from there on.
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()+" OWNER "+Role); err != nil {
		return fmt.Errorf("make the database %s: %w", name, err)
	}
	return nil
}

// DropDatabase removes a database and ends its connections.
func (p *Postgres) DropDatabase(ctx context.Context, name string) error {
	conn, err := pgx.Connect(ctx, p.AdminURL("postgres"))
	if err != nil {
		return fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)"); err != nil {
		return fmt.Errorf("drop the database %s: %w", name, err)
	}
	return nil
}
