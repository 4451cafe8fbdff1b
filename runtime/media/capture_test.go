package media_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/capture"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/imaging/imagetest"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/internal/runtimetest/mediatest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/upload"
	"mediastack.dev/runtime/work"
)

// tower is where the files of these tests were made.
var tower = capture.Location{Latitude: 48.8584, Longitude: 2.2945}

// withTags returns a file with the tags that exiftool writes.
func withTags(t *testing.T, file []byte, tags ...string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(path, file, 0o600))
	out, err := exec.CommandContext(t.Context(), "exiftool", append(append([]string{"-q", "-overwrite_original", "-n"}, tags...), path)...).CombinedOutput()
	if err != nil {
		t.Fatalf("exiftool: %v: %s", err, out)
	}
	file, err = os.ReadFile(path)
	must(t, err)
	return file
}

// locatedPhoto is a photo that says when and where it was made.
func locatedPhoto(t *testing.T) []byte {
	t.Helper()
	return withTags(t, imagetest.JPEG(imagetest.Picture(60, 40)), "-EXIF:Make=Apple", "-EXIF:Model=iPhone 15", "-EXIF:DateTimeOriginal=2024:05:01 12:30:45", "-EXIF:OffsetTimeOriginal=+02:00",
		"-GPSLatitude=48.8584", "-GPSLatitudeRef=N", "-GPSLongitude=2.2945", "-GPSLongitudeRef=E")
}

// movie is a movie that says when and where it was made, whose box moov is after media of so many bytes.
func movie(t *testing.T, mediaBytes int) []byte {
	t.Helper()
	box := func(kind string, parts ...[]byte) []byte {
		body := slices.Concat(parts...)
		return slices.Concat(binary.BigEndian.AppendUint32(nil, uint32(8+len(body))), []byte(kind), body)
	}
	header := make([]byte, 100)
	binary.BigEndian.PutUint32(header[12:], 1000)
	binary.BigEndian.PutUint32(header[16:], 2000)
	point := []byte("\x00\x12\x15\xc7+48.8584+002.2945/")
	binary.BigEndian.PutUint32(header[4:], 3_800_000_000)
	return slices.Concat(box("ftyp", []byte("mp42\x00\x00\x02\x00mp42")), box("mdat", make([]byte, mediaBytes)), box("moov", box("mvhd", header), box("udta", box("\xa9xyz", point))))
}

// keeping returns a tenant that keeps locations.
func (b *harness) keeping(keep bool) account.Principal {
	p := b.Tenant(1 << 30)
	b.keep(&p, keep)
	return p
}

// keep changes whether a tenant keeps locations.
func (b *harness) keep(p *account.Principal, keep bool) {
	b.T.Helper()
	b.Number(fmt.Sprintf(`WITH kept AS (UPDATE account SET keep_location = %v WHERE id = '%s' RETURNING 1) SELECT count(*) FROM kept`, keep, p.Account.ID))
	p.Account.KeepLocation = keep
}

func (b *harness) captures(pool media.CaptureReader, objects media.CaptureObjects) *media.Captures {
	b.T.Helper()
	must(b.T, b.Guard.Beat(b.T.Context()))
	return media.NewCaptures(media.CaptureDeps{Store: b.Store.Items, Objects: objects, Reader: pool, Writable: b.Guard.Writable,
		Wait: func(context.Context, time.Duration) error { return nil }, Log: discard})
}

// tasks returns how many tasks of a kind there are.
func (b *harness) tasks(kind work.Kind) int64 {
	return b.Number(fmt.Sprintf(`SELECT count(*) FROM work WHERE kind = '%s'`, kind))
}

func (b *harness) get(p account.Principal, id uuid.UUID) media.Item {
	b.T.Helper()
	item, err := b.Items.Get(b.T.Context(), p, id)
	must(b.T, err)
	return item
}

// TestCapture_IsStoredWithTheUpload uploads a photo to accounts that keep locations, and that do not.
func TestCapture_IsStoredWithTheUpload(t *testing.T) {
	t.Parallel()
	b := setup(t)
	pool := runtimetest.Images(t, prometheus.NewRegistry(), discard)
	replica := b.Another(mediatest.Config, func(deps *upload.Deps) { deps.Deriver = pool })
	for _, keep := range []bool{true, false} {
		p := b.keeping(keep)
		item, err := uploadFile(t.Context(), replica.Uploads, p, bytes.NewReader(locatedPhoto(t)), media.Fields{})
		must(t, err)
		for _, got := range []media.Item{item, b.get(p, item.ID)} {
			want := capture.Capture{At: "2024-05-01T12:30:45+02:00", Camera: "Apple iPhone 15"}
			if got.Capture.WithoutLocation() != want || (got.Capture.Location != nil) != keep || keep && *got.Capture.Location != tower || got.Version != 1 {
				t.Errorf("keep %v: %+v at %v, version %d", keep, got.Capture, got.Capture.Location, got.Version)
			}
		}
		if _, err := uploadFile(t.Context(), replica.Uploads, p, bytes.NewReader([]byte("a text")), media.Fields{}); err != nil {
			t.Error(err)
		}
	}
	if n := b.tasks(media.CaptureWork); n != 0 {
		t.Errorf("%d files are to be read again", n)
	}
	if n := b.Number(`SELECT count(*) FROM stored_item WHERE capture IS NULL`); n != 0 {
		t.Errorf("%d items are not read", n)
	}
	if n := b.Number(`SELECT count(*) FROM stored_item WHERE NOT EXISTS (SELECT FROM account WHERE account.id = account_id AND keep_location) AND capture::text ~ '(48\.8|location|cell)'`); n != 0 {
		t.Errorf("%d items of accounts that keep no locations have one", n)
	}
}

