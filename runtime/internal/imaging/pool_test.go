package imaging_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/imaging"
	"mediastack.dev/runtime/internal/imaging/imagetest"
	"mediastack.dev/runtime/media"
)

// smallJob returns a job for fake workers, which ignore the file.
func smallJob() media.ImageJob {
	job := request("image/jpeg", []byte("ignored"))
	job.Settings.UseWebP = false
	return job
}

// children returns the processes that run a program.
func children(t testing.TB, program string) []int {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, path := range found {
		line, _ := os.ReadFile(path)
		if command, _, _ := bytes.Cut(line, []byte{0}); string(command) == program {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, pid)
		}
	}
	return pids
}

func TestDerive_RetriesOnceOnAnotherWorker(t *testing.T) {
	t.Parallel()
	for role, why := range map[string]string{
		"crashes":                      "exit status 3",
		"hangs":                        "timed out",
		"does-not-read":                "timed out",
		"closes-its-output":            "EOF",
		"writes-garbage":               "protocol",
		"writes-forever":               "unexpected Data",
		"announces-a-terabyte":         "more than",
		"answers-another-job":          "not requested",
		"sends-an-unrequested-picture": "not requested",
		"sends-another-format":         "encoding 4 instead of 1",
		"sends-no-webp":                "not a valid WebP",
		"announces-another-size":       "not that of its header",
		"sends-a-large-thumbnail":      "a thumbnail of 256",
		"sends-more-than-announced":    "unexpected Data in a picture",
		"sends-it-twice":               "not requested",
		"is-done-without-pictures":     "unexpected Done",
		"rejects-another-job":          "unexpected Rejected",
		"sends-no-facts":               "instead of Facts",
		"sends-facts-of-another-job":   "facts of another job",
		"sends-facts-over-the-limit":   "an image of 2147483648 x 2147483648",
		"sends-facts-twice":            "unexpected Facts",
	} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			program := fakeWorker(t, role)
			cfg := config(program)
			if why == "timed out" {
				cfg.Timeout = time.Second
			}
			pool := open(t, cfg)
			job := smallJob()
			if role == "does-not-read" {
				job = request("image/jpeg", make([]byte, 4<<20)) // more than a pipe holds
			}
			opened := 0
			source := job.Source
			job.Source = func(ctx context.Context) (io.ReadCloser, error) { opened++; return source(ctx) }
			_, derivatives, err := pool.Derive(t.Context(), job)
			if !errors.Is(err, imaging.ErrWorker) || !strings.Contains(err.Error(), why) || derivatives != nil {
				t.Errorf("got %d derivatives, %v; want %q", len(derivatives), err, why)
			}
			if opened != 2 {
				t.Errorf("the file was read %d times", opened)
			}
			if n := pool.metric("mediastack_image_worker_exits_total", "crashed"); n != 2 {
				t.Errorf("%g workers ended", n)
			}
			if strings.Contains(pool.log.String(), "<script>") || !strings.Contains(pool.log.String(), job.ItemID.String()) {
				t.Errorf("the log must name the item and hold nothing of it: %s", pool.log)
			}
			if left := children(t, program); len(left) != 0 {
				t.Errorf("worker %v still runs", left)
			}
		})
	}
}

func TestDerive_SucceedsOnTheSecondWorker(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"crashes-once", "hangs-once"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			cfg := config(fakeWorker(t, role))
			maximum := cfg.Timeout
			if role == "hangs-once" {
				cfg.Timeout = time.Second
			}
			pool, job := open(t, cfg), smallJob()
			source := job.Source
			job.Source = func(ctx context.Context) (io.ReadCloser, error) {
				pool.SetTimeout(maximum) // of the second worker: it is not the one that hangs
				return source(ctx)
			}
			_, derivatives, err := pool.Derive(t.Context(), job)
			if err != nil || len(derivatives) != 1 || derivatives[0].Variant != media.Thumbnail {
				t.Errorf("got %d derivatives, %v", len(derivatives), err)
			}
			if n := pool.metric("mediastack_image_worker_exits_total", "crashed"); n != 1 {
				t.Errorf("%g workers failed", n)
			}
		})
	}
}

