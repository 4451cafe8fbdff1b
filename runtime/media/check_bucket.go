package media

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
)

// itemOfKey returns the item that a key belongs to; false for keys that ObjectKey never
// gives, which a bucket that was adopted can hold.
func itemOfKey(key string) (uuid.UUID, bool) {
	rest, media := strings.CutPrefix(key, "media/")
	name, variant, two := strings.Cut(rest, "/")
	id, err := uuid.Parse(name)
	if !media || !two || err != nil || variant == "" || strings.Contains(variant, "/") || id.String() != name {
		return uuid.UUID{}, false
	}
	return id, true
}

// markerPrefix is where objects that are not media lie: the owner's marker.
const markerPrefix = "_mediastack/"

// suspect is an object that a row names and that the bucket seems not to hold as it should.
type suspect struct {
	item   uuid.UUID
	object Object
	kind   FindingKind
	detail string
}

// comparison walks the bucket and the rows side by side: both come in the order of the
// item's id, since a UUID sorts as its text does. It holds a page of rows and two
// batches of suspects, however large the account is. A store that lists in another
// order makes more suspects, and no other findings.
type comparison struct {
	*check
	page    []ItemObjects // rows that were not passed yet
	last    bool          // page is the last one
	after   uuid.UUID     // id of the last row read
	seen    map[string]bool
	strays  []Stored
	missing []suspect
}

// compare finds objects without rows and rows without their objects.
func (c *check) compare(ctx context.Context) error {
	w := &comparison{check: c, seen: map[string]bool{}}
	if err := w.fetch(ctx); err != nil {
		return err
	}
	if err := c.objects.List(ctx, c.account.Bucket, "", func(s Stored) error { return w.visit(ctx, s) }); err != nil {
		return err
	}
	// A listing that was cut short would make every other row a suspect.
	if err := ctx.Err(); err != nil {
		return err
	}
	for len(w.page) > 0 {
		if err := w.pass(ctx); err != nil {
			return err
		}
	}
	if err := w.judgeStrays(ctx); err != nil {
		return err
	}
	return w.judgeMissing(ctx)
}

// fetch reads the next page of rows.
func (w *comparison) fetch(ctx context.Context) error {
	page, err := w.store.ItemsAfter(ctx, w.account.ID, w.after, checkBatch)
	if err != nil {
		return err
	}
	w.page, w.last = page, len(page) < checkBatch
	if len(page) > 0 {
		w.after = page[len(page)-1].ID
	}
	w.summary.Items += int64(len(page))
	return nil
}

// visit takes the next object of the bucket.
func (w *comparison) visit(ctx context.Context, s Stored) error {
	w.progress(ctx)
	if strings.HasPrefix(s.Key, markerPrefix) {
		return nil
	}
	id, ours := itemOfKey(s.Key)
	if !ours {
		w.summary.Foreign++
		return nil
	}
	w.summary.Objects++
	w.summary.Bytes += s.Bytes
	for len(w.page) > 0 && bytes.Compare(w.page[0].ID[:], id[:]) < 0 {
		if err := w.pass(ctx); err != nil {
			return err
		}
	}
	if len(w.page) > 0 && w.page[0].ID == id {
		for _, object := range w.page[0].Objects {
			if object.Key == s.Key {
				w.seen[s.Key] = true
				return w.content(ctx, id, object, s.Bytes)
			}
		}
	}
	if w.strays = append(w.strays, s); len(w.strays) == checkBatch {
		return w.judgeStrays(ctx)
	}
	return nil
}

// pass leaves the first row behind: what was not seen of it by now is missing.
func (w *comparison) pass(ctx context.Context) error {
	row := w.page[0]
	if _, ok := row.Objects.Find(Original); !ok {
		if err := w.suspect(ctx, suspect{row.ID, Object{Variant: Original}, ObjectMissing, "the row names no original"}); err != nil {
			return err
		}
	}
	for _, object := range row.Objects {
		if !w.seen[object.Key] {
			if err := w.suspect(ctx, suspect{row.ID, object, ObjectMissing, "the object is missing"}); err != nil {
				return err
			}
		}
	}
	clear(w.seen)
	if w.page = w.page[1:]; len(w.page) == 0 && !w.last {
		return w.fetch(ctx)
	}
	return nil
}

