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
	"strconv"
	"strings"
	"syscall"
	"time"

	"mediastack.dev/hack/servers"
)

const (
	stateFile       = "state.json"
	descriptionFile = "stack.json"
	// envFile holds the runtime's settings, for a shell.
	envFile   = "stack.env"
	lockFile  = "lock"
	stopLimit = 90 * time.Second
	// Where PostgreSQL keeps its data when the user postgres can't reach the data directory.
	outsideParent = "/var/lib/mediastack-dev"
)

// dataDir is the data directory of one stack.
type dataDir struct {
	dir  string
	lock *os.File
}

func (d *dataDir) path(name string) string { return filepath.Join(d.dir, name) }

// acquire makes the directory and takes it for this process; it reports false when another one has it.
func (d *dataDir) acquire() (bool, error) {
	if err := os.MkdirAll(d.path("logs"), 0o700); err != nil {
		return false, fmt.Errorf("make the data directory: %w", err)
	}
	lock, err := os.OpenFile(d.path(lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return false, fmt.Errorf("lock the data directory: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return false, nil
		}
		return false, fmt.Errorf("lock the data directory: %w", err)
	}
	if err := lock.Truncate(0); err != nil {
		return false, errors.Join(err, lock.Close())
	}
	if _, err := lock.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0); err != nil {
		return false, errors.Join(err, lock.Close())
	}
	d.lock = lock
	return true, nil
}

// release ends the hold on the directory.
func (d *dataDir) release() {
	if d.lock != nil {
		d.lock.Close()
		d.lock = nil
	}
}

// runningPID is the process that has the directory, or zero. Only a process that lives can hold the
// lock, so the number in it never belongs to an unrelated process.
func (d *dataDir) runningPID() (int, error) {
	lock, err := os.OpenFile(d.path(lockFile), os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look for a running stack: %w", err)
	}
	defer lock.Close()
	// The holder writes its number right after it took the lock.
	deadline := time.Now().Add(5 * time.Second)
	for {
		if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); err == nil {
			return 0, nil
		}
		content, err := os.ReadFile(d.path(lockFile))
		if err != nil {
			return 0, fmt.Errorf("look for a running stack: %w", err)
		}
		if pid, err := strconv.Atoi(strings.TrimSpace(string(content))); err == nil && syscall.Kill(pid, 0) == nil {
			return pid, nil
		}
		if time.Now().After(deadline) {
			return 0, fmt.Errorf("a process holds %s, but its id is not in it", d.path(lockFile))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// waitUnlocked waits until the process that has the directory is gone.
func (d *dataDir) waitUnlocked(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stopLimit, fmt.Errorf("it still ran after %s", stopLimit))
	defer cancel()
	for {
		pid, err := d.runningPID()
		if err != nil || pid == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// remove deletes the directory after before has returned, unless that fails, a stack runs in the directory or it is no
// data directory. It reports false if there is none.
func (d *dataDir) remove(before func() error) (bool, error) {
	entries, err := os.ReadDir(d.dir)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if _, err := os.Stat(d.path(lockFile)); err != nil && len(entries) > 0 {
		return false, fmt.Errorf("%s is not a data directory of a stack, so it is left alone", d.dir)
	}
	free, err := d.acquire()
	if err != nil {
		return false, err
	}
	if !free {
		return false, fmt.Errorf("a stack runs in %s; end it first with `make stop`", d.dir)
	}
	defer d.release()
	if err := before(); err != nil {
		return false, err
	}
	if err := os.RemoveAll(d.outside()); err != nil {
		return false, err
	}
	_ = os.Remove(outsideParent) // stays while another stack keeps its data there
	return true, os.RemoveAll(d.dir)
}

// outside is the directory for PostgreSQL's data in case the user postgres can't reach ours.
func (d *dataDir) outside() string {
	digest := sha256.Sum256([]byte(d.dir))
	return filepath.Join(outsideParent, hex.EncodeToString(digest[:8]))
}

// postgresDir chooses where PostgreSQL keeps its data: in the directory when the user postgres can get
// there, which is not so below a home directory such as /root.
func (d *dataDir) postgresDir(fresh bool) (dir string, outside bool, err error) {
	if servers.PostgresCanReach(filepath.Dir(d.dir)) {
		// Passing is all that others may do, and only PostgreSQL's own directory lets postgres in.
		return d.path("postgres"), false, os.Chmod(d.dir, 0o711)
	}
	dir = d.outside()
	if fresh {
		if err := os.RemoveAll(dir); err != nil {
			return "", false, err
		}
	}
	for _, parent := range []string{outsideParent, dir} {
		if err := os.MkdirAll(parent, 0o711); err != nil {
			return "", false, fmt.Errorf("make a directory for PostgreSQL: %w", err)
		}
	}
	return filepath.Join(dir, "postgres"), true, nil
}

// state is what has to stay the same from one run to the next.
type state struct {
	Ports ports `json:"ports"`
	// Cluster is the context of the cluster that the stack uses; empty if it has a control plane of its own.
	Cluster          string `json:"cluster,omitempty"`
	ServerSecret     string `json:"serverSecret"`
	PostgresPassword string `json:"postgresPassword"`
	S3AccessKey      string `json:"s3AccessKey"`
	S3SecretKey      string `json:"s3SecretKey"`
}

// loadState reads the state, or makes the secrets of a new one.
func (d *dataDir) loadState() (saved state, fresh bool, err error) {
	content, err := os.ReadFile(d.path(stateFile))
	if errors.Is(err, os.ErrNotExist) {
		return state{
			ServerSecret:     servers.RandomSecret(32),
			PostgresPassword: servers.RandomSecret(16),
			S3AccessKey:      servers.RandomSecret(10),
			S3SecretKey:      servers.RandomSecret(20),
		}, true, nil
	}
	if err != nil {
		return state{}, false, err
	}
	if err := json.Unmarshal(content, &saved); err != nil {
		return state{}, false, fmt.Errorf("read %s: %w; start over with `make clean`", d.path(stateFile), err)
	}
	return saved, false, nil
}

// writeJSON replaces a private file at once.
func (d *dataDir) writeJSON(name string, value any) error {
	content, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	return servers.WritePrivate(d.path(name), append(content, '\n'))
}

// removeDescription removes the description of a stack that has ended.
func (d *dataDir) removeDescription() error {
	for _, name := range []string{descriptionFile, envFile} {
		if err := os.Remove(d.path(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}
