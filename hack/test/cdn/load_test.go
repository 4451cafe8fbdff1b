package cdn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"math/rand"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mediastack.dev/hack/exchange"
	"mediastack.dev/hack/testenv/wait"
)

// size is how large the tests are.
type size struct {
	changes int           // of which the time until the edge forgets is measured
	workers int           // that make changes at once
	kills   int           // of replicas meanwhile
	away    time.Duration // for how long the edge is away
}

// fullEnv is the variable that makes the tests as large as the product is meant for.
const fullEnv = "MEDIASTACK_TEST_FULL"

func sizeOf(t *testing.T) size {
	t.Helper()
	if full, _ := strconv.ParseBool(os.Getenv(fullEnv)); full {
		return size{changes: 10_000, workers: 16, kills: 100, away: 10 * time.Minute}
	}
	return size{changes: 120, workers: 6, kills: 1}
}

const (
	// reads is how many reads a second there are beside the changes.
	reads = 60
	// presetShare is of how many changes one is that of a preset.
	presetShare = 20
	// pause is between two looks at the edge. It is the precision of what is measured.
	pause = 10 * time.Millisecond
)

// load makes changes beside reads.
type load struct {
	*site
	size size
	next atomic.Int64

	mu    sync.Mutex
	times map[string][]time.Duration // from the answer to a change until the edge forgets, by kind
	known []string                   // addresses that readers ask for
}

// Deletes, changes of access and changed presets beside reads, while replicas are killed: in the end nothing is stale. It prints how soon the
// edge forgets.
func TestEdge_HasNothingStaleAfterALoad(t *testing.T) {
	t.Parallel()
	l := &load{site: newSite(t), size: sizeOf(t), times: map[string][]time.Duration{}}
	l.presets(l.preset(100))
	imageID, _ := l.upload("a.png", picture(t))
	pictureURL := l.document(imageID).Presets["load"].URL
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var readers, workers sync.WaitGroup
	var asked atomic.Int64
	readers.Go(func() { l.read(ctx, &asked) })
	errs := make(chan error, l.size.workers+2)
	changeOfPreset := make(chan int)
	workers.Go(func() { errs <- l.changePresets(ctx, pictureURL, changeOfPreset) })
	var changing sync.WaitGroup
	for range l.size.workers {
		changing.Go(func() { errs <- l.change(ctx, changeOfPreset) })
	}
	workers.Go(func() { changing.Wait(); close(changeOfPreset) })
	began := time.Now()
	workers.Go(func() { errs <- l.kill(ctx) })
	workers.Wait()
	took := time.Since(began)
	cancel()
	readers.Wait()
	for range cap(errs) {
		must(t, <-errs)
	}
	for kind, times := range l.times {
		slices.Sort(times)
		at := func(percent int) time.Duration {
			return times[min(len(times)-1, len(times)*percent/100)].Round(time.Millisecond)
		}
		t.Logf("%s: %d changes, from the answer until the edge forgets: p50 %s, p99 %s, at most %s", kind, len(times), at(50), at(99), times[len(times)-1].Round(time.Millisecond))
	}
	t.Logf("%d kills; %d reads beside, %.0f a second", l.size.kills, asked.Load(), float64(asked.Load())/took.Seconds())
	l.settle()
}

func (l *load) preset(width int) map[string]any {
	return map[string]any{"name": "load", "width": width, "format": "png"}
}

// read reads known addresses, at the rate of reads: the files that it brings to the edge race with purges.
func (l *load) read(ctx context.Context, asked *atomic.Int64) {
	tick := time.NewTicker(time.Second / reads) //nolint:forbidigo // the rate of the reads
	defer tick.Stop()
	var open sync.WaitGroup
	defer open.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		l.mu.Lock()
		url := ""
		if recent := l.known[max(0, len(l.known)-200):]; len(recent) > 0 {
			url = recent[rand.Intn(len(recent))]
		}
		l.mu.Unlock()
		if url == "" {
			continue
		}
		open.Go(func() {
			if _, err := exchange.Send(ctx, l.client, http.MethodGet, url, nil); err == nil {
				asked.Add(1)
			}
		})
	}
}

// kill kills replicas, one after the other, while changes are made.
func (l *load) kill(ctx context.Context) error {
	for n := range l.size.kills {
		for due := int64(l.size.changes * (n + 1) / (l.size.kills + 1)); l.next.Load() < due; {
			if err := rest(ctx, pause); err != nil {
				return err
			}
		}
		replica := l.replicas[rand.Intn(len(l.replicas))]
		replica.Kill()
		if err := replica.Restart(ctx); err != nil {
			return err
		}
	}
	return nil
}

// change makes changes of a file of its own, and deletes others, until there were enough.
func (l *load) change(ctx context.Context, changeOfPreset chan<- int) error {
	id, url, err := l.uploaded(ctx)
	if err != nil {
		return err
	}
	for n := int(l.next.Add(1)); n <= l.size.changes; n = int(l.next.Add(1)) {
		switch {
		case n%presetShare == 0:
			select {
			case changeOfPreset <- n:
			case <-ctx.Done():
				return ctx.Err()
			}
		case n%2 == 0:
			err = l.delete(ctx)
		default:
			err = l.hide(ctx, id, url)
		}
		if err != nil {
			return err
		}
	}
	l.finally(url, func(got exchange.Answer) string {
		if got.Status != http.StatusOK {
			return fmt.Sprintf("a public file is answered %d", got.Status)
		}
		return ""
	})
	return nil
}

