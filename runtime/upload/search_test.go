package upload_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"log/slog"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/installation"
	"mediastack.dev/runtime/internal/runtimetest/mediatest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/objectstore"
	"mediastack.dev/runtime/upload"
	"mediastack.dev/runtime/work"
)

// put stores an object that no upload has stored, and returns its key.
func (b *harness) put(of account.Principal, key string) string {
	b.T.Helper()
	must(b.T, b.Objects.Put(b.T.Context(), of.Account.Bucket, key, "text/plain", bytes.NewReader([]byte("x")), 1))
	return key
}

// idBefore returns an id that was made some time before another one.
func idBefore(id uuid.UUID, by time.Duration) uuid.UUID {
	var at [8]byte
	copy(at[2:], id[:6])
	binary.BigEndian.PutUint64(at[:], binary.BigEndian.Uint64(at[:])-uint64(by.Milliseconds()))
	copy(id[:6], at[2:])
	return id
}

// Exactly what a dead process has stored and not recorded is removed, from each bucket in which it wrote.
func TestSearch_RemovesWhatADeadProcessHasNotRecorded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, other := b.Tenant(1<<20), b.Tenant(1<<20)
	dead, living := b.process(), b.process()
	kept := []string{dead.draft(p, 10), living.draft(p, 11), dead.draft(p, 12)}
	sealed, err := dead.Items.Seal(t.Context(), p, itemOf(t, kept[2]))
	must(t, err)
	lost := []string{dead.unrecorded(p, 20), dead.unrecorded(p, 21)}
	kept = append(kept, living.unrecorded(p, 22), dead.draft(p, 13))
	elsewhere := dead.unrecorded(other, 23)
	number, id := b.writerOf(lost[0]), itemOf(t, lost[0])
	lost = append(lost, b.put(p, media.WriterKey(id, media.Thumbnail, number)))
	// More than the search looks up at once.
	lost = append(lost, b.putMany(p, number, 1001)...)
	kept = append(kept,
		b.put(p, media.WriterKey(idBefore(id, time.Hour), media.Original, number)), // before the writer
		b.put(p, media.WriterKey(id, media.WebP, number+1000)),                     // there is no such writer
		b.put(p, media.WriterKey(id, media.Original, b.writerOf(elsewhere))),       // a writer of another bucket
		b.put(p, media.WriterKey(uuid.Must(uuid.NewV7()), media.Original, number)), // of another service, which used the bucket before
		b.put(p, media.ObjectKey(uuid.New(), media.Original)),
		b.put(p, media.ObjectKey(id, media.Original)+".0"+media.ObjectKey(id, media.Original)),
		b.put(p, "media/"+id.String()+"/original.0"),
	)
	dead.dies()
	b.search()
	if queued := b.queued(p); len(queued) != 0 {
		t.Errorf("before the grace is over, the removal of %v is queued", queued)
	}
	b.Counts(2, "writers of the dead process are registered", `SELECT count(*) FROM upload_writer WHERE instance_id = $1`, dead.id)
	b.graceOver()
	if queued := b.queued(p); !slices.Equal(queued, sorted(lost...)) {
		t.Errorf("the removal of %d objects is queued, want %d", len(queued), len(lost))
	}
	if queued := b.queued(other); !slices.Equal(queued, []string{elsewhere}) {
		t.Errorf("the removal of %v is queued, want %s", queued, elsewhere)
	}
	b.RemoveEnded()
	if left := b.keys(p); !slices.Equal(left, sorted(kept...)) {
		t.Errorf("%v is left, want %v", left, sorted(kept...))
	}
	if got := b.BytesOf(p, sealed.File()); !bytes.Equal(got, random(12)) {
		t.Error("a sealed item of the dead process has changed")
	}
	b.Balanced(other)
	if n := b.registered(p); n != 1 {
		t.Errorf("%d writers are registered, want that of the living process", n)
	}
	// The living process goes on.
	living.settle(false)
	if queued := b.queued(p); !slices.Equal(queued, kept[3:4]) {
		t.Errorf("the removal of %v is queued, want %s", queued, kept[3])
	}
	if key := living.draft(p, 30); b.writerOf(key) != b.writerOf(kept[1]) {
		t.Errorf("the living process has stored %s, and %s before", key, kept[1])
	}
}

