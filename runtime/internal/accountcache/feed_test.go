package accountcache_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"mediastack.dev/runtime/internal/accountcache"
	"mediastack.dev/runtime/media"
)

// scriptedSource delivers what script says and ends.
type scriptedSource func(onConnect func(), onChange func(uuid.UUID), onLost func(error))

// Follow runs the script.
func (s scriptedSource) Follow(_ context.Context, _ media.ItemCache, onConnect func(), onChange func(uuid.UUID), onLost func(error)) error {
	s(onConnect, onChange, onLost)
	return context.Canceled
}

// recordingCache records what a feed delivers.
type recordingCache struct{ calls []string }

// Connected records.
func (c *recordingCache) Connected() { c.calls = append(c.calls, "connected") }

// Disconnected records.
func (c *recordingCache) Disconnected() { c.calls = append(c.calls, "disconnected") }

// AccountChanged records.
func (c *recordingCache) AccountChanged(uuid.UUID) { c.calls = append(c.calls, "changed") }

func TestFeed_DeliversToEveryCacheAndLogsALossOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	a, b := &recordingCache{}, &recordingCache{}
	source := scriptedSource(func(onConnect func(), onChange func(uuid.UUID), onLost func(error)) {
		onLost(errors.New("not yet"))
		onConnect()
		onChange(uuid.New())
		onLost(errors.New("lost"))
		onLost(errors.New("still lost"))
		onConnect()
	})
	must(t, accountcache.NewFeed(source, slog.New(slog.NewTextHandler(&log, nil)), a, b).Run(t.Context()))
	want := []string{"disconnected", "connected", "changed", "disconnected", "disconnected", "connected", "disconnected"}
	if !slices.Equal(a.calls, want) || !slices.Equal(b.calls, want) {
		t.Errorf("delivered %v and %v, want %v", a.calls, b.calls, want)
	}
	if n := strings.Count(log.String(), "account notifications disconnected"); n != 1 {
		t.Errorf("%d warnings:\n%s", n, log.String())
	}
}