func TestDerive_DoesNotRetryARejection(t *testing.T) {
	t.Parallel()
	pool := open(t, config(fakeWorker(t, "rejects")))
	_, _, err := pool.Derive(t.Context(), smallJob())
	var no *imaging.RejectedError
	if !errors.As(err, &no) || no.Reason != "corrupt" || no.Text != "it is ?[31mbroken?" {
		t.Errorf("got %v", err)
	}
	if n := pool.metric("mediastack_image_jobs_total", "corrupt"); n != 1 {
		t.Errorf("counted %g", n)
	}
	if n := pool.metric("mediastack_image_worker_exits_total", "crashed"); n != 0 {
		t.Errorf("%g workers failed", n)
	}
}

func TestDerive_StripsMetadataOfACompromisedWorker(t *testing.T) {
	t.Parallel()
	_, derivatives, err := open(t, config(fakeWorker(t, "adds-metadata"))).Derive(t.Context(), smallJob())
	if err != nil || len(derivatives) != 1 || !bytes.Equal(derivatives[0].Data, pixel()) {
		t.Errorf("got %q, %v", derivatives, err)
	}
}

func TestDerive_OutputAfterDoneFailsNoOtherJob(t *testing.T) {
	t.Parallel()
	pool := open(t, config(fakeWorker(t, "writes-after-done")))
	for range 5 {
		if _, _, err := pool.Derive(t.Context(), smallJob()); err != nil {
			t.Error(err)
		}
	}
}

func TestDerive_BoundsAndSanitizesLoggedStderr(t *testing.T) {
	t.Parallel()
	pool := open(t, config(fakeWorker(t, "writes-to-stderr")))
	if _, _, err := pool.Derive(t.Context(), smallJob()); err != nil {
		t.Error(err)
	}
	if said := pool.log.String(); len(said) > 20_000 || strings.Contains(said, "\x1b") || strings.Contains(said, `\x1b`) {
		t.Errorf("the log has %d bytes: %.300s", len(said), said)
	}
}