// putMany stores objects of a writer that has recorded nothing of them.
func (b *harness) putMany(of account.Principal, number int64, n int) (keys []string) {
	b.T.Helper()
	for range n {
		id, err := b.Store.Uploads.Cell().NewID()
		must(b.T, err)
		keys = append(keys, media.WriterKey(id, media.Original, number))
	}
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := worker; i < n; i += 8 {
				if err := b.Objects.Put(b.T.Context(), of.Account.Bucket, keys[i], "text/plain", bytes.NewReader([]byte("x")), 1); err != nil {
					b.T.Errorf("%v", err)
				}
			}
		})
	}
	all.Wait()
	return keys
}

// itemOf returns the item in a key of a writer.
func itemOf(t testing.TB, key string) uuid.UUID {
	t.Helper()
	id, _, ok := media.WriterOfKey(key)
	if !ok {
		t.Fatalf("%s is not of a writer", key)
	}
	return id
}

// The metrics count the searches that wait.
func TestSearch_IsCountedWhileItWaits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	dead := b.process()
	for range 2 {
		dead.draft(b.Tenant(1<<20), 10)
	}
	waiting := func() int64 {
		t.Helper()
		found, err := b.Store.Installations.Inventory(t.Context(), 1)
		must(t, err)
		for _, kind := range found.Work {
			if kind.Kind == string(upload.SearchWork) {
				return kind.Tasks
			}
		}
		t.Fatalf("there is no %s in %+v", upload.SearchWork, found.Work)
		return 0
	}
	if n := waiting(); n != 0 {
		t.Errorf("%d searches wait", n)
	}
	dead.dies()
	if n := waiting(); n != 2 {
		t.Errorf("%d searches wait, want one of each account", n)
	}
	b.graceOver()
	if n := waiting(); n != 0 {
		t.Errorf("%d searches wait", n)
	}
}

// A process is dead only to one that has had its lease for long enough, and only once its own lease has ended.
func TestSearch_EndsNoWriterOfAProcessThatMayBeAlive(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, one := b.Tenant(1<<20), b.process()
	one.draft(p, 10)
	b.search()
	b.exec(`UPDATE runtime_instance SET lease_ends = now() - interval '1 minute' WHERE id = $1`, one.id)
	young := b.process() // the database may have been away
	must(t, check.ErrorOf(young.data.Uploads.EnqueueSearches(t.Context(), time.Minute)))
	b.Counts(0, "writers have ended", `SELECT count(*) FROM upload_writer WHERE ended_at IS NOT NULL`)
	b.search()
	b.Counts(1, "writers have ended", `SELECT count(*) FROM upload_writer WHERE ended_at IS NOT NULL`)
}

// Each writer is searched for from its first upload on, and when its own grace is over.
func TestSearch_RespectsTheTimesOfEachWriter(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, early, late := b.Tenant(1<<20), b.process(at(behind().Now)), b.process()
	lost, kept := early.unrecorded(p, 10), late.unrecorded(p, 20)
	old := idBefore(itemOf(t, lost), time.Hour)
	lostOld := b.put(p, media.WriterKey(old, media.Original, b.writerOf(lost)))
	keptOld := b.put(p, media.WriterKey(old, media.Original, b.writerOf(kept)))
	early.dies()
	late.dies()
	b.exec(`UPDATE upload_writer SET ended_at = ended_at - interval '10 minutes' WHERE instance_id = $1`, early.id)
	b.exec(`UPDATE work SET due_at = now() WHERE kind = $1`, upload.SearchWork)
	b.search()
	if queued := b.queued(p); !slices.Equal(queued, sorted(lost, lostOld)) {
		t.Errorf("the removal of %v is queued, want %v", queued, sorted(lost, lostOld))
	}
	b.RemoveEnded()
	early = b.process(at(behind().Now))
	lost = early.unrecorded(p, 30)
	lostOld = b.put(p, media.WriterKey(old, media.Original, b.writerOf(lost)))
	early.dies()
	b.graceOver() // of both, in one search
	if queued := b.queued(p); !slices.Equal(queued, sorted(lost, lostOld, kept)) {
		t.Errorf("the removal of %v is queued, want %v", queued, sorted(lost, lostOld, kept))
	}
	b.RemoveEnded()
	if left := b.keys(p); !slices.Equal(left, []string{keptOld}) {
		t.Errorf("%v is left, want %s", left, keptOld)
	}
}

