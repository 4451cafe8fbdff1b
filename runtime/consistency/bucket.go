package consistency

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/rendition"
)

// itemOfKey returns the item that a key belongs to; false for keys that media.ObjectKey never
// returns, which an adopted bucket can hold.
func itemOfKey(key string) (uuid.UUID, bool) {
	rest, managed := strings.CutPrefix(key, "media/")
	name, variant, two := strings.Cut(rest, "/")
	id, err := uuid.Parse(name)
	if !managed || !two || err != nil || variant == "" || strings.Contains(variant, "/") || id.String() != name {
		return uuid.UUID{}, false
	}
	return id, true
}

// markerPrefix is the prefix of the service's objects that are not media: the ownership marker.
const markerPrefix = "_mediastack/"

// candidate is an object of a row that seems to be missing or damaged in the bucket.
type candidate struct {
	itemID uuid.UUID
	object media.Object
	kind   FindingKind
	detail string
}

// merge walks the bucket and the rows side by side: both are ordered by the item's id, since
// a UUID sorts as its text does. It holds a page of rows and two batches of candidates,
// however large the account is. A store that lists in another order causes more candidates,
// and the same findings.
type merge struct {
	*check
	page     []ItemObjects // rows that were not passed yet
	lastPage bool
	after    uuid.UUID       // id of the last row read
	seen     map[string]bool // keys of the first row of page that were listed
	orphans  []media.ObjectInfo
	missing  []candidate
}

// compareObjects finds objects without rows and rows without their objects.
func (c *check) compareObjects(ctx context.Context) error {
	m := &merge{check: c, seen: map[string]bool{}}
	if err := m.fetch(ctx); err != nil {
		return err
	}
	if err := c.objects.List(ctx, c.account.Bucket, "", func(o media.ObjectInfo) error { return m.onObject(ctx, o) }); err != nil {
		return err
	}
	// A canceled listing is incomplete: every further row would become a candidate.
	if err := ctx.Err(); err != nil {
		return err
	}
	for len(m.page) > 0 {
		if err := m.advance(ctx); err != nil {
			return err
		}
	}
	if err := m.confirmOrphans(ctx); err != nil {
		return err
	}
	return m.confirmMissing(ctx)
}

// fetch reads the next page of rows.
func (m *merge) fetch(ctx context.Context) error {
	page, err := m.store.ItemsAfter(ctx, m.account.ID, m.after, batchSize)
	if err != nil {
		return err
	}
	m.page, m.lastPage = page, len(page) < batchSize
	if len(page) > 0 {
		m.after = page[len(page)-1].ID
	}
	m.summary.Items += int64(len(page))
	return nil
}

// onObject processes the next object of the bucket.
func (m *merge) onObject(ctx context.Context, o media.ObjectInfo) error {
	m.logProgress(ctx)
	if strings.HasPrefix(o.Key, markerPrefix) {
		return nil
	}
	id, managed := itemOfKey(o.Key)
	if !managed {
		m.summary.Unmanaged++
		return nil
	}
	m.summary.Objects++
	m.summary.Bytes += o.Bytes
	for len(m.page) > 0 && bytes.Compare(m.page[0].ID[:], id[:]) < 0 {
		if err := m.advance(ctx); err != nil {
			return err
		}
	}
	if len(m.page) > 0 && m.page[0].ID == id {
		for _, object := range m.page[0].Objects {
			if object.Key == o.Key {
				m.seen[o.Key] = true
				return m.compareContent(ctx, id, object, o.Bytes)
			}
		}
	}
	if m.orphans = append(m.orphans, o); len(m.orphans) == batchSize {
		return m.confirmOrphans(ctx)
	}
	return nil
}

// advance passes the first row: its objects that were not listed by now are missing.
func (m *merge) advance(ctx context.Context) error {
	row := m.page[0]
	if _, ok := row.Objects.Find(media.Original); !ok {
		if err := m.addCandidate(ctx, candidate{row.ID, media.Object{Variant: media.Original}, ObjectMissing, "the row has no original"}); err != nil {
			return err
		}
	}
	for _, object := range row.Objects {
		if !m.seen[object.Key] {
			if err := m.addCandidate(ctx, candidate{row.ID, object, ObjectMissing, "the object is missing"}); err != nil {
				return err
			}
		}
	}
	clear(m.seen)
	if m.page = m.page[1:]; len(m.page) == 0 && !m.lastPage {
		return m.fetch(ctx)
	}
	return nil
}

