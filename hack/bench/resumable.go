package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"

	"mediastack.dev/hack/servers"
	"mediastack.dev/hack/setup"
)

// tusd is what tables call the tusd program with its own S3 store.
const tusd = "tusd"

// barePart is the length of the parts of bare multipart uploads: that of the service's.
const barePart = 16 << 20

// resumable sends a large file in pieces, one client at a time, and compares with bare
// multipart uploads and with tusd; then it reads the runtime's peak with many at once.
func resumable(ctx context.Context, b *bench) error {
	t, err := b.rig.tenant(ctx, "resumable")
	if err != nil {
		return err
	}
	e, err := b.rig.serve(ctx, service, t, nil)
	if err != nil {
		return err
	}
	other, err := b.rig.serveTusd(ctx, t)
	if err != nil {
		return err
	}
	block := make([]byte, 1<<20)
	if _, err := rand.Read(block); err != nil {
		return err
	}
	names := b.rig.columns(client, service, tusd, postgres, store)
	speed := table{{"in pieces of", "against", "TUS MB/s", "its MB/s", "ratio", "min", "max", "aim", ""}}
	work := table{append([]string{"CPU ms per upload", "side"}, append(names, "all")...)}
	for _, piece := range []int64{8 << 20, 64 << 20} {
		f := pieces{block: block, size: b.ResumableBytes, piece: piece}
		sides := []side{
			{name: service, clients: 1, after: func(context.Context) error { return t.drop("media") }, call: func(ctx context.Context, _ int64) error {
				id, err := f.send(ctx, e, "/media/create/resumable")
				if err != nil {
					return err
				}
				return b.holds(ctx, t, original(id), f.size)
			}},
			{name: "minio-go", clients: 1, after: func(context.Context) error { return t.drop("bare") }, call: func(ctx context.Context, n int64) error {
				return f.sendBare(ctx, b, t, fmt.Sprintf("bare/%d/original", n))
			}},
			{name: tusd, clients: 1, after: func(context.Context) error { return t.drop(tusd) }, call: func(ctx context.Context, _ int64) error {
				id, err := f.send(ctx, other, "/files/")
				if err != nil {
					return err
				}
				key, _, _ := strings.Cut(id, "+") // the S3 upload's id follows
				return b.holds(ctx, t, tusd+"/"+key, f.size)
			}},
		}
		rounds, err := b.turns(ctx, sizeName(int(piece)), load{clients: 1, rounds: b.Rounds, calls: 1}, sides...)
		if err != nil {
			return err
		}
		own := rates(rounds[0])
		for i, wanted := range []*aim{atLeast(0.8), atLeast(1)} {
			against, its := sides[i+1].name, rates(rounds[i+1])
			found := b.add(result{Benchmark: b.name, Case: fmt.Sprintf("%s in %s, %s", sizeName(int(f.size)), sizeName(int(piece)), against),
				Figure: "ratio of MB/s", Aim: wanted}, ratios(own, its)...)
			megabytes := float64(f.size) / 1e6
			speed.row(append([]string{sizeName(int(piece)), against, number(median(own) * megabytes), number(median(its) * megabytes)}, found.cells()...)...)
		}
		for i, s := range sides {
			work.row(append([]string{sizeName(int(piece)), s.name}, b.workCells(rounds[i], names)...)...)
		}
	}
	speed.print(b.out, 2)
	b.note("")
	work.print(b.out, 2)
	b.note("one client sends %s; the bare side sends parts of 16 MiB, one after the other; tusd has its own defaults", sizeName(int(b.ResumableBytes)))
	e.Stop()
	other.Stop()
	return b.resumableMemory(ctx, t, block)
}

// holds makes sure that an object is there, and whole.
func (b *bench) holds(ctx context.Context, t tenant, key string, size int64) error {
	stored, err := b.rig.bare.StatObject(ctx, t.account.Bucket, key, minio.StatObjectOptions{})
	if err == nil && stored.Size != size {
		err = fmt.Errorf("%s has %d bytes of %d", key, stored.Size, size)
	}
	return err
}

// pieces is a file that is sent in pieces; it repeats a block of bytes.
type pieces struct {
	block       []byte
	size, piece int64
}

// send uploads the file to a server that speaks TUS, and gives the upload's id.
func (f pieces) send(ctx context.Context, e *endpoint, collection string) (string, error) {
	do := func(method, address string, length int64, status int, header ...string) (http.Header, error) {
		request, err := http.NewRequestWithContext(ctx, method, address, &repeated{block: f.block, left: length})
		if err != nil {
			return nil, err
		}
		request.ContentLength = length
		request.Header.Set("Tus-Resumable", "1.0.0")
		request.Header.Set("x-service-apikey", e.key)
		for i := 0; i+1 < len(header); i += 2 {
			request.Header.Set(header[i], header[i+1])
		}
		response, err := e.client.Do(request)
		if err != nil {
			return nil, err
		}
		defer response.Body.Close()
		said, err := io.ReadAll(response.Body)
		if err == nil && response.StatusCode != status {
			err = fmt.Errorf("%s was answered %s: %.300s", method, response.Status, said)
		}
		return response.Header, err
	}
	made, err := do(http.MethodPost, e.baseURL+collection, 0, http.StatusCreated, "Upload-Length", strconv.FormatInt(f.size, 10))
	if err != nil {
		return "", err
	}
	address := made.Get("Location")
	for offset := int64(0); offset < f.size; {
		n := min(f.piece, f.size-offset)
		answer, err := do(http.MethodPatch, address, n, http.StatusNoContent, "Upload-Offset", strconv.FormatInt(offset, 10), "Content-Type", "application/offset+octet-stream")
		if err != nil {
			return "", err
		}
		if offset += n; answer.Get("Upload-Offset") != strconv.FormatInt(offset, 10) {
			return "", fmt.Errorf("the offset is %s after %d bytes", answer.Get("Upload-Offset"), offset)
		}
	}
	return path.Base(address), nil
}