// content compares an object with what its row says of it.
func (w *comparison) content(ctx context.Context, id uuid.UUID, object Object, size int64) error {
	if size != object.Bytes {
		return w.suspect(ctx, suspect{id, object, ObjectSize, fmt.Sprintf("the object has %d bytes, the row says %d", size, object.Bytes)})
	}
	if !w.cfg.Deep {
		return nil
	}
	sum, err := w.hash(ctx, object.Key)
	if fault.Is(err, fault.NotFound) {
		return w.suspect(ctx, suspect{id, object, ObjectMissing, "the object is missing"})
	}
	if err != nil {
		return err
	}
	if !bytes.Equal(sum, object.SHA256) {
		return w.suspect(ctx, suspect{id, object, ObjectHash, fmt.Sprintf("the object's SHA-256 is %x, the row says %x", sum, []byte(object.SHA256))})
	}
	return nil
}

func (w *comparison) hash(ctx context.Context, key string) ([]byte, error) {
	body, err := w.objects.Open(ctx, w.account.Bucket, key, 0, -1)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	digest := sha256.New()
	_, err = io.Copy(digest, body)
	return digest.Sum(nil), err
}

func (w *comparison) suspect(ctx context.Context, s suspect) error {
	if w.missing = append(w.missing, s); len(w.missing) == checkBatch {
		return w.judgeMissing(ctx)
	}
	return nil
}

// judgeStrays looks again at objects that no row seemed to name: rows first, then the
// object, as Checker explains.
func (w *comparison) judgeStrays(ctx context.Context) error {
	suspects := w.strays
	w.strays = nil
	if len(suspects) == 0 {
		return nil
	}
	keys := make([]string, len(suspects))
	for i, s := range suspects {
		keys[i] = s.Key
	}
	explained, err := w.explain(ctx, keys)
	if err != nil {
		return err
	}
	var strays []Finding
	var remove []string
	for _, s := range suspects {
		id, _ := itemOfKey(s.Key)
		if explained.Items[s.Key] || explained.Uploads[id.String()] || explained.Removals[s.Key] {
			continue
		}
		now, err := w.objects.Stat(ctx, w.account.Bucket, s.Key)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return err
		}
		finding := Finding{Kind: StrayObject, Item: id.String(), Key: s.Key, Recent: w.recent(now.Modified),
			Detail: fmt.Sprintf("%d bytes of %s, and no row names them", now.Bytes, now.Modified.UTC().Format(time.RFC3339))}
		if w.mend && !finding.Recent {
			finding.Repaired = true
			remove = append(remove, s.Key)
		}
		strays = append(strays, finding)
	}
	if len(remove) > 0 {
		if err := w.objects.Remove(ctx, w.account.Bucket, remove); err != nil {
			return err
		}
	}
	for _, finding := range strays {
		if err := w.found(finding); err != nil {
			return err
		}
	}
	return nil
}

// recent reports whether something is younger than the grace; without a grace nothing is,
// whatever the two clocks say.
func (c *check) recent(made time.Time) bool {
	return c.cfg.Grace > 0 && c.now().Sub(made) < c.cfg.Grace
}

func (c *check) explain(ctx context.Context, keys []string) (Explanations, error) {
	ids := make([]uuid.UUID, len(keys))
	for i, key := range keys {
		ids[i], _ = itemOfKey(key)
	}
	return c.store.Explain(ctx, c.account.ID, c.account.Bucket, ids, keys)
}

