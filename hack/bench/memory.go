package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// memory uploads many large files at once, and measures memory.
func memory(ctx context.Context, b *bench) error {
	t, err := b.env.tenant(ctx, "memory")
	if err != nil {
		return err
	}
	block, f := randomBytes(1<<20), newForm("bench.bin", nil)
	// The file goes where the empty form ends its part.
	end := bytes.LastIndex(f.body, []byte("\r\n--"))
	b.say("%s: %d uploads of %d bytes at once", b.name, b.Uploads, b.UploadBytes)
	return b.measureMemory(ctx, t, fmt.Sprintf("%d uploads of %s", b.Uploads, sizeName(int(b.UploadBytes))), 400, residentTree, func(ctx context.Context, e *endpoint) error {
		return atOnce(ctx, b.Uploads, func(ctx context.Context) error {
			body := io.MultiReader(bytes.NewReader(f.body[:end]), &repeated{block: block, left: b.UploadBytes}, bytes.NewReader(f.body[end:]))
			return b.uploadLarge(ctx, t, e, f, body)
		})
	})
}

// memoryPeak is the resident memory of a runtime in MiB.
type memoryPeak struct {
	idle, own float64 // before the work, and the most during it, as the kernel reports it
	sampled   float64 // the most of another figure
	took      time.Duration
}

// peakMemory does work against a fresh runtime, and returns its memory. sampled is another figure of
// the process; nil = none.
func (b *bench) peakMemory(ctx context.Context, t tenant, sampled func(pid int) float64, work func(ctx context.Context, e *endpoint) error) (found memoryPeak, err error) {
	e, err := b.env.serve(ctx, service, t)
	if err != nil {
		return found, err
	}
	defer e.Stop()
	found.idle = mebibytes(memoryOf(e.PID()).VmRSS)
	watched, stop := context.WithCancel(ctx)
	defer stop()
	peak := make(chan float64, 1)
	go func() { peak <- samplePeak(watched, e.PID(), sampled) }()
	started := time.Now()
	err = work(ctx, e)
	found.took = time.Since(started)
	stop()
	found.sampled = <-peak
	if found.own = mebibytes(memoryOf(e.PID()).VmHWM); err == nil && found.own == 0 {
		err = errors.New("the kernel does not report how much memory the runtime had")
	}
	return found, err
}

// measureMemory does work against a fresh runtime, and adds its peak of resident memory, for which
// limit MiB are wanted. sampled is another figure of the process, whose peak is shown; nil = none. That
// of residentTree is a result, too.
func (b *bench) measureMemory(ctx context.Context, t tenant, what string, limit float64, sampled func(pid int) float64, work func(ctx context.Context, e *endpoint) error) error {
	peak, err := b.peakMemory(ctx, t, sampled, work)
	if err != nil {
		return err
	}
	sizes := table{{"resident memory, MiB", "idle", "peak", "min", "max", "target", "", "sampled"}}
	row := func(name string, inputs map[string]float64, value float64) {
		found := b.add(result{Benchmark: b.name, Case: name, Figure: "MiB, peak", Target: maximum(limit), Inputs: inputs}, value)
		sizes.row(slices.Concat([]string{name, number(peak.idle)}, found.cells(), []string{fmt.Sprintf("%.0f", peak.sampled)})...)
	}
	row(what, map[string]float64{"idle": peak.idle, "sampled": peak.sampled}, peak.own)
	if b.name == "memory" {
		row(what+", with image workers", nil, max(peak.own, peak.sampled))
	}
	sizes.print(b.out)
	b.note("all were stored in %s; the runtime's peak is the kernel's VmHWM", peak.took.Round(time.Second/10))
	return nil
}

// atOnce runs n calls at the same time, and returns the first error.
func atOnce(ctx context.Context, n int, call func(ctx context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for range n {
		group.Go(func() error { return call(ctx) })
	}
	return group.Wait()
}

// samplePeak samples a figure of a process until ctx ends, and returns the most it saw.
func samplePeak(ctx context.Context, pid int, figure func(pid int) float64) float64 {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	peak := 0.0
	for {
		select {
		case <-ctx.Done():
			return peak
		case <-ticker.C:
		}
		if figure != nil {
			peak = max(peak, figure(pid))
		}
	}
}

// residentTree returns the resident memory of a process and its descendants, in MiB.
func residentTree(root int) float64 {
	stats, err := readStats()
	if err != nil {
		return 0
	}
	sum := uint64(0)
	for _, pid := range tree(stats, root) {
		sum += memoryOf(pid).VmRSS
	}
	return mebibytes(sum)
}

func (b *bench) uploadLarge(ctx context.Context, t tenant, e *endpoint, f form, body io.Reader) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.baseURL+"/media/create", body)
	if err != nil {
		return err
	}
	request.ContentLength = int64(len(f.body)) + b.UploadBytes
	request.Header.Set("Content-Type", f.contentType)
	request.Header.Set("x-service-apikey", e.key)
	answer, err := e.send(request, http.StatusCreated)
	if err != nil {
		return err
	}
	draft, err := decode(answer)
	if err != nil {
		return err
	}
	if draft.Size != b.UploadBytes {
		return fmt.Errorf("of %d bytes the item has %d", b.UploadBytes, draft.Size)
	}
	return b.checkSize(ctx, t, original(draft.MediaID), b.UploadBytes)
}

// repeated reads a block over and over, so that no upload holds its file.
type repeated struct {
	block []byte
	left  int64
	at    int
}

// Read returns the next bytes.
func (r *repeated) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(int64(len(p)), r.left)], r.block[r.at:])
	r.at = (r.at + n) % len(r.block)
	r.left -= int64(n)
	return n, nil
}