// uploaded stores a file and has readers ask for it.
func (l *load) uploaded(ctx context.Context) (id, url string, err error) {
	err = l.again(ctx, func(replica int) error {
		id, url, err = l.tryUpload(ctx, replica, "a.txt", text(2000))
		return err
	})
	if err == nil {
		l.mu.Lock()
		l.known = append(l.known, url)
		l.mu.Unlock()
		err = l.kept(ctx, url)
	}
	return id, url, err
}

// kept reads a public file until the edge has it.
func (l *load) kept(ctx context.Context, url string) error {
	return l.until(ctx, url, func(got exchange.Answer) bool {
		return got.Status == http.StatusOK && got.Header.Get("Cache-Status") == hit
	})
}

// delete deletes a file that the edge has, at two addresses.
func (l *load) delete(ctx context.Context) error {
	id, url, err := l.uploaded(ctx)
	if err != nil {
		return err
	}
	plain, _, _ := strings.Cut(url, "?")
	if err := l.kept(ctx, plain); err != nil {
		return err
	}
	err = l.again(ctx, func(replica int) error {
		return l.answered(ctx, replica, http.MethodDelete, "/media/delete/"+id, nil, http.StatusOK, http.StatusNotFound) // 404: the answer before was lost
	})
	if err == nil {
		err = l.forgotten(ctx, "deletes", url, func(got exchange.Answer) bool { return got.Status == http.StatusNotFound })
	}
	l.finally(url, gone)
	l.finally(plain, gone)
	return err
}

// hide makes a file private, and public again.
func (l *load) hide(ctx context.Context, id, url string) error {
	access := func(access string) error {
		return l.again(ctx, func(replica int) error {
			return l.answered(ctx, replica, http.MethodPatch, "/media/"+id, map[string]any{"access": access}, http.StatusOK)
		})
	}
	if err := access("private"); err != nil {
		return err
	}
	if err := l.forgotten(ctx, "changes to private", url, func(got exchange.Answer) bool { return got.Status == http.StatusNotFound }); err != nil {
		return err
	}
	if err := access("public"); err != nil {
		return err
	}
	return l.kept(ctx, url)
}

// changePresets changes the width of a preset, one change after the other, and looks for pictures of that width.
func (l *load) changePresets(ctx context.Context, url string, changes <-chan int) error {
	width := 100
	wide := func(width int) func(exchange.Answer) bool {
		return func(got exchange.Answer) bool {
			config, _, err := image.DecodeConfig(bytes.NewReader(got.Body))
			return got.Status == http.StatusOK && err == nil && config.Width == width
		}
	}
	for n := range changes {
		if err := l.kept(ctx, url); err != nil {
			return err
		}
		width = 50 + n%300
		err := l.again(ctx, func(replica int) error {
			return l.answered(ctx, replica, http.MethodPost, "/settings/media/create", map[string]any{"presets": []any{l.preset(width)}}, http.StatusOK)
		})
		if err == nil {
			err = l.forgotten(ctx, "changed presets", url, wide(width))
		}
		if err != nil {
			return err
		}
	}
	last := width
	l.finally(url, func(got exchange.Answer) string {
		if !wide(last)(got) {
			return fmt.Sprintf("the picture is answered %d, and is not %d wide", got.Status, last)
		}
		return ""
	})
	return nil
}

// again tries a change at one replica after the other until one has answered it: others may be dead.
func (l *load) again(ctx context.Context, do func(replica int) error) error {
	began, replica := time.Now(), rand.Intn(len(l.replicas))
	for {
		err := do(replica)
		if err == nil || ctx.Err() != nil || time.Since(began) > wait.Timeout(l.t) {
			return err
		}
		replica = (replica + 1) % len(l.replicas)
		if err := rest(ctx, pause); err != nil {
			return err
		}
	}
}

// answered sends a request, whose answer must have one of the statuses.
func (l *load) answered(ctx context.Context, replica int, method, path string, body any, statuses ...int) error {
	header := []string(nil)
	got, err := l.try(ctx, replica, method, path, body, header...)
	if err == nil && !slices.Contains(statuses, got.Status) {
		err = fmt.Errorf("%s %s: %d %.200s", method, path, got.Status, got.Body)
	}
	return err
}

// forgotten measures how long the edge takes to forget what has just been changed.
func (l *load) forgotten(ctx context.Context, kind, url string, done func(exchange.Answer) bool) error {
	began := time.Now()
	if err := l.until(ctx, url, done); err != nil {
		return fmt.Errorf("%s: %w", kind, err)
	}
	took := time.Since(began)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.times[kind] = append(l.times[kind], took)
	return nil
}

// until asks for an address until the answer is as wanted. It asks more often than package wait would: the pauses are in what is measured.
func (l *load) until(ctx context.Context, url string, done func(exchange.Answer) bool) error {
	for began := time.Now(); ; {
		got, err := exchange.Send(ctx, l.client, http.MethodGet, url, nil)
		switch {
		case err == nil && done(got):
			return nil
		case time.Since(began) > wait.Timeout(l.t):
			return errors.Join(err, fmt.Errorf("%s is still answered %d, %q", url, got.Status, got.Header.Get("Cache-Status")))
		}
		if err := rest(ctx, pause); err != nil {
			return err
		}
	}
}

// rest waits for a moment.
func rest(ctx context.Context, moment time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(moment): //nolint:forbidigo // the pace of what is measured
		return nil
	}
}
