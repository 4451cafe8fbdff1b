package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/setup"
)

const (
	// The data is outside of the checkout: sockets need short paths, and the user postgres must get there.
	dataParent      = "/var/lib/mediastack-cluster"
	lockFile        = "lock"
	descriptionFile = "cluster.json"
	stopLimit       = 60 * time.Second
	pollEvery       = 50 * time.Millisecond
)

// dataFlag is shared by all commands.
type dataFlag struct {
	Name string `default:"dev" env:"MEDIASTACK_CLUSTER_NAME" help:"Name of the cluster: a checkout may have several."`
	// DataDir is how the program's own processes name the directory, whatever their working directory is.
	DataDir string `hidden:""`
}

var validName = regexp.MustCompile(`^[a-z0-9]{1,16}$`)

func (f dataFlag) open() (*dataDir, error) {
	if f.DataDir != "" {
		return &dataDir{dir: f.DataDir}, nil
	}
	if !validName.MatchString(f.Name) {
		return nil, fmt.Errorf("%q is no name of a cluster: 1 to 16 lower-case letters and digits are", f.Name)
	}
	root, err := setup.RepoRoot()
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256([]byte(root))
	return &dataDir{dir: filepath.Join(dataParent, hex.EncodeToString(digest[:6])+"-"+f.Name)}, nil
}

// dataDir is the data directory of one cluster. The first process of the cluster holds a lock on a file
// of it: the kernel gives the lock back when that process ends, and tells who holds it.
type dataDir struct {
	dir  string
	lock *os.File
}

func (d *dataDir) path(elements ...string) string {
	return filepath.Join(append([]string{d.dir}, elements...)...)
}

// cgroup is the name of the cgroups of a node, in every hierarchy; with an asterisk, of all nodes.
func (d *dataDir) cgroup(node string) string {
	digest := sha256.Sum256([]byte(d.dir))
	return "mediastack-cluster-" + hex.EncodeToString(digest[:4]) + "-" + node
}

// nodeArguments are the arguments of the process that supervises a node.
func (d *dataDir) nodeArguments(node string) []string {
	return []string{"node", "--data-dir", d.dir, node}
}

func wholeFile(kind int16) *unix.Flock_t { return &unix.Flock_t{Type: kind} }

// acquire takes the directory for this process; it reports false when another one has it.
func (d *dataDir) acquire() (bool, error) {
	lock, err := os.OpenFile(d.path(lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return false, fmt.Errorf("lock the data directory: %w", err)
	}
	if err := unix.FcntlFlock(lock.Fd(), unix.F_SETLK, wholeFile(unix.F_WRLCK)); err != nil {
		lock.Close()
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
			return false, nil
		}
		return false, fmt.Errorf("lock the data directory: %w", err)
	}
	d.lock = lock // closing it would give the lock back
	return true, nil
}

// holder is the id of the process that has the directory, or zero.
func (d *dataDir) holder() (int, error) {
	lock, err := os.OpenFile(d.path(lockFile), os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look for a running cluster: %w", err)
	}
	defer lock.Close()
	found := wholeFile(unix.F_WRLCK)
	if err := unix.FcntlFlock(lock.Fd(), unix.F_GETLK, found); err != nil {
		return 0, fmt.Errorf("look for a running cluster: %w", err)
	}
	if found.Type == unix.F_UNLCK {
		return 0, nil
	}
	return int(found.Pid), nil
}

// waitReleased waits until the process that has the directory has ended.
func (d *dataDir) waitReleased(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stopLimit, fmt.Errorf("it still ran after %s", stopLimit))
	defer cancel()
	for {
		pid, err := d.holder()
		if err != nil || pid == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pollEvery):
		}
	}
}

// clear removes what a cluster that has ended left: its files and its cgroups. The directory itself and
// the lock stay.
func (d *dataDir) clear() error {
	if err := removeCgroups(d.cgroup("*")); err != nil {
		return err
	}
	entries, err := os.ReadDir(d.dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, entry := range entries {
		if entry.Name() == lockFile {
			continue
		}
		if err := os.RemoveAll(d.path(entry.Name())); err != nil {
			return fmt.Errorf("remove what an earlier cluster left: %w", err)
		}
	}
	return nil
}

// make makes the directory. The user postgres passes through it.
func (d *dataDir) make() error {
	if err := os.MkdirAll(d.dir, 0o711); err != nil {
		return fmt.Errorf("make the data directory: %w", err)
	}
	return nil
}

// description says how to use a cluster that runs.
type description struct {
	// Kubeconfig is the administrator's.
	Kubeconfig string `json:"kubeconfig"`
	// Path has the directories of kubectl and the other programs.
	Path []string `json:"path"`
	// Nodes are the addresses of the nodes by their names.
	Nodes map[string]string `json:"nodes"`
	// Cgroups is what the names of the nodes' cgroups begin with.
	Cgroups string `json:"cgroups"`
	// DatabaseURL and the others lead pods, and programs in the cluster's network, to the stores.
	DatabaseURL string           `json:"databaseURL"`
	S3          servers.S3Access `json:"s3"`
	// SMTP is the address of the mail sink, which prints mails into MailLog.
	SMTP    string `json:"smtp"`
	MailLog string `json:"mailLog"`
}

func (d *dataDir) writeDescription(value description) error {
	content, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	return servers.WritePrivate(d.path(descriptionFile), append(content, '\n'))
}

// running returns the first process and the description of a cluster that is ready.
func (d *dataDir) running() (pid int, value description, err error) {
	if pid, err = d.holder(); err != nil {
		return 0, value, err
	}
	if pid == 0 {
		return 0, value, errors.New("no cluster runs: start it with `make cluster`")
	}
	content, err := os.ReadFile(d.path(descriptionFile))
	if errors.Is(err, os.ErrNotExist) {
		return 0, value, fmt.Errorf("the cluster (process %d) is not ready yet; its logs are in %s", pid, d.path("logs"))
	}
	if err != nil {
		return 0, value, err
	}
	if err := json.Unmarshal(content, &value); err != nil {
		return 0, value, fmt.Errorf("read %s: %w", d.path(descriptionFile), err)
	}
	return pid, value, nil
}

// usage is what a user can do next.
func (d *dataDir) usage(value description) string {
	var text strings.Builder
	fmt.Fprintf(&text, "PostgreSQL   %s\n", value.DatabaseURL)
	fmt.Fprintf(&text, "S3           %s (access key %s, secret key %s)\n", value.S3.Endpoint, value.S3.AccessKey, value.S3.SecretKey)
	fmt.Fprintf(&text, "mail         smtp://%s, printed into %s\n", value.SMTP, value.MailLog)
	fmt.Fprintf(&text, "logs         %s\n\n", d.path("logs"))
	text.WriteString("The cluster has a network of its own. Run commands in it:\n")
	text.WriteString("  bin/mediastack-cluster exec kubectl get pods --all-namespaces\n")
	text.WriteString("Load images, then install:\n")
	text.WriteString("  bin/mediastack-cluster load dist/*.tar\n")
	text.WriteString("Stop it, and remove all of it:\n")
	text.WriteString("  make cluster-stop\n")
	return text.String()
}
