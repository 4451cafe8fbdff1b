package rendition

import (
	"container/list"
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	// maxUnstored is the size in bytes up to which a rendition that could not be stored is kept in memory.
	maxUnstored = 1 << 20
	// unstoredTTL is how long it is kept: then it is made again, and stored if there is room meanwhile.
	unstoredTTL = 10 * time.Minute
	// unstoredOverhead is what one takes in memory besides its data.
	unstoredOverhead = 1 << 10
)

// unstored keeps renditions that could not be stored, those that were used last, in a bounded number of bytes of which an
// account has at most half. What responses still send stays within the bound: it is not evicted before they have
// ended. It is safe for concurrent use.
type unstored struct {
	limit int64
	now   func() time.Time

	mu       sync.Mutex
	bytes    int64
	accounts map[uuid.UUID]int64 // bytes
	entries  map[Ref]*list.Element
	order    *list.List // of *unstoredEntry, the most recently used first
}

type unstoredEntry struct {
	ref     Ref
	account uuid.UUID
	result  Result
	size    int64
	until   time.Time
	users   int
	removed bool // from the entries; its bytes count until its last user has released it
}

func newUnstored(limit int64, now func() time.Time) *unstored {
	return &unstored{limit: limit, now: now, accounts: map[uuid.UUID]int64{}, entries: map[Ref]*list.Element{}, order: list.New()}
}

// get returns a rendition, which the caller releases.
func (u *unstored) get(ref Ref) (Result, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	element, ok := u.entries[ref]
	if !ok {
		return Result{}, false
	}
	entry, _ := element.Value.(*unstoredEntry)
	if !u.now().Before(entry.until) {
		u.remove(element)
		return Result{}, false
	}
	u.order.MoveToFront(element)
	entry.users++
	return entry.result.WithRelease(func() { u.release(entry) }), true
}

// put keeps a rendition, and returns the function by which the caller releases the data. It returns false if the rendition is
// too large, or there is no room because of what is being sent.
func (u *unstored) put(ref Ref, account uuid.UUID, result Result) (release func(), ok bool) {
	size := int64(len(result.Data)) + unstoredOverhead
	if len(result.Data) > maxUnstored || size > u.limit/2 {
		return nil, false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if before, ok := u.entries[ref]; ok {
		u.remove(before)
	}
	if !u.makeRoom(account, size) {
		return nil, false
	}
	entry := &unstoredEntry{ref: ref, account: account, result: result, size: size, until: u.now().Add(unstoredTTL), users: 1}
	u.entries[ref] = u.order.PushFront(entry)
	u.bytes += size
	u.accounts[account] += size
	return func() { u.release(entry) }, true
}

// makeRoom removes entries that nobody uses, the least recently used first: of the account until it is within its half, and
// of all until there is room. It reports whether there is. The caller holds u.mu.
func (u *unstored) makeRoom(account uuid.UUID, size int64) bool {
	for element := u.order.Back(); element != nil; {
		ofAccount, ofAll := u.accounts[account]+size > u.limit/2, u.bytes+size > u.limit
		if !ofAccount && !ofAll {
			return true
		}
		entry, _ := element.Value.(*unstoredEntry)
		previous := element.Prev()
		if entry.users == 0 && (!ofAccount || entry.account == account) {
			u.remove(element)
		}
		element = previous
	}
	return u.accounts[account]+size <= u.limit/2 && u.bytes+size <= u.limit
}

// remove removes an entry. The caller holds u.mu.
func (u *unstored) remove(element *list.Element) {
	entry, _ := element.Value.(*unstoredEntry)
	u.order.Remove(element)
	delete(u.entries, entry.ref)
	entry.removed = true
	u.forget(entry)
}

// release ends the use of an entry by one response, or by one job.
func (u *unstored) release(entry *unstoredEntry) {
	u.mu.Lock()
	defer u.mu.Unlock()
	entry.users--
	u.forget(entry)
}

// forget subtracts the bytes of an entry that is removed and that nobody uses. The caller holds u.mu.
func (u *unstored) forget(entry *unstoredEntry) {
	if !entry.removed || entry.users > 0 {
		return
	}
	u.bytes -= entry.size
	if u.accounts[entry.account] -= entry.size; u.accounts[entry.account] == 0 {
		delete(u.accounts, entry.account)
	}
}