// compareContent compares an object's size, and its hash in a deep check, with its row.
func (m *merge) compareContent(ctx context.Context, itemID uuid.UUID, object media.Object, size int64) error {
	if size != object.Bytes {
		return m.addCandidate(ctx, candidate{itemID, object, ObjectSize, sizeDetail(size, object.Bytes)})
	}
	if !m.cfg.Deep {
		return nil
	}
	sum, err := m.hash(ctx, object.Key)
	if fault.Is(err, fault.NotFound) {
		return m.addCandidate(ctx, candidate{itemID, object, ObjectMissing, "the object is missing"})
	}
	if err != nil {
		return err
	}
	if !bytes.Equal(sum, object.SHA256) {
		return m.addCandidate(ctx, candidate{itemID, object, ObjectHash, fmt.Sprintf("the object's SHA-256 is %x, the row records %x", sum, []byte(object.SHA256))})
	}
	return nil
}

func sizeDetail(actual, recorded int64) string {
	return fmt.Sprintf("the object has %d bytes, the row records %d", actual, recorded)
}

func (m *merge) hash(ctx context.Context, key string) ([]byte, error) {
	body, err := m.objects.Open(ctx, m.account.Bucket, key, 0, -1)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	digest := sha256.New()
	_, err = io.Copy(digest, body)
	return digest.Sum(nil), err
}

func (m *merge) addCandidate(ctx context.Context, c candidate) error {
	if m.missing = append(m.missing, c); len(m.missing) == batchSize {
		return m.confirmMissing(ctx)
	}
	return nil
}

// unrecordedFor is longer than an object of a small upload is stored before its item is recorded. The writers of a process name all
// objects that it may be about to record, for as long as it serves. One that was paused may record an older object, so a repair leaves
// those of a writer, too: they are searched for when its process has ended.
const unrecordedFor = time.Hour

// confirmOrphans reads the rows, then the objects of orphan candidates again, as Checker
// explains.
func (m *merge) confirmOrphans(ctx context.Context) error {
	candidates := m.orphans
	m.orphans = nil
	if len(candidates) == 0 {
		return nil
	}
	keys := make([]string, len(candidates))
	for i, o := range candidates {
		keys[i] = o.Key
	}
	references, err := m.findReferences(ctx, keys)
	if err != nil {
		return err
	}
	var findings []Finding
	var removed []string
	for _, o := range candidates {
		id, _ := itemOfKey(o.Key)
		if references.Items[o.Key] || references.Uploads[id.String()] || references.Removals[o.Key] {
			continue
		}
		current, err := m.objects.Stat(ctx, m.account.Bucket, o.Key)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return err
		}
		unrecorded := references.Writers[o.Key]
		if unrecorded && m.now().Sub(current.Modified) < unrecordedFor {
			continue
		}
		if current.Modified.Before(m.claimedAt) {
			m.summary.Objects--
			m.summary.Bytes -= o.Bytes
			m.summary.Unmanaged++
			continue
		}
		kind, remove := OrphanObject, m.repairBucket
		since := current.Modified
		// A rendition is made again where it is missed.
		if _, isRendition := rendition.IDOfObject(o.Key); !isRendition && !current.Modified.After(m.resumedAt) {
			kind, remove, since = UnknownAfterRestore, remove && m.cfg.RemoveUnknown, m.resumedAt
		}
		finding := Finding{Kind: kind, Item: id.String(), Key: o.Key, Bytes: current.Bytes, Recent: m.isRecent(since),
			Detail: fmt.Sprintf("%d bytes of %s that no row refers to", current.Bytes, current.Modified.UTC().Format(time.RFC3339))}
		switch {
		case unrecorded:
			finding.Detail += "; it is removed when the process that stored it has ended"
		case remove && !finding.Recent:
			finding.Repaired = true
			removed = append(removed, o.Key)
		}
		findings = append(findings, finding)
	}
	if len(removed) > 0 {
		if err := m.objects.Remove(ctx, m.account.Bucket, removed); err != nil {
			return err
		}
	}
	for _, finding := range findings {
		if err := m.addFinding(finding); err != nil {
			return err
		}
	}
	return nil
}

// isRecent reports whether something is younger than the grace period. Without a grace period
// nothing is recent, whatever the difference between the clocks of store and check.
func (c *check) isRecent(created time.Time) bool {
	return c.cfg.Grace > 0 && c.now().Sub(created) < c.cfg.Grace
}

func (c *check) findReferences(ctx context.Context, keys []string) (References, error) {
	ids := make([]uuid.UUID, len(keys))
	for i, key := range keys {
		ids[i], _ = itemOfKey(key)
	}
	return c.store.FindReferences(ctx, c.account.ID, c.account.Bucket, ids, keys)
}

