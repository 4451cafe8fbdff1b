package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// resumableUploads is how many resumable uploads memory sends at once; each is a quarter of the large file.
const resumableUploads = 16

// memory measures the memory of a runtime with many uploads at once.
func memory(ctx context.Context, b *bench) error {
	t, err := b.env.tenant(ctx, "memory")
	if err != nil {
		return err
	}
	rows, err := b.uploadMemory(ctx, t)
	if err != nil {
		return err
	}
	memoryTable(rows).print(b.out)
	return nil
}

// uploadMemory measures the resident memory of a fresh runtime during each kind of upload. Rest and peak are the
// kernel's figures of the runtime itself.
func (b *bench) uploadMemory(ctx context.Context, t tenant) ([]memoryRow, error) {
	f := resumableFile{block: randomBytes(1 << 20), size: b.ResumableBytes / 4, chunk: 64 << 20}
	small, large := randomBytes(100_000), randomBytes(10_000_000)
	var rows []memoryRow
	for _, one := range []struct {
		name       string
		uploads    int
		each, peak float64 // MiB that are wanted of each, and of all; 0 = nothing
		tree       float64 // the same of all, with image workers
		side       func(e *endpoint) side
		load       load
	}{
		{"uploads of 100 KB", b.Uploads, 1.25, 0, 0, func(e *endpoint) side { return b.uploadSide(t, e, small) }, load{length: b.Length}},
		{"uploads of 10 MB", b.Uploads, 10, 0, 0, func(e *endpoint) side { return b.uploadSide(t, e, large) }, load{length: b.Length}},
		{"uploads of " + sizeName(int(b.UploadBytes)), b.Uploads, 10, 400, 400, func(e *endpoint) side { return b.largeSide(t, e) }, load{calls: int64(b.Uploads)}},
		{fmt.Sprintf("resumable uploads of %s in chunks of %s", sizeName(int(f.size)), sizeName(int(f.chunk))), resumableUploads, 7, 150, 250,
			func(e *endpoint) side { return b.resumableSide(t, e, f) }, load{calls: resumableUploads}},
	} {
		row := memoryRow{what: one.name, uploads: one.uploads}
		one.load.clients = one.uploads
		name := fmt.Sprintf("%d %s", one.uploads, one.name)
		b.say("%s: memory of %s", b.name, name)
		if err := b.measureMemory(ctx, t, &row, one.load, one.side); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		b.add(result{Benchmark: b.name, Case: name, Figure: "MiB of each", Target: maximum(one.each)}, max(0.01, row.each()))
		if one.peak > 0 {
			b.add(result{Benchmark: b.name, Case: name, Figure: "MiB, peak", Target: maximum(one.peak)}, row.peak)
			b.add(result{Benchmark: b.name, Case: name + ", with image workers", Figure: "MiB, peak", Target: maximum(one.tree)}, row.tree)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// measureMemory sends a load to a fresh runtime.
func (b *bench) measureMemory(ctx context.Context, t tenant, row *memoryRow, l load, of func(e *endpoint) side) error {
	e, err := b.env.serve(ctx, service, t)
	if err != nil {
		return err
	}
	defer e.Stop()
	row.idle = mebibytes(memoryOf(e.PID()).VmRSS)
	watched, stop := context.WithCancel(ctx)
	defer stop()
	peak := make(chan float64, 1)
	go func() { peak <- peakOfTree(watched, e.PID()) }()
	sent := of(e)
	if _, err := b.measure(ctx, l, sent.call); err != nil {
		return err
	}
	stop()
	row.peak = mebibytes(memoryOf(e.PID()).VmHWM)
	row.tree = max(row.peak, <-peak)
	if row.peak == 0 {
		return errors.New("the kernel does not report how much memory the runtime had")
	}
	return sent.after(ctx)
}

// peakOfTree samples the resident memory of a process and its descendants until ctx ends, and returns the most MiB it saw.
func peakOfTree(ctx context.Context, root int) (peak float64) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return peak
		case <-ticker.C:
		}
		stats, err := readStats()
		if err != nil {
			continue
		}
		sum := uint64(0)
		for _, pid := range tree(stats, root) {
			sum += memoryOf(pid).VmRSS
		}
		peak = max(peak, mebibytes(sum))
	}
}

// largeSide uploads files that this program never has as a whole.
func (b *bench) largeSide(t tenant, e *endpoint) side {
	block, f := randomBytes(1<<20), newForm("bench.bin", nil)
	end := bytes.LastIndex(f.body, []byte("\r\n--")) // the file goes where the empty form ends its part
	return side{name: "REST", after: func(context.Context) error { return t.removeObjects("media") }, call: func(ctx context.Context, _ int64) error {
		body := io.MultiReader(bytes.NewReader(f.body[:end]), &repeated{block: block, left: b.UploadBytes}, bytes.NewReader(f.body[end:]))
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
		return b.checkSize(ctx, t, original(draft.MediaID), b.UploadBytes)
	}}
}

// repeated reads a block over and over, so no upload holds its file.
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
