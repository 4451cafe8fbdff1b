package upload_test

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/imaging"
	"mediastack.dev/runtime/internal/imaging/imagetest"
	"mediastack.dev/runtime/internal/runtimetest/mediatest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/settings"
	"mediastack.dev/runtime/upload"
)

// withImages is a replica whose uploads get derivatives by real workers.
func (b *harness) withImages(objects media.ObjectStore) mediatest.Replica {
	b.T.Helper()
	replica, _ := b.withQueue(objects, mediatest.Config, 16)
	return replica
}

// watched is a pool that signals when an upload is about to wait for a slot.
type watched struct {
	*imaging.Pool
	awaits chan struct{}
}

func (w *watched) ReserveWait(ctx context.Context, account uuid.UUID) (media.ImageSlot, error) {
	w.awaits <- struct{}{}
	return w.Pool.ReserveWait(ctx, account)
}

// withQueue is withImages that also returns the pool, whose queue has the given slots.
func (b *harness) withQueue(objects media.ObjectStore, cfg upload.Config, slots int) (mediatest.Replica, *watched) {
	b.T.Helper()
	log := slog.New(slog.DiscardHandler)
	workers, err := imaging.New(b.T.Context(), imaging.Config{Enabled: true, WorkerPath: testenv.Binary(b.T, "mediastack-imaging"),
		Workers: 1, Queue: slots, Timeout: 10 * time.Minute, MaxBytes: 64 << 20, MaxPixels: 50_000_000, MaxFrames: 100, Memory: 2 << 30},
		imaging.Deps{Registry: prometheus.NewRegistry(), Log: log})
	must(b.T, err)
	b.T.Cleanup(workers.Close)
	pool := &watched{Pool: workers, awaits: make(chan struct{}, 10)}
	return b.Another(cfg, mediatest.Over(objects), func(deps *upload.Deps) { deps.Deriver = pool }), pool
}

// flood reserves n slots of the queue, as images that wait there do, until release is called.
func flood(t *testing.T, pool *watched, p account.Principal, n int) (release func()) {
	t.Helper()
	var all []media.ImageSlot
	for range n {
		slot, err := pool.Reserve(p.Account.ID)
		must(t, err)
		all = append(all, slot)
	}
	return func() {
		for _, slot := range all {
			slot.Release()
		}
	}
}

// choose sets the image settings of the tenant.
func (b *harness) choose(p account.Principal, change settings.Layer) {
	b.T.Helper()
	must(b.T, check.ErrorOf(settings.NewService(b.Store.Settings).Update(b.T.Context(), p.Account.ID, account.Actor{}, change)))
}

// picture returns an image of noise, which does not compress.
func picture(width, height int) image.Image {
	noise := random(width * height * 3)
	img := image.NewNRGBA(image.Rect(0, 0, width, height))
	for i := range width * height {
		img.SetNRGBA(i%width, i/width, color.NRGBA{R: noise[3*i], G: noise[3*i+1], B: noise[3*i+2], A: 255})
	}
	return img
}

func jpegOf(t *testing.T, img image.Image) []byte {
	t.Helper()
	var file bytes.Buffer
	must(t, jpeg.Encode(&file, img, nil))
	return file.Bytes()
}

func pngOf(t *testing.T, img image.Image) []byte {
	t.Helper()
	var file bytes.Buffer
	must(t, (&png.Encoder{CompressionLevel: png.NoCompression}).Encode(&file, img))
	return file.Bytes()
}

func variants(item media.Item) string {
	var names []string
	for _, object := range item.Objects {
		names = append(names, string(object.Variant))
	}
	return strings.Join(names, " ")
}