// confirmMissing reads the objects, then the rows of missing or damaged candidates again, as
// Checker explains.
func (m *merge) confirmMissing(ctx context.Context) error {
	candidates := m.missing
	m.missing = nil
	if len(candidates) == 0 {
		return nil
	}
	var lost []candidate
	var ids []uuid.UUID
	for _, c := range candidates {
		wrong, err := m.recheck(ctx, &c)
		if err != nil {
			return err
		}
		if wrong {
			lost = append(lost, c)
			ids = append(ids, c.itemID)
		}
	}
	items, err := m.store.ItemsByID(ctx, m.account.ID, ids)
	if err != nil {
		return err
	}
	for _, c := range lost {
		objects, exists := items[c.itemID]
		referenced := slices.ContainsFunc(objects, func(o media.Object) bool { return o.Key == c.object.Key })
		if !exists || !referenced && c.object.Key != "" {
			continue // deleted meanwhile
		}
		if err := m.resolveLost(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// recheck reports whether the object of a candidate is still missing or damaged, and updates
// the candidate.
func (m *merge) recheck(ctx context.Context, c *candidate) (wrong bool, err error) {
	if c.kind == ObjectHash || c.object.Key == "" {
		return true, nil // the whole object was read; there is no object to read
	}
	current, err := m.objects.Stat(ctx, m.account.Bucket, c.object.Key)
	switch {
	case fault.Is(err, fault.NotFound):
		c.kind, c.detail = ObjectMissing, "the object is missing"
		return true, nil
	case err != nil:
		return false, err
	case current.Bytes != c.object.Bytes:
		c.kind, c.detail = ObjectSize, sizeDetail(current.Bytes, c.object.Bytes)
		return true, nil
	}
	return false, nil
}

// resolveLost reports a lost or damaged object, and drops it from its item if it is a derivative.
func (m *merge) resolveLost(ctx context.Context, c candidate) error {
	finding := Finding{Kind: c.kind, Item: c.itemID.String(), Key: c.object.Key, Detail: c.detail}
	if c.object.Variant == media.Original {
		finding.Detail += "; an original cannot be regenerated: restore it, or delete the item"
	} else if m.repairBucket {
		removal, err := m.store.DropObject(ctx, m.account.ID, m.account.Bucket, c.itemID, c.object)
		if err != nil {
			return err
		}
		finding.Repaired = true
		// A removal that fails here stays queued for the purge.
		if removal != nil && m.objects.AbortIncomplete(ctx, m.account.Bucket, c.object.Key) == nil &&
			m.objects.Remove(ctx, m.account.Bucket, removal.Keys) == nil {
			if err := m.store.FinishRemovals(ctx, []int64{removal.ID}); err != nil {
				return err
			}
		}
	}
	return m.addFinding(finding)
}

// checkMultipartUploads finds multipart uploads that will not be completed.
func (c *check) checkMultipartUploads(ctx context.Context) error {
	initiated := map[string]time.Time{} // by key: of several uploads of a key the youngest decides
	confirm := func() error {
		err := c.confirmIncomplete(ctx, initiated)
		clear(initiated)
		return err
	}
	err := c.objects.ListIncomplete(ctx, c.account.Bucket, "", func(u media.IncompleteUpload) error {
		c.logProgress(ctx)
		if _, managed := itemOfKey(u.Key); !managed || u.Initiated.Before(c.claimedAt) {
			c.summary.Unmanaged++
			return nil
		}
		if u.Initiated.After(initiated[u.Key]) || initiated[u.Key].IsZero() {
			initiated[u.Key] = u.Initiated
		}
		if len(initiated) == batchSize {
			return confirm()
		}
		return nil
	})
	if err != nil {
		return err
	}
	return confirm()
}

// confirmIncomplete reads the rows, then the multipart uploads of the keys again, as Checker
// explains.
func (c *check) confirmIncomplete(ctx context.Context, initiated map[string]time.Time) error {
	if len(initiated) == 0 {
		return nil
	}
	keys := slices.Sorted(maps.Keys(initiated))
	references, err := c.findReferences(ctx, keys)
	if err != nil {
		return err
	}
	for _, key := range keys {
		id, _ := itemOfKey(key)
		if references.Uploads[id.String()] || references.Aborts[key] {
			continue
		}
		exists := false
		if err := c.objects.ListIncomplete(ctx, c.account.Bucket, key, func(u media.IncompleteUpload) error {
			exists = exists || u.Key == key
			return nil
		}); err != nil {
			return err
		}
		if !exists {
			continue
		}
		finding := Finding{Kind: OrphanUpload, Item: id.String(), Key: key, Recent: c.isRecent(initiated[key]),
			Detail: "initiated " + initiated[key].UTC().Format(time.RFC3339) + ", and no upload is running"}
		if c.repairBucket && !finding.Recent {
			if err := c.objects.AbortIncomplete(ctx, c.account.Bucket, key); err != nil {
				return err
			}
			finding.Repaired = true
		}
		if err := c.addFinding(finding); err != nil {
			return err
		}
	}
	return nil
}
