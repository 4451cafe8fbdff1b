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
	stateFile = "state.json"
	trialFile = "trial.json"
	// envFile holds the runtime's settings, for a shell.
	envFile   = "trial.env"
	lockFile  = "lock"
	stopLimit = 90 * time.Second
	// Where PostgreSQL keeps its data when the user postgres can't reach the data folder.
	outsideParent = "/var/lib/mediastack-dev"
)

// folder is the data folder of one stack.
type folder struct {
	dir  string
	lock *os.File
}

func (f *folder) path(name string) string { return filepath.Join(f.dir, name) }

// acquire makes the folder and takes it for this process; it reports false when another one has it.
func (f *folder) acquire() (bool, error) {
	if err := os.MkdirAll(f.path("logs"), 0o700); err != nil {
		return false, fmt.Errorf("make the data folder: %w", err)
	}
	lock, err := os.OpenFile(f.path(lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return false, fmt.Errorf("lock the data folder: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return false, nil
		}
		return false, fmt.Errorf("lock the data folder: %w", err)
	}
	if err := lock.Truncate(0); err != nil {
		return false, errors.Join(err, lock.Close())
	}
	if _, err := lock.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0); err != nil {
		return false, errors.Join(err, lock.Close())
	}
	f.lock = lock
	return true, nil
}

// release ends the hold on the folder.
func (f *folder) release() {
	if f.lock != nil {
		f.lock.Close()
		f.lock = nil
	}
}

// runningPID is the process that has the folder, or zero. Only a process that lives can hold the
// lock, so the number in it never belongs to a stranger.
func (f *folder) runningPID() (int, error) {
	lock, err := os.OpenFile(f.path(lockFile), os.O_RDWR, 0)
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
		content, err := os.ReadFile(f.path(lockFile))
		if err != nil {
			return 0, fmt.Errorf("look for a running stack: %w", err)
		}
		if pid, err := strconv.Atoi(strings.TrimSpace(string(content))); err == nil && syscall.Kill(pid, 0) == nil {
			return pid, nil
		}
		if time.Now().After(deadline) {
			return 0, fmt.Errorf("a process holds %s, but does not say which it is", f.path(lockFile))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// waitUnlocked waits until the process that has the folder is gone.
func (f *folder) waitUnlocked(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stopLimit, fmt.Errorf("it still ran after %s", stopLimit))
	defer cancel()
	for {
		pid, err := f.runningPID()
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

// remove deletes the folder, unless a stack runs in it or it is no data folder.
func (f *folder) remove() error {
	entries, err := os.ReadDir(f.dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(f.path(lockFile)); err != nil && len(entries) > 0 {
		return fmt.Errorf("%s is not a data folder of a stack, so it is left alone", f.dir)
	}
	free, err := f.acquire()
	if err != nil {
		return err
	}
	if !free {
		return fmt.Errorf("a stack runs in %s; end it first with `make stop`", f.dir)
	}
	defer f.release()
	if err := os.RemoveAll(f.outside()); err != nil {
		return err
	}
	_ = os.Remove(outsideParent) // stays while another stack keeps its data there
	return os.RemoveAll(f.dir)
}

// outside is the folder for PostgreSQL's data in case the user postgres can't reach ours.
func (f *folder) outside() string {
	digest := sha256.Sum256([]byte(f.dir))
	return filepath.Join(outsideParent, hex.EncodeToString(digest[:8]))
}

// postgresDir chooses where PostgreSQL keeps its data: in the folder when the user postgres can get
// there, which is not so below a home folder such as /root.
func (f *folder) postgresDir(fresh bool) (dir string, outside bool, err error) {
	if servers.PostgresCanReach(filepath.Dir(f.dir)) {
		// Passing is all that others may do, and only PostgreSQL's own folder lets postgres in.
		return f.path("postgres"), false, os.Chmod(f.dir, 0o711)
	}
	dir = f.outside()
	if fresh {
		if err := os.RemoveAll(dir); err != nil {
			return "", false, err
		}
	}
	for _, parent := range []string{outsideParent, dir} {
		if err := os.MkdirAll(parent, 0o711); err != nil {
			return "", false, fmt.Errorf("make a folder for PostgreSQL: %w", err)
		}
	}
	return filepath.Join(dir, "postgres"), true, nil
}

// state is what has to stay the same from one run to the next.
type state struct {
	Ports            ports  `json:"ports"`
	ServerSecret     string `json:"serverSecret"`
	PostgresPassword string `json:"postgresPassword"`
	S3AccessKey      string `json:"s3AccessKey"`
	S3SecretKey      string `json:"s3SecretKey"`
}

// loadState reads the state, or makes the secrets of a new one.
func (f *folder) loadState() (saved state, fresh bool, err error) {
	content, err := os.ReadFile(f.path(stateFile))
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
		return state{}, false, fmt.Errorf("read %s: %w; start over with `make clean`", f.path(stateFile), err)
	}
	return saved, false, nil
}

// writeJSON replaces a private file at once.
func (f *folder) writeJSON(name string, value any) error {
	content, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	return f.write(name, append(content, '\n'))
}

// write replaces a private file at once.
func (f *folder) write(name string, content []byte) error {
	temporary := f.path(name + ".new")
	if err := os.WriteFile(temporary, content, 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, f.path(name))
}

// removeDescription removes what told of a stack that has ended.
func (f *folder) removeDescription() error {
	for _, name := range []string{trialFile, envFile} {
		if err := os.Remove(f.path(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}