// judgeMissing looks again at objects that seemed lost or damaged: the object first,
// then the row, as Checker explains.
func (w *comparison) judgeMissing(ctx context.Context) error {
	suspects := w.missing
	w.missing = nil
	if len(suspects) == 0 {
		return nil
	}
	var lost []suspect
	var ids []uuid.UUID
	for _, s := range suspects {
		again, err := w.lookAgain(ctx, s)
		if err != nil {
			return err
		}
		if again != nil {
			lost = append(lost, *again)
			ids = append(ids, s.item)
		}
	}
	items, err := w.store.ItemsByID(ctx, w.account.ID, ids)
	if err != nil {
		return err
	}
	for _, s := range lost {
		objects, there := items[s.item]
		named := slices.ContainsFunc(objects, func(o Object) bool { return o.Key == s.object.Key })
		if !there || !named && s.object.Key != "" {
			continue // deleted meanwhile
		}
		if err := w.settleLost(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// lookAgain returns the suspect with what is wrong with its object by now, or nil.
func (w *comparison) lookAgain(ctx context.Context, s suspect) (*suspect, error) {
	if s.kind == ObjectHash || s.object.Key == "" {
		return &s, nil // was read whole; can't be read
	}
	now, err := w.objects.Stat(ctx, w.account.Bucket, s.object.Key)
	switch {
	case fault.Is(err, fault.NotFound):
		s.kind, s.detail = ObjectMissing, "the object is missing"
		return &s, nil
	case err != nil:
		return nil, err
	case now.Bytes != s.object.Bytes:
		s.kind, s.detail = ObjectSize, fmt.Sprintf("the object has %d bytes, the row says %d", now.Bytes, s.object.Bytes)
		return &s, nil
	}
	return nil, nil
}

// settleLost reports a lost or damaged object, and drops it from its item when it is a derivative.
func (w *comparison) settleLost(ctx context.Context, s suspect) error {
	finding := Finding{Kind: s.kind, Item: s.item.String(), Key: s.object.Key, Detail: s.detail}
	if s.object.Variant == Original {
		finding.Detail += "; an original can't be made again: restore it, or delete the item"
	} else if w.mend {
		removal, err := w.store.DropObject(ctx, w.account.ID, w.account.Bucket, s.item, s.object)
		if err != nil {
			return err
		}
		finding.Repaired = true
		// What fails here stays queued for the purge.
		if removal != nil && w.objects.AbortIncomplete(ctx, w.account.Bucket, s.object.Key) == nil &&
			w.objects.Remove(ctx, w.account.Bucket, removal.Keys) == nil {
			if err := w.store.FinishRemovals(ctx, []int64{removal.ID}); err != nil {
				return err
			}
		}
	}
	return w.found(finding)
}

// unfinished finds multipart uploads that nobody will complete.
func (c *check) unfinished(ctx context.Context) error {
	begun := map[string]time.Time{} // by key: a key may have several, of which the youngest decides
	judge := func() error {
		err := c.judgeUnfinished(ctx, begun)
		clear(begun)
		return err
	}
	err := c.objects.ListUnfinished(ctx, c.account.Bucket, "", func(u Unfinished) error {
		c.progress(ctx)
		if _, ours := itemOfKey(u.Key); !ours {
			c.summary.Foreign++
			return nil
		}
		if u.Begun.After(begun[u.Key]) || begun[u.Key].IsZero() {
			begun[u.Key] = u.Begun
		}
		if len(begun) == checkBatch {
			return judge()
		}
		return nil
	})
	if err != nil {
		return err
	}
	return judge()
}

func (c *check) judgeUnfinished(ctx context.Context, begun map[string]time.Time) error {
	if len(begun) == 0 {
		return nil
	}
	keys := make([]string, 0, len(begun))
	for key := range begun {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	explained, err := c.explain(ctx, keys)
	if err != nil {
		return err
	}
	for _, key := range keys {
		id, _ := itemOfKey(key)
		if explained.Uploads[id.String()] || explained.Aborts[key] {
			continue
		}
		still := false
		if err := c.objects.ListUnfinished(ctx, c.account.Bucket, key, func(u Unfinished) error {
			still = still || u.Key == key
			return nil
		}); err != nil {
			return err
		}
		if !still {
			continue
		}
		finding := Finding{Kind: StrayUpload, Item: id.String(), Key: key, Recent: c.recent(begun[key]),
			Detail: "begun " + begun[key].UTC().Format(time.RFC3339) + ", and no upload is running"}
		if c.mend && !finding.Recent {
			if err := c.objects.AbortIncomplete(ctx, c.account.Bucket, key); err != nil {
				return err
			}
			finding.Repaired = true
		}
		if err := c.found(finding); err != nil {
			return err
		}
	}
	return nil
}