// sendBare uploads the file by a multipart upload.
func (f pieces) sendBare(ctx context.Context, b *bench, t tenant, key string) error {
	id, err := b.rig.bare.NewMultipartUpload(ctx, t.account.Bucket, key, minio.PutObjectOptions{})
	if err != nil {
		return err
	}
	// In memory, as the service has it: a part that is sent again must be read again.
	part := make([]byte, barePart)
	body := &repeated{block: f.block, left: f.size}
	var parts []minio.CompletePart
	for body.left > 0 {
		n, err := io.ReadFull(body, part[:min(barePart, body.left)])
		if err != nil {
			return err
		}
		stored, err := b.rig.bare.PutObjectPart(ctx, t.account.Bucket, key, id, len(parts)+1, bytes.NewReader(part[:n]), int64(n), minio.PutObjectPartOptions{DisableContentSha256: true})
		if err != nil {
			return err
		}
		parts = append(parts, minio.CompletePart{PartNumber: len(parts) + 1, ETag: stored.ETag})
	}
	if _, err := b.rig.bare.CompleteMultipartUpload(ctx, t.account.Bucket, key, id, parts, minio.PutObjectOptions{}); err != nil {
		return err
	}
	return b.holds(ctx, t, key, f.size)
}

// serveTusd starts tusd with its own S3 store, in a tenant's bucket.
func (r *rig) serveTusd(ctx context.Context, t tenant) (*endpoint, error) {
	program, err := setup.FindTusd()
	if err != nil {
		return nil, err
	}
	port, err := servers.FreePort()
	if err != nil {
		return nil, err
	}
	e := &endpoint{baseURL: fmt.Sprintf("http://127.0.0.1:%d", port)}
	access := r.s3.Access
	e.Process, err = r.group.Start(ctx, servers.Spec{
		Name: "tusd", Path: program, LogFile: filepath.Join(r.dir, "tusd.log"),
		Args:  []string{"-host=127.0.0.1", fmt.Sprintf("-port=%d", port), "-s3-bucket=" + t.account.Bucket, "-s3-endpoint=" + access.Endpoint, "-s3-object-prefix=" + tusd + "/"},
		Env:   environment(map[string]string{"AWS_ACCESS_KEY_ID": access.AccessKey, "AWS_SECRET_ACCESS_KEY": access.SecretKey, "AWS_REGION": access.Region}),
		Ready: servers.Answers(e.baseURL + "/"),
	})
	if err != nil {
		return nil, err
	}
	r.watched[tusd] = e.PID()
	e.client, err = newClient()
	return e, err
}

// The uploads that resumableMemory sends at once; each is a quarter of the large file.
const resumableUploads = 16

// resumableMemory sends many files in pieces at once to a fresh runtime, and reads its
// peak, and how much of them it keeps in files of its own.
func (b *bench) resumableMemory(ctx context.Context, t tenant, block []byte) error {
	e, err := b.rig.serve(ctx, service, t, nil)
	if err != nil {
		return err
	}
	idle, _ := memoryOf(e.PID(), "VmRSS")
	f := pieces{block: block, size: b.ResumableBytes / 4, piece: 64 << 20}
	watched, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	var files int64
	go func() {
		defer close(ended)
		files = peakOfFiles(watched, e.PID())
	}()
	started := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for range resumableUploads {
		all.Go(func() {
			id, err := f.send(ctx, e, "/media/create/resumable")
			if err == nil {
				err = b.holds(ctx, t, original(id), f.size)
			}
			if err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	took := time.Since(started)
	stop()
	<-ended
	if err := context.Cause(ctx); err != nil {
		return err
	}
	peak, ok := memoryOf(e.PID(), "VmHWM")
	if !ok {
		return fmt.Errorf("the kernel does not say how much memory the runtime had")
	}
	what := fmt.Sprintf("%d uploads of %s", resumableUploads, sizeName(int(f.size)))
	found := b.add(result{Benchmark: b.name, Case: what, Figure: "MiB, peak", Aim: below(300), Behind: map[string]float64{"idle": idle, "fileBytes": float64(files)}}, peak)
	b.note("")
	sizes := table{{"resident memory of the runtime, MiB", "idle", "peak", "aim", "", "bytes in files"}}
	sizes.row(what, number(idle), number(found.Value), found.Aim.String(), found.verdict(), strconv.FormatInt(files, 10))
	sizes.print(b.out, 1)
	b.note("in pieces of %s, all at once, in %s; the peak is the kernel's VmHWM; files are those that the runtime has open, removed ones included", sizeName(int(f.piece)), took.Round(time.Second/10))
	return nil
}

// peakOfFiles samples how many bytes the files have that a process has open, logs
// excepted, until ctx ends, and gives the most it saw.
func peakOfFiles(ctx context.Context, pid int) int64 {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	peak := int64(0)
	for {
		select {
		case <-ctx.Done():
			return peak
		case <-ticker.C:
		}
		open, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		sum := int64(0)
		for _, one := range open {
			leads, _ := os.Readlink(one)
			if info, err := os.Stat(one); err == nil && info.Mode().IsRegular() && !strings.HasSuffix(leads, ".log") {
				sum += info.Size()
			}
		}
		peak = max(peak, sum)
	}
}