func TestNew_FailsIfTheWorkerCannotStart(t *testing.T) {
	t.Parallel()
	notAProgram := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(notAProgram, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for program, want := range map[string]string{
		fakeWorker(t, "fails-to-start"):          "exit status 7",
		fakeWorker(t, "other-version"):           "another build",
		fakeWorker(t, "handshakes-with-garbage"): "handshake of the image worker",
		"/nowhere/mediastack-imaging":            "SERVICE_IMAGE_WORKER_PATH: ",
		notAProgram:                              "permission denied",
		"":                                       "SERVICE_IMAGE_ENABLED",
	} {
		_, err := imaging.New(t.Context(), config(program), imaging.Deps{Registry: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", program, err, want)
		}
	}
}

func TestNew_RetriesAWorkerThatIsKilled(t *testing.T) {
	t.Parallel()
	pool := open(t, config(fakeWorker(t, "is-killed-once")))
	if _, _, err := pool.Derive(t.Context(), smallJob()); err != nil {
		t.Error(err)
	}
	if n := pool.metric("mediastack_image_worker_exits_total", "start_failed"); n != 1 {
		t.Errorf("%g starts failed, want 1", n)
	}
}

func TestDerive_RestartsWorkersThatFailToStart(t *testing.T) {
	t.Parallel()
	program := fakeWorker(t, "starts-once")
	pool := open(t, config(program))
	for range 2 {
		if _, _, err := pool.Derive(t.Context(), smallJob()); !errors.Is(err, imaging.ErrWorker) {
			t.Errorf("got %v", err)
		}
	}
	if n := pool.metric("mediastack_image_worker_exits_total", "start_failed"); n != 3 {
		t.Errorf("%g starts failed, want 3: the retry of the first job and both tries of the second", n)
	}
	// The installation is repaired.
	if err := errors.Join(os.Remove(program), os.Symlink(realWorker(t), program)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := pool.Derive(t.Context(), request("image/jpeg", imagetest.JPEG(imagetest.Picture(8, 8)))); err != nil {
		t.Error(err)
	}
}

func TestPool_HandlesNothingIfDisabled(t *testing.T) {
	t.Parallel()
	pool := open(t, imaging.Config{})
	if pool.Handles("image/jpeg", 1) || pool.CheckAdmission(uuid.New()) != nil {
		t.Error("a disabled pool handles files, or rejects uploads")
	}
	if _, derivatives, err := pool.Derive(t.Context(), smallJob()); err == nil || derivatives != nil {
		t.Errorf("got %v, %v", derivatives, err)
	}
}

func TestHandles_ByTypeAndSize(t *testing.T) {
	t.Parallel()
	pool := open(t, config(fakeWorker(t, "works")))
	for _, c := range []struct {
		mimeType string
		bytes    int64
		want     bool
	}{
		{"image/jpeg", 1, true}, {"image/png", 64 << 20, true}, {"image/gif", 5, true}, {"image/webp", 5, true}, {"image/heic", 5, true},
		{"image/avif", 5, true}, {"image/vnd.mozilla.apng", 5, true},
		{"image/jpeg", 0, false}, {"image/jpeg", 64<<20 + 1, false}, {"image/svg+xml", 5, false}, {"application/pdf", 5, false}, {"image/tiff", 5, false}, {"", 5, false},
	} {
		if got := pool.Handles(c.mimeType, c.bytes); got != c.want {
			t.Errorf("Handles(%q, %d) = %t", c.mimeType, c.bytes, got)
		}
	}
}

// held is a job whose file can't be read before release is called.
type held struct {
	media.ImageJob
	started chan struct{}
	release func()
}

func hold(account uuid.UUID, begin func()) held {
	h := held{ImageJob: smallJob(), started: make(chan struct{})}
	released := make(chan struct{})
	h.release = sync.OnceFunc(func() { close(released) })
	h.AccountID = account
	var started sync.Once
	source := h.Source
	h.Source = func(ctx context.Context) (io.ReadCloser, error) {
		started.Do(func() {
			if begin != nil {
				begin()
			}
			close(h.started)
		})
		select {
		case <-released:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return source(ctx)
	}
	return h
}

// derived is the result of a job that runs in the background.
type derived struct {
	made []media.Derivative
	err  error
}

func (b *harness) begin(ctx context.Context, job media.ImageJob) <-chan derived {
	done := make(chan derived, 1)
	go func() {
		_, made, err := b.Derive(ctx, job)
		done <- derived{made, err}
	}()
	return done
}

func (b *harness) waiting(n int) {
	b.t.Helper()
	wait.Until(b.t, fmt.Sprintf("%d jobs wait", n), func() bool { return b.metric("mediastack_image_queue_length") == float64(n) })
}

func TestDerive_AccountsTakeTurns(t *testing.T) {
	t.Parallel()
	pool := open(t, config(fakeWorker(t, "works")))
	blocker := hold(uuid.New(), nil)
	all := []<-chan derived{pool.begin(t.Context(), blocker.ImageJob)}
	<-blocker.started

	var order []string
	accounts := map[byte]uuid.UUID{'a': uuid.New(), 'b': uuid.New(), 'c': uuid.New()}
	for i, name := range []string{"a1", "a2", "a3", "b1", "a4", "b2", "c1"} {
		h := hold(accounts[name[0]], func() { order = append(order, name) })
		h.release()
		all = append(all, pool.begin(t.Context(), h.ImageJob))
		pool.waiting(i + 1)
	}
	blocker.release()
	for _, done := range all {
		if d := <-done; d.err != nil {
			t.Error(d.err)
		}
	}
	if want := []string{"a1", "b1", "c1", "a2", "b2", "a3", "a4"}; !slices.Equal(order, want) {
		t.Errorf("the order was %v, want %v", order, want)
	}
}

// queued returns a small job that has a slot of the queue.
func (b *harness) queued(account uuid.UUID) media.ImageJob {
	b.t.Helper()
	job := smallJob()
	job.AccountID = account
	var err error
	if job.Slot, err = b.Reserve(account); err != nil {
		b.t.Fatal(err)
	}
	return job
}

func TestReserve_SlotIsReleasedWhenAWorkerTakesTheJob(t *testing.T) {
	t.Parallel()
	cfg := config(fakeWorker(t, "works"))
	cfg.Queue = 4
	pool := open(t, cfg)
	busy, quiet := uuid.New(), uuid.New()
	blocker := hold(busy, nil)
	blocker.Slot = pool.queued(busy).Slot
	all := []<-chan derived{pool.begin(t.Context(), blocker.ImageJob)}
	<-blocker.started
	for i := range 2 { // the running job has released its slot
		if err := pool.CheckAdmission(busy); err != nil {
			t.Errorf("with %d jobs waiting: %v", i, err)
		}
		all = append(all, pool.begin(t.Context(), pool.queued(busy)))
		pool.waiting(i + 1)
	}
	_, rejected := pool.Reserve(busy)
	for _, err := range []error{rejected, pool.CheckAdmission(busy)} {
		if f := fault.From(err); f.Kind != fault.Busy || f.RetryAfter < time.Second || f.Public == "" {
			t.Errorf("got %v", err)
		}
	}
	if err := pool.CheckAdmission(quiet); err != nil {
		t.Errorf("another account: %v", err)
	}
	all = append(all, pool.begin(t.Context(), pool.queued(quiet)))
	left, leave := context.WithCancel(t.Context())
	leave()
	if _, err := pool.ReserveWait(left, busy); !fault.Is(err, fault.Busy) {
		t.Errorf("a job that was canceled while it waited: %v", err)
	}
	waited := make(chan error, 1)
	go func() { _, err := pool.ReserveWait(t.Context(), busy); waited <- err }()
	blocker.release()
	for _, done := range all {
		if d := <-done; d.err != nil {
			t.Error(d.err)
		}
	}
	if err := <-waited; err != nil {
		t.Errorf("a job that waited for a slot: %v", err)
	}
	if err := pool.CheckAdmission(busy); err != nil {
		t.Error(err)
	}
}

func TestDerive_CancelKillsTheWorker(t *testing.T) {
	t.Parallel()
	program := fakeWorker(t, "hangs")
	pool := open(t, config(program))
	ctx, cancel := context.WithCancel(t.Context())
	running := smallJob()
	read := make(chan struct{})
	running.Source = func(context.Context) (io.ReadCloser, error) {
		return &closing{Reader: strings.NewReader("ignored"), closed: read}, nil
	}
	ran := pool.begin(ctx, running)
	<-read // the worker has received the whole file, and never answers
	waited := pool.begin(ctx, smallJob())
	pool.waiting(1)
	before := children(t, program)
	cancel()
	for _, done := range []<-chan derived{ran, waited} {
		wait.Until(t, "the job is given up", func() bool { return len(done) == 1 })
		if d := <-done; !errors.Is(d.err, context.Canceled) || d.made != nil {
			t.Errorf("got %v, %v", d.made, d.err)
		}
	}
	pool.waiting(0)
	if after := children(t, program); len(before) != 1 || slices.Contains(after, before[0]) {
		t.Errorf("worker %v still runs: %v", before, after)
	}
	if n := pool.metric("mediastack_image_jobs_total", "canceled"); n != 2 {
		t.Errorf("%g canceled", n)
	}
	if n := pool.metric("mediastack_image_worker_exits_total", "crashed"); n != 0 {
		t.Errorf("%g workers failed", n)
	}
}

type closing struct {
	io.Reader
	closed chan struct{}
}

func (c *closing) Close() error { close(c.closed); return nil }

func TestClose_EndsJobsAndWorkers(t *testing.T) {
	t.Parallel()
	program := fakeWorker(t, "works")
	cfg := config(program)
	cfg.Workers = 2
	pool := open(t, cfg)
	pool.SetCloseGrace(time.Hour)
	blockers := []held{hold(uuid.New(), nil), hold(uuid.New(), nil)}
	running := []<-chan derived{pool.begin(t.Context(), blockers[0].ImageJob), pool.begin(t.Context(), blockers[1].ImageJob)}
	<-blockers[0].started
	<-blockers[1].started
	waiting := pool.begin(t.Context(), smallJob())
	pool.waiting(1)
	if n := len(children(t, program)); n != 2 {
		t.Errorf("%d workers", n)
	}
	closed := make(chan struct{})
	go func() { pool.Close(); close(closed) }()
	if d := <-waiting; !errors.Is(d.err, imaging.ErrClosed) {
		t.Errorf("the job that waited: %v", d.err)
	}
	blockers[0].release() // this one ends in time, the other does not
	if d := <-running[0]; d.err != nil || len(d.made) != 1 {
		t.Errorf("the job that ran: %v", d.err)
	}
	pool.EndCloseGrace()
	if d := <-running[1]; !errors.Is(d.err, imaging.ErrClosed) {
		t.Errorf("the job that hung: %v", d.err)
	}
	<-closed
	if left := children(t, program); len(left) != 0 {
		t.Errorf("worker %v still runs", left)
	}
	if _, _, err := pool.Derive(t.Context(), smallJob()); !errors.Is(err, imaging.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}

func TestClose_KillsWorkersAfterAGrace(t *testing.T) {
	t.Parallel()
	pool := open(t, config(fakeWorker(t, "works")))
	pool.SetCloseGrace(time.Millisecond)
	hanging := hold(uuid.New(), nil)
	running := pool.begin(t.Context(), hanging.ImageJob)
	<-hanging.started
	pool.Close()
	if d := <-running; !errors.Is(d.err, imaging.ErrClosed) {
		t.Errorf("the job that hung: %v", d.err)
	}
}

func TestPool_RecyclesWorkers(t *testing.T) {
	t.Parallel()
	program := fakeWorker(t, "works")
	pool := open(t, config(program))
	first := children(t, program)
	for range 301 {
		if _, _, err := pool.Derive(t.Context(), smallJob()); err != nil {
			t.Fatal(err)
		}
	}
	if second := children(t, program); len(second) != 1 || slices.Equal(first, second) {
		t.Errorf("worker %v was not recycled: %v", first, second)
	}
	if n := pool.metric("mediastack_image_worker_exits_total", "recycled"); n != 1 {
		t.Errorf("%g workers were recycled", n)
	}
}

var errStore = errors.New("the object store is away")

func TestDerive_SourceErrorIsNotRetried(t *testing.T) {
	t.Parallel()
	program := renamedWorker(t)
	pool := open(t, config(program))
	worker := children(t, program)
	file := imagetest.JPEG(imagetest.Picture(600, 400))
	read := func(r io.Reader, err error) func(context.Context) (io.ReadCloser, error) {
		return func(context.Context) (io.ReadCloser, error) { return io.NopCloser(r), err }
	}
	for name, source := range map[string]func(context.Context) (io.ReadCloser, error){
		"it can't be opened":          read(nil, errStore),
		"it breaks off":               read(io.MultiReader(bytes.NewReader(file[:1000]), failing{}), nil),
		"it is shorter than was said": read(bytes.NewReader(file[:1000]), nil),
		"it is longer than was said":  read(bytes.NewReader(append(file[:len(file):len(file)], 0)), nil),
	} {
		job := request("image/jpeg", file)
		job.Source = source
		if _, _, err := pool.Derive(t.Context(), job); !errors.Is(err, imaging.ErrSource) {
			t.Errorf("%s: %v", name, err)
		}
		if _, _, err := pool.Derive(t.Context(), request("image/jpeg", file)); err != nil {
			t.Errorf("after %s: %v", name, err)
		}
	}
	if after := children(t, program); !slices.Equal(worker, after) {
		t.Errorf("the worker was replaced: %v, %v", worker, after)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errStore }

func TestDerive_SurvivesKilledWorkers(t *testing.T) {
	t.Parallel()
	program := renamedWorker(t)
	cfg := config(program)
	cfg.Workers = 2
	pool := open(t, cfg)
	file := imagetest.JPEG(imagetest.Picture(600, 400))
	// The first read blocks in the middle of the file until its worker is dead.
	half, killed := make(chan struct{}), make(chan struct{})
	job := request("image/jpeg", file)
	opened := 0
	job.Source = func(context.Context) (io.ReadCloser, error) {
		if opened++; opened > 1 {
			return io.NopCloser(bytes.NewReader(file)), nil
		}
		return io.NopCloser(io.MultiReader(bytes.NewReader(file[:len(file)/2]), &gate{half, killed}, bytes.NewReader(file[len(file)/2:]))), nil
	}
	done := pool.begin(t.Context(), job)
	<-half
	// The one running worker has the job: the second starts with its first job.
	victims := children(t, program)
	if len(victims) == 0 {
		t.Fatal("no worker runs")
	}
	other := pool.begin(t.Context(), request("image/jpeg", file))
	if d := <-other; d.err != nil {
		t.Errorf("the other job: %v", d.err)
	}
	for _, pid := range victims {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		wait.Until(t, "the worker is dead", func() bool { return !slices.Contains(children(t, program), pid) })
	}
	close(killed)
	if d := <-done; d.err != nil || len(d.made) != 2 {
		t.Errorf("got %d derivatives, %v", len(d.made), d.err)
	}
	if opened != 2 {
		t.Errorf("the file was read %d times", opened)
	}
}

// gate is a reader that closes reached at its first read, and blocks until opened is closed.
type gate struct{ reached, opened chan struct{} }

func (g *gate) Read([]byte) (int, error) {
	close(g.reached)
	<-g.opened
	return 0, io.EOF
}

func TestDerive_BoundsWorkerMemory(t *testing.T) {
	t.Parallel()
	cfg := config(realWorker(t))
	cfg.Memory = 256 << 20
	pool := open(t, cfg)
	// An interlaced image needs all of its 288 MB in memory.
	_, _, err := pool.Derive(t.Context(), request("image/png", imagetest.BlankPNG(6000, 6000, 16, 6, true)))
	var no *imaging.RejectedError
	if !errors.As(err, &no) || no.Reason != "out_of_memory" {
		t.Errorf("got %v; log %s", err, pool.log)
	}
	if _, derivatives, err := pool.Derive(t.Context(), request("image/png", imagetest.PNG(imagetest.Picture(600, 400)))); err != nil || len(derivatives) != 2 {
		t.Errorf("the next job: %d derivatives, %v", len(derivatives), err)
	}
}

func TestWorker_IsSandboxedWithoutEnvironment(t *testing.T) {
	t.Setenv("SERVICE_SECRET", "this must not get out")
	program := renamedWorker(t)
	pool := open(t, config(program))
	if !strings.Contains(pool.log.String(), "sandboxed=true") {
		t.Errorf("the log says: %s", pool.log)
	}
	pids := children(t, program)
	if len(pids) != 1 {
		t.Fatalf("workers: %v", pids)
	}
	proc := func(name string) string {
		content, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pids[0], name))
		if err != nil && !errors.Is(err, os.ErrPermission) {
			t.Fatal(err)
		}
		return string(content)
	}
	if environ := proc("environ"); strings.Contains(environ, "SERVICE_") || strings.Contains(environ, "PATH=") {
		t.Errorf("its environment is %q", environ)
	}
	status := proc("status")
	for _, want := range []string{"Seccomp:\t2", "NoNewPrivs:\t1"} {
		if !strings.Contains(status, want) {
			t.Errorf("its status lacks %q", want)
		}
	}
	for what, want := range map[string]string{"Max core file size": "0", "Max file size": "0", "Max open files": "16"} {
		if limits := proc("limits"); !strings.Contains(strings.Join(strings.Fields(limits), " "), what+" "+want+" "+want+" ") {
			t.Errorf("%s is not %s: %s", what, want, limits)
		}
	}
}

func TestConfigValidate_RejectsInvalidBounds(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*imaging.Config){
		"SERVICE_IMAGE_WORKERS":              func(c *imaging.Config) { c.Workers = -1 },
		"SERVICE_IMAGE_QUEUE":                func(c *imaging.Config) { c.Queue = 0 },
		"SERVICE_IMAGE_RENDER_QUEUE":         func(c *imaging.Config) { c.RenderQueue = -1 },
		"SERVICE_IMAGE_MAX_ANIMATION_PIXELS": func(c *imaging.Config) { c.MaxAnimationPixels = -1 },
		"SERVICE_IMAGE_TIMEOUT":              func(c *imaging.Config) { c.Timeout = time.Millisecond },
		"SERVICE_IMAGE_MAX_BYTES":            func(c *imaging.Config) { c.MaxBytes = 1 << 40 },
		"SERVICE_IMAGE_MAX_PIXELS":           func(c *imaging.Config) { c.MaxPixels = 0 },
		"SERVICE_IMAGE_MAX_FRAMES":           func(c *imaging.Config) { c.MaxFrames = 0 },
		"SERVICE_IMAGE_MEMORY":               func(c *imaging.Config) { c.Memory = 1 },
	} {
		cfg := config("")
		change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.HasPrefix(err.Error(), want+" must ") {
			t.Errorf("%s: %v", want, err)
		}
		cfg.Enabled = false
		if err := cfg.Validate(); err != nil {
			t.Errorf("other values of a disabled pool must not matter: %v", err)
		}
	}
}