// An image whose conversion exceeded the memory once had no thumbnail either, and was logged
// twice.
func TestCommit_KeepsTheThumbnailOfAnImageThatCannotBeConverted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.Tenant(1 << 30)
	b.choose(p, settings.Layer{UseWebP: new(true)})
	var lines bytes.Buffer
	log := slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelWarn}))
	// The image is at the limits: the timeout is the maximum, because a busy machine may need minutes for it.
	workers, err := imaging.New(t.Context(), imaging.Config{Enabled: true, WorkerPath: testenv.Binary(t, "mediastack-imaging"),
		Workers: 1, Queue: 4, Timeout: 10 * time.Minute, MaxBytes: 64 << 20, MaxPixels: 100_000_000, MaxFrames: 100, Memory: 640 << 20},
		imaging.Deps{Registry: prometheus.NewRegistry(), Log: log})
	must(t, err)
	t.Cleanup(workers.Close)
	replica := b.Another(mediatest.Config, func(deps *upload.Deps) { deps.Deriver, deps.Log = workers, log })
	item, err := uploadFile(t.Context(), replica.Uploads, p, bytes.NewReader(imagetest.BlankPNG(9990, 9990, 8, 6, false)), media.Fields{})
	must(t, err)
	if got := variants(item); got != "original thumbnail" {
		t.Errorf("the item has %s", got)
	}
	text := lines.String()
	if strings.Count(text, "\n") != 1 || !strings.Contains(text, item.ID.String()) || !strings.Contains(text, "made=thumbnail") || !strings.Contains(text, "no webp") {
		t.Errorf("logged %q", text)
	}
}

func TestDerivatives_AreStoredCountedAndRemovedWithTheirItem(t *testing.T) {
	t.Parallel()
	b := setup(t)
	replica, p := b.withImages(b.Objects), b.Tenant(1<<30)
	yes := true
	b.choose(p, settings.Layer{UseWebP: &yes})
	file := jpegOf(t, picture(800, 600))
	item, err := uploadFile(t.Context(), replica.Uploads, p, bytes.NewReader(file), media.Fields{FileName: "a.jpg"})
	must(t, err)
	if got := variants(item); got != "original thumbnail webp" && got != "original webp thumbnail" {
		t.Fatalf("the item has %s", got)
	}
	if shown := item.File(); shown.Variant != media.WebP || shown.MimeType != "image/webp" {
		t.Errorf("the file shown is %+v", shown)
	}
	original, _ := item.Objects.Find(media.Original)
	if got := b.BytesOf(p, original); !bytes.Equal(got, file) {
		t.Error("the original differs from what was sent")
	}
	for _, object := range item.Objects {
		if stored := b.BytesOf(p, object); int64(len(stored)) != object.Bytes {
			t.Errorf("%s has %d bytes, its row says %d", object.Variant, len(stored), object.Bytes)
		}
	}
	if held := b.Number(`SELECT bytes FROM account_usage WHERE account_id = $1`, p.Account.ID); held != item.Objects.Bytes() {
		t.Errorf("%d bytes are used for %d stored", held, item.Objects.Bytes())
	}
	must(t, check.ErrorOf(replica.Items.Seal(t.Context(), p, item.ID)))
	b.Balanced(p)

	// A change of settings applies to later uploads.
	no, width := false, 64
	b.choose(p, settings.Layer{UseWebP: &no, ThumbnailWidth: &width})
	later, err := uploadFile(t.Context(), replica.Uploads, p, bytes.NewReader(file), media.Fields{FileName: "a.jpg"})
	must(t, err)
	if got := variants(later); got != "original thumbnail" {
		t.Errorf("without WebP the item has %s", got)
	}
	if before, err := replica.Items.Get(t.Context(), p, item.ID); err != nil || variants(before) != variants(item) {
		t.Errorf("the earlier item changed: %v, %v", before, err)
	}

	must(t, deleteItem(t.Context(), replica.Items, p, item.ID))
	must(t, deleteItem(t.Context(), replica.Items, p, later.ID))
	if left := b.Stored(p); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	b.Balanced(p)
}

func TestPurge_RemovesTheDerivativesOfDrafts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	replica, p := b.withImages(b.Objects), b.Tenant(1<<30)
	_, err := uploadFile(t.Context(), replica.Uploads, p, bytes.NewReader(jpegOf(t, picture(400, 300))), media.Fields{})
	must(t, err)
	if n := len(b.Stored(p)); n != 2 {
		t.Fatalf("%d objects", n)
	}
	b.Clock.Advance(25 * time.Hour)
	must(t, check.ErrorOf(b.Purger.Run(t.Context())))
	if left := b.Stored(p); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	b.Balanced(p)
}

