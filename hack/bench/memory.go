package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"
)

// memory uploads many large files at once to a fresh runtime, and reads its peak.
func memory(ctx context.Context, b *bench) error {
	t, err := b.rig.tenant(ctx, "memory")
	if err != nil {
		return err
	}
	e, err := b.rig.serve(ctx, service, t, nil)
	if err != nil {
		return err
	}
	idle, _ := memoryOf(e.PID(), "VmRSS")
	b.say("%s: %d uploads of %d bytes at once", b.name, b.Uploads, b.UploadBytes)
	var peak float64
	watched, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		peak = peakOfTree(watched, e.PID())
	}()
	started := time.Now()
	err = b.uploadAtOnce(ctx, t, e)
	took := time.Since(started)
	stop()
	<-ended
	if err != nil {
		return err
	}
	own, ok := memoryOf(e.PID(), "VmHWM")
	if !ok {
		return fmt.Errorf("the kernel does not say how much memory the runtime had")
	}
	wanted := below(400)
	what := fmt.Sprintf("%d uploads of %s", b.Uploads, sizeName(int(b.UploadBytes)))
	alone := b.add(result{Benchmark: b.name, Case: what + ", runtime", Figure: "MiB, peak", Aim: wanted, Behind: map[string]float64{"idle": idle}}, own)
	together := b.add(result{Benchmark: b.name, Case: what + ", with workers", Figure: "MiB, peak", Aim: wanted}, max(own, peak))
	sizes := table{{"resident memory, MiB", "idle", "peak", "aim", ""}}
	sizes.row("runtime", number(idle), number(alone.Value), alone.Aim.String(), alone.verdict())
	sizes.row("runtime and image workers", "", number(together.Value), together.Aim.String(), together.verdict())
	sizes.print(b.out, 1)
	b.note("all %d uploads were stored in %s, %.0f MB/s; the runtime's peak is the kernel's VmHWM, the sum's is sampled",
		b.Uploads, took.Round(time.Second/10), float64(b.Uploads)*float64(b.UploadBytes)/1e6/took.Seconds())
	return nil
}

// peakOfTree samples the resident memory of a process and its descendants until ctx
// ends, and gives the most it saw, in MiB.
func peakOfTree(ctx context.Context, root int) float64 {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	peak := 0.0
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
		sum := 0.0
		for _, pid := range tree(stats, root) {
			resident, _ := memoryOf(pid, "VmRSS")
			sum += resident
		}
		peak = max(peak, sum)
	}
}

// uploadAtOnce begins all uploads together; each must be stored whole.
func (b *bench) uploadAtOnce(ctx context.Context, t tenant, e *endpoint) error {
	block := make([]byte, 1<<20)
	if _, err := rand.Read(block); err != nil {
		return err
	}
	f, err := newForm("bench.bin", nil)
	if err != nil {
		return err
	}
	// The file goes where the empty form ends its part.
	end := bytes.LastIndex(f.body, []byte("\r\n--"))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	var done atomic.Int64
	for range b.Uploads {
		all.Go(func() {
			body := io.MultiReader(bytes.NewReader(f.body[:end]), &repeated{block: block, left: b.UploadBytes}, bytes.NewReader(f.body[end:]))
			if err := b.uploadLarge(ctx, t, e, f, body); err != nil {
				cancel(err)
				return
			}
			if n := done.Add(1); n%16 == 0 {
				b.say("%s: %d of %d stored", b.name, n, b.Uploads)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
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
	stored, err := b.rig.bare.StatObject(ctx, t.account.Bucket, original(draft.MediaID), minio.StatObjectOptions{})
	if err != nil {
		return err
	}
	if draft.Size != b.UploadBytes || stored.Size != b.UploadBytes {
		return fmt.Errorf("of %d bytes the item says %d and the object has %d", b.UploadBytes, draft.Size, stored.Size)
	}
	return nil
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