// TestCaptures_ReadsWhatNoPictureIsMadeOf uploads a movie and a photo without image workers, and reads them by their tasks.
func TestCaptures_ReadsWhatNoPictureIsMadeOf(t *testing.T) {
	t.Parallel()
	b := setup(t)
	pool := runtimetest.Images(t, prometheus.NewRegistry(), discard)
	for _, keep := range []bool{true, false} {
		p := b.keeping(keep)
		film, photo := b.Sealed(p, movie(t, 3<<20), media.Fields{}), b.Upload(p, locatedPhoto(t), media.Fields{})
		b.Upload(p, []byte("a text"), media.Fields{})
		damaged := b.Upload(p, locatedPhoto(t)[:100], media.Fields{})
		if n := b.tasks(media.CaptureWork); n != 3 {
			t.Errorf("%d tasks", n)
		}
		worker := b.captures(pool, b.Objects)
		for range 2 { // a task may run twice
			for _, item := range []media.Item{film, photo, damaged} {
				must(t, worker.Work(t.Context(), work.Task{Key: item.ID, AccountID: p.Account.ID}))
			}
		}
		for _, tt := range []struct {
			item     media.Item
			want     capture.Capture
			location bool
			more     int
		}{
			{film, capture.Capture{At: "2024-05-31T11:33:20Z"}, true, 1},
			{photo, capture.Capture{At: "2024-05-01T12:30:45+02:00", Camera: "Apple iPhone 15"}, true, 1},
			{damaged, capture.Capture{}, false, 0},
		} {
			got := b.get(p, tt.item.ID)
			if got.Capture.WithoutLocation() != tt.want || (got.Capture.Location != nil) != (keep && tt.location) || got.Version != tt.item.Version+tt.more {
				t.Errorf("keep %v: %+v at %v, version %d after %d", keep, got.Capture, got.Capture.Location, got.Version, tt.item.Version)
			}
		}
		b.Number(`WITH done AS (DELETE FROM work RETURNING 1) SELECT count(*) FROM done`)
	}
	if n := b.Number(`SELECT count(*) FROM stored_item WHERE NOT EXISTS (SELECT FROM account WHERE account.id = account_id AND keep_location) AND capture::text ~ '(48\.8|location|cell)'`); n != 0 {
		t.Errorf("%d items of accounts that keep no locations have one", n)
	}
}

// noWorkers reads nothing.
type noWorkers struct{}

func (noWorkers) ReadsCaptures() bool { return false }
func (noWorkers) ReadCapture(context.Context, media.CaptureJob) (capture.Capture, error) {
	return capture.Capture{}, errors.New("nothing reads it")
}

// TestCapturePass_ReadsTheItemsOfBefore reads what programs of before have stored, again and again, and waits where it has to.
func TestCapturePass_ReadsTheItemsOfBefore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	pool := runtimetest.Images(t, prometheus.NewRegistry(), discard)
	p, suspended := b.keeping(true), b.keeping(true)
	photo, sleeping := b.Sealed(p, locatedPhoto(t), media.Fields{}), b.Upload(suspended, locatedPhoto(t), media.Fields{})
	b.Upload(p, []byte("a text"), media.Fields{})
	b.Number(`WITH old AS (UPDATE stored_item SET capture = NULL RETURNING 1) SELECT count(*) FROM old`)
	b.Number(fmt.Sprintf(`WITH changed AS (UPDATE account SET suspended = true WHERE id = '%s' RETURNING 1) SELECT count(*) FROM changed`, suspended.Account.ID))
	b.Number(`WITH done AS (DELETE FROM work RETURNING 1) SELECT count(*) FROM done`)
	config := media.FactsConfig{FactsRate: 600}
	left := func() int64 {
		return b.Number(`SELECT count(*) FROM item WHERE capture IS NULL AND item_may_say_capture(objects)`)
	}
	// Without workers, and without the object store, nothing is lost.
	if err := b.captures(noWorkers{}, b.Objects).Pass(config).Work(t.Context(), work.Task{}); !snoozed(err, 10*time.Minute) || left() != 2 {
		t.Errorf("without workers: %v, %d are left", err, left())
	}
	if err := b.captures(noWorkers{}, b.Objects).Work(t.Context(), work.Task{Key: photo.ID, AccountID: p.Account.ID}); err != nil {
		t.Errorf("without workers, a task is done: %v", err)
	}
	if err := b.captures(pool, awayObjects{}).Pass(config).Work(t.Context(), work.Task{}); !snoozed(err, 10*time.Minute) || left() != 2 {
		t.Errorf("without the object store: %v, %d are left", err, left())
	}
	if err := b.captures(pool, awayObjects{}).Work(t.Context(), work.Task{Key: photo.ID, AccountID: p.Account.ID}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("without the object store, a task is tried again: %v", err)
	}
	pass := b.captures(pool, b.Objects).Pass(config)
	if err := pass.Work(t.Context(), work.Task{}); !snoozed(err, 10*time.Minute) || left() != 1 {
		t.Errorf("%v, %d are left", err, left())
	}
	got := b.get(p, photo.ID)
	if got.Capture.Location == nil || *got.Capture.Location != tower || got.Version != photo.Version+1 {
		t.Errorf("%+v, version %d", got.Capture, got.Version)
	}
	if err := b.captures(pool, b.Objects).Work(t.Context(), work.Task{Key: sleeping.ID, AccountID: suspended.Account.ID}); err == nil || left() != 1 {
		t.Errorf("the task of an account that is suspended waits: %v", err)
	}
	if err := pass.Work(t.Context(), work.Task{}); !snoozed(err, 10*time.Minute) || b.get(p, photo.ID).Version != got.Version {
		t.Errorf("the next pass: %v", err)
	}
}