// A file that no worker can decode is stored without derivatives.
func TestCommit_StoresABrokenImageWithoutDerivatives(t *testing.T) {
	t.Parallel()
	b := setup(t)
	replica, p := b.withImages(b.Objects), b.Tenant(1<<30)
	noise := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR"), random(1000)...)
	cut := jpegOf(t, picture(640, 480))
	for kind, broken := range map[string][]byte{"image/png": noise, "image/jpeg": cut[:len(cut)/2]} {
		item, err := uploadFile(t.Context(), replica.Uploads, p, bytes.NewReader(broken), media.Fields{})
		must(t, err)
		if variants(item) != "original" || item.File().MimeType != kind {
			t.Errorf("a broken %s has %s of %s", kind, variants(item), item.File().MimeType)
		}
	}
	b.Balanced(p)
}

// Invariant 5: derivatives count towards the cap; an upload that fits only without
// them is rejected, and nothing of it is stored.
func TestCommit_RejectedWhenTheCapCannotHoldTheDerivatives(t *testing.T) {
	t.Parallel()
	b := setup(t)
	file := jpegOf(t, picture(640, 480))
	replica, p := b.withImages(b.Objects), b.Tenant(int64(len(file))+10)
	if _, err := uploadFile(t.Context(), replica.Uploads, p, bytes.NewReader(file), media.Fields{}); !fault.Is(err, fault.QuotaExceeded) {
		t.Errorf("an upload whose thumbnail exceeds the cap: %v", err)
	}
	if left := b.Stored(p); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	b.Counts(0, "bytes are still used", `SELECT bytes FROM account_usage WHERE account_id = $1`, p.Account.ID)
	b.Balanced(p)
}

// An image of several parts is read back from S3 for its derivatives.
func TestDerive_ReadsALargeImageFromS3(t *testing.T) {
	t.Parallel()
	b := setup(t)
	replica, p := b.withImages(b.Objects), b.Tenant(1<<30)
	file := pngOf(t, picture(3000, 2200))
	if len(file) <= upload.MaxSinglePut {
		t.Fatalf("the image has only %d bytes", len(file))
	}
	item, err := uploadFile(t.Context(), replica.Uploads, p, bytes.NewReader(file), media.Fields{})
	must(t, err)
	if variants(item) != "original thumbnail" {
		t.Errorf("the item has %s", variants(item))
	}
	b.Balanced(p)
}

// brokenStore stores one variant and fails then, as if the response was lost.
type brokenStore struct {
	media.ObjectStore
	variant media.Variant
}

var errStore = errors.New("the store did not respond")

func (s *brokenStore) Put(ctx context.Context, bucket, key, contentType string, body io.ReadSeeker, size int64) error {
	err := s.ObjectStore.Put(ctx, bucket, key, contentType, body, size)
	if media.VariantOfKey(key) == s.variant {
		return errors.Join(errStore, err)
	}
	return err
}

func TestCommit_LeavesNothingWhenADerivativeCannotBeStored(t *testing.T) {
	t.Parallel()
	b := setup(t)
	replica, p := b.withImages(&brokenStore{ObjectStore: b.Objects, variant: media.Thumbnail}), b.Tenant(1<<30)
	if _, err := uploadFile(t.Context(), replica.Uploads, p, bytes.NewReader(jpegOf(t, picture(400, 300))), media.Fields{}); !errors.Is(err, errStore) {
		t.Fatalf("the upload: %v", err)
	}
	b.Clock.Advance(2 * time.Minute) // the failed write may still take effect: the removal is repeated
	must(t, check.ErrorOf(b.Purger.Run(t.Context())))
	b.Counts(0, "rows are left", `SELECT (SELECT count(*) FROM upload) + (SELECT count(*) FROM object_removal) + (SELECT count(*) FROM item)`)
	if left := b.Stored(p); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	b.Balanced(p)
}