// A bucket that another installation owns is not searched, and nothing is forgotten.
func TestSearch_LeavesABucketThatAnotherOwns(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, dead := b.Tenant(1<<20), b.process()
	lost := dead.unrecorded(p, 10)
	marker, err := b.Objects.Marker(t.Context(), p.Account.Bucket)
	must(t, err)
	own := marker
	put := func(m installation.Marker) {
		t.Helper()
		text, err := json.Marshal(m)
		must(t, err)
		must(t, b.Objects.Put(t.Context(), p.Account.Bucket, objectstore.MarkerKey, "application/json", bytes.NewReader(text), int64(len(text))))
	}
	marker.InstallationID = uuid.New()
	put(marker)
	dead.dies()
	b.exec(`UPDATE upload_writer SET ended_at = ended_at - interval '10 minutes'`)
	searcher := upload.NewSearcher(upload.SearchDeps{Store: b.Store.Uploads, Objects: b.Objects, Guard: b.Guard, Log: slog.New(slog.DiscardHandler)})
	task := work.Task{Kind: upload.SearchWork, Key: p.Account.ID, AccountID: p.Account.ID}
	if err := searcher.Work(t.Context(), task); !fault.Is(err, fault.Conflict) {
		t.Errorf("the search of a bucket that another installation owns: %v", err)
	}
	if queued := b.queued(p); len(queued) != 0 || b.registered(p) != 1 {
		t.Errorf("the removal of %v is queued, and %d writers are registered", queued, b.registered(p))
	}
	put(own)
	must(t, searcher.Work(t.Context(), task))
	if queued := b.queued(p); !slices.Equal(queued, []string{lost}) || b.registered(p) != 0 {
		t.Errorf("the removal of %v is queued, want %s, and %d writers are registered", queued, lost, b.registered(p))
	}
}

// After a restore, an object without an item may be of one that the restore lost. Writers of before are forgotten without a search.
func TestSearch_KeepsTheObjectsOfBeforeARestore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, before, after := b.Tenant(1<<20), b.process(), b.process()
	kept := before.unrecorded(p, 10)
	b.exec(`UPDATE installation SET resumed_at = now()`)
	lost := after.unrecorded(p, 20)
	before.dies()
	after.dies()
	b.graceOver()
	if queued := b.queued(p); !slices.Equal(queued, []string{lost}) {
		t.Errorf("the removal of %v is queued, want %s", queued, lost)
	}
	b.RemoveEnded()
	if left := b.keys(p); !slices.Equal(left, []string{kept}) {
		t.Errorf("%v is left, want %s", left, kept)
	}
}

// An account whose bucket is gone is not searched again and again.
func TestSearch_ForgetsTheWritersOfABucketThatIsGone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, other, dead := b.Tenant(1<<20), b.Tenant(1<<20), b.process()
	dead.draft(p, 10)
	lost := dead.unrecorded(other, 20)
	must(t, check.ErrorOf(b.Objects.Drain(t.Context(), p.Account.Bucket, "", func() bool { return true })))
	must(t, b.Objects.RemoveDrained(t.Context(), p.Account.Bucket))
	dead.dies()
	b.graceOver()
	if queued := b.queued(other); !slices.Equal(queued, []string{lost}) {
		t.Errorf("the removal of %v is queued, want %s", queued, lost)
	}
}

// In a bucket that keeps versions, objects without an item are removed as those of deleted items are: they are not listed anymore.
func TestSearch_OfABucketWithVersions(t *testing.T) {
	t.Parallel()
	open := testenv.Stores()["minio"]
	if open == nil {
		t.Skip("only MinIO, as the tests start it, keeps versions")
	}
	access := open(t)
	b := &harness{mediatest.NewWith(t, access)}
	p, dead := b.Tenant(1<<20), b.process()
	endpoint, err := url.Parse(access.Endpoint)
	must(t, err)
	client, err := minio.New(endpoint.Host, &minio.Options{Creds: credentials.NewStaticV4(access.AccessKey, access.SecretKey, ""), Region: access.Region})
	must(t, err)
	must(t, client.EnableVersioning(t.Context(), p.Account.Bucket))
	dead.draft(p, 10)
	lost := dead.unrecorded(p, 20)
	dead.dies()
	b.graceOver()
	if queued := b.queued(p); !slices.Equal(queued, []string{lost}) {
		t.Errorf("the removal of %v is queued, want %s", queued, lost)
	}
	b.RemoveEnded()
	b.Balanced(p)
	// A second search finds neither the removed object nor its versions.
	again := b.process()
	again.draft(p, 30)
	again.dies()
	b.graceOver()
	if queued := b.queued(p); len(queued) != 0 {
		t.Errorf("the removal of %v is queued", queued)
	}
	b.Balanced(p)
}
