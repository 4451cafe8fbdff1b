package minrate_test

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"mediastack.dev/runtime/minrate"
)

// slowWriter takes pause for each write.
type slowWriter struct {
	bytes.Buffer
	pause time.Duration
}

// Write writes slowly.
func (w *slowWriter) Write(p []byte) (int, error) {
	time.Sleep(w.pause) //nolint:forbidigo // the clock of synctest
	return w.Buffer.Write(p)
}

func TestPace_EndsASlowResponseWhileOthersWait(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pause     time.Duration // for 16 KiB
		contended bool
		ends      bool
	}{"slow": {time.Second, true, true}, "slow, and nobody waits": {time.Second, false, false}, "fast enough": {200 * time.Millisecond, true, false}} {
		synctest.Test(t, func(t *testing.T) {
			to := &slowWriter{pause: c.pause}
			data := bytes.Repeat([]byte("0123456789abcdef"), 64<<10) // 1 MiB
			n, err := minrate.NewPace(64<<10, 5*time.Second, func() bool { return c.contended }, func() {
				if !c.ends {
					t.Errorf("%s: a write was interrupted", name)
				}
			}).Write(to, data)
			if errors.Is(err, minrate.ErrTooSlow) != c.ends || n != to.Len() || !c.ends && (err != nil || !bytes.Equal(to.Bytes(), data)) {
				t.Errorf("%s: %d bytes, %v", name, n, err)
			}
		})
	}
}

// blockedWriter blocks until it is interrupted.
type blockedWriter struct{ interrupted chan struct{} }

// Write blocks.
func (w blockedWriter) Write([]byte) (int, error) {
	<-w.interrupted
	return 0, os.ErrDeadlineExceeded
}

// A client that reads nothing kept the memory of its picture for as long as the server waits for stalled connections.
func TestPace_EndsABlockedResponseWhenOthersWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start, to := time.Now(), blockedWriter{make(chan struct{})}
		contended := func() bool { return time.Since(start) > 12*time.Second }
		_, err := minrate.NewPace(64<<10, 5*time.Second, contended, func() { close(to.interrupted) }).Write(to, make([]byte, 100))
		if took := time.Since(start); !errors.Is(err, minrate.ErrTooSlow) || took != 15*time.Second {
			t.Errorf("after %s: %v", took, err)
		}
	})
}