// The images of one account once filled the queue, and every upload of every account was
// rejected, text included.
func TestImageQueue_RejectsOnlyTheAccountThatFloodsIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	replica, pool := b.withQueue(b.Objects, mediatest.Config, 4)
	one, two, other := b.Tenant(1<<30), b.Tenant(1<<30), b.Tenant(1<<30)
	image, text := jpegOf(t, picture(200, 200)), bytes.Repeat([]byte("some text. "), 1000)
	send := func(p account.Principal, data []byte) (media.Item, error) {
		return uploadFile(t.Context(), replica.Uploads, p, bytes.NewReader(data), media.Fields{})
	}
	release := flood(t, pool, one, 2)
	// Nothing of its uploads is read.
	if u, err := replica.Uploads.Begin(t.Context(), one, 0); !fault.Is(err, fault.Busy) || fault.From(err).RetryAfter <= 0 {
		t.Errorf("the account that floods the queue: %v, %v", u, err)
	}
	flooded := func(who string) {
		for kind, data := range map[string][]byte{"an image": image, "text": text} {
			if _, err := send(other, data); err != nil {
				t.Errorf("%s flood the queue, and %s of another account is rejected: %v", who, kind, err)
			}
		}
	}
	flooded("one")
	defer flood(t, pool, two, 2)()
	flooded("two")

	// If an account has an image in a full queue, its second one is rejected as soon as its
	// type is detected; other files are accepted.
	defer flood(t, pool, other, 1)()
	sent := bytes.NewReader(pngOf(t, picture(1000, 1000)))
	size := sent.Len()
	if _, err := uploadFile(t.Context(), replica.Uploads, other, sent, media.Fields{}); !fault.Is(err, fault.Busy) {
		t.Errorf("a second image: %v", err)
	}
	if read := size - sent.Len(); read > 256<<10 {
		t.Errorf("%d of %d bytes were read", read, size)
	}
	must(t, check.ErrorOf(send(other, text)))
	release()
	item, err := send(one, image)
	must(t, err)
	if variants(item) != "original thumbnail" {
		t.Errorf("the item has %s", variants(item))
	}
	b.Balanced(other)
}

// An upload of an image once held its slot in the queue after it had failed.
func TestUpload_ReleasesItsImageSlot(t *testing.T) {
	t.Parallel()
	b := setup(t)
	replica, pool := b.withQueue(b.Objects, mediatest.Config, 2)
	p := b.Tenant(1 << 30)
	image := jpegOf(t, picture(200, 200))
	for name, end := range map[string]func(*upload.Single){
		"closed": func(u *upload.Single) { u.Close(t.Context()) },
		"stored": func(u *upload.Single) {
			must(t, check.ErrorOf(u.Commit(t.Context(), media.Fields{})))
			u.Close(t.Context())
		},
	} {
		u, err := replica.Uploads.Begin(t.Context(), p, 0)
		must(t, err)
		must(t, u.Receive(t.Context(), bytes.NewReader(image), ""))
		if err := pool.CheckAdmission(p.Account.ID); !fault.Is(err, fault.Busy) {
			t.Errorf("an image that was received has no slot: %v", err)
		}
		end(u)
		if err := pool.CheckAdmission(p.Account.ID); err != nil {
			t.Errorf("an upload that is %s: %v", name, err)
		}
	}
}

// Resumable uploads once did not wait for a slot in the queue, and filled it for all accounts.
func TestFinish_WaitsForAnImageSlotWithoutHoldingAnUploadSlot(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cfg := mediatest.Config
	cfg.MaxUploads = 1
	replica, pool := b.withQueue(b.Objects, cfg, 2)
	p, other := b.Tenant(1<<30), b.Tenant(1<<30)
	image := jpegOf(t, picture(200, 200))
	r, err := replica.Uploads.CreateResumable(t.Context(), p, int64(len(image)), media.Fields{}, "")
	must(t, err)
	must(t, check.ErrorOf(r.Append(t.Context(), 0, bytes.NewReader(image), -1, nil)))
	release := flood(t, pool, p, 1)

	left, leave := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() { _, err := r.Finish(left); gone <- err }()
	<-pool.awaits
	// The only upload slot is free meanwhile.
	must(t, check.ErrorOf(uploadFile(t.Context(), replica.Uploads, other, strings.NewReader("text"), media.Fields{})))
	select {
	case err := <-gone:
		t.Fatalf("it did not wait: %v", err)
	default:
	}
	leave()
	if err := <-gone; !fault.Is(err, fault.Busy) {
		t.Errorf("a client that disconnected: %v", err)
	}
	type outcome struct {
		item media.Item
		err  error
	}
	finished := make(chan outcome, 1)
	go func() {
		item, err := r.Finish(t.Context())
		finished <- outcome{item, err}
	}()
	<-pool.awaits
	release()
	done := <-finished
	must(t, done.err)
	if variants(done.item) != "original thumbnail" {
		t.Errorf("the item has %s", variants(done.item))
	}
	if err := pool.CheckAdmission(p.Account.ID); err != nil {
		t.Errorf("a slot was not released: %v", err)
	}
	b.Balanced(p)
}