// awayObjects is an object store that is away.
type awayObjects struct{}

func (awayObjects) Open(context.Context, string, string, int64, int64) (io.ReadCloser, error) {
	return nil, fault.New(fault.Unavailable, "away")
}

// TestLocations_AreRemovedWhenTheAccountKeepsThemNoLonger switches an account, with items, drafts and deleted items.
func TestLocations_AreRemovedWhenTheAccountKeepsThemNoLonger(t *testing.T) {
	t.Parallel()
	b := setup(t)
	pool := runtimetest.Images(t, prometheus.NewRegistry(), discard)
	replica := b.Another(mediatest.Config, func(deps *upload.Deps) { deps.Deriver = pool })
	p, other := b.keeping(true), b.keeping(true)
	var items []media.Item
	for _, of := range []account.Principal{p, p, other} {
		item, err := uploadFile(t.Context(), replica.Uploads, of, bytes.NewReader(locatedPhoto(t)), media.Fields{})
		must(t, err)
		items = append(items, item)
	}
	b.Number(fmt.Sprintf(`WITH deleted AS (UPDATE stored_item SET deleted_at = now(), restorable_until = now() + interval '1 day', was_sealed_at = now() WHERE id = '%s' RETURNING 1) SELECT count(*) FROM deleted`, items[1].ID))
	b.keep(&p, false)
	if n := b.tasks(media.LocationsWork); n != 2 {
		t.Errorf("%d tasks", n)
	}
	worker := b.captures(pool, b.Objects).Locations()
	task := work.Task{Key: uuid.New(), AccountID: p.Account.ID}
	must(t, worker.Work(t.Context(), task))
	must(t, worker.Work(t.Context(), task))
	withLocation := func(of account.Principal) int64 {
		return b.Number(fmt.Sprintf(`SELECT count(*) FROM stored_item WHERE account_id = '%s' AND capture::text ~ '(48\.8|location|cell)'`, of.Account.ID))
	}
	got := b.get(p, items[0].ID)
	if withLocation(p) != 0 || got.Capture.Camera != "Apple iPhone 15" || got.Version != items[0].Version+1 {
		t.Errorf("%d locations are left, the item has %+v in version %d", withLocation(p), got.Capture, got.Version)
	}
	if withLocation(other) != 1 {
		t.Errorf("%d locations of the other account are left", withLocation(other))
	}
	must(t, worker.Work(t.Context(), work.Task{Key: uuid.New(), AccountID: other.Account.ID}))
	if withLocation(other) != 1 {
		t.Error("a task removed locations of an account that keeps them")
	}
	// A replica that has not heard of the change stores no location either.
	late := p
	late.Account.KeepLocation = true
	if _, err := uploadFile(t.Context(), replica.Uploads, late, bytes.NewReader(locatedPhoto(t)), media.Fields{}); err != nil || withLocation(p) != 0 {
		t.Errorf("%v, %d locations", err, withLocation(p))
	}
	// What is restored, and what is uploaded later, has locations only as the account says.
	b.keep(&p, true)
	if n := b.tasks(media.LocationsWork); n != 2 {
		t.Errorf("switching it on added tasks: %d", n)
	}
	if _, err := uploadFile(t.Context(), replica.Uploads, p, bytes.NewReader(locatedPhoto(t)), media.Fields{}); err != nil || withLocation(p) != 1 {
		t.Errorf("%v, %d locations", err, withLocation(p))
	}
	must(t, worker.Work(t.Context(), task))
	if withLocation(p) != 1 {
		t.Error("a late task removed what the account keeps again")
	}
}
