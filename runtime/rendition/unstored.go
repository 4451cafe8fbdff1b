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
	entries  map[Ref]*unstoredEntry
	all      unstoredShare
	accounts map[uuid.UUID]*unstoredShare
}

// unstoredShare is what an account, or all, have. The order has what nobody uses, the least recently used last: what can be evicted is
// found without a look at anything else.
type unstoredShare struct {
	bytes int64
	idle  int64     // bytes of what nobody uses
	order list.List // of *unstoredEntry
}

type unstoredEntry struct {
	ref       Ref
	accountID uuid.UUID
	account   *unstoredShare
	result    Result
	size      int64
	until     time.Time
	users     int
	removed   bool // from the entries; its bytes count until its last user has released it
	// The places in the orders of all and of the account; nil while the entry is used.
	ofAll, ofAccount *list.Element
}

func newUnstored(limit int64, now func() time.Time) *unstored {
	return &unstored{limit: limit, now: now, accounts: map[uuid.UUID]*unstoredShare{}, entries: map[Ref]*unstoredEntry{}}
}

// get returns a rendition, which the caller releases.
func (u *unstored) get(ref Ref) (Result, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	entry, ok := u.entries[ref]
	if !ok {
		return Result{}, false
	}
	if !u.now().Before(entry.until) {
		u.remove(entry)
		return Result{}, false
	}
	u.takeOut(entry)
	entry.users++
	return entry.result.WithRelease(func() { u.release(entry) }), true
}

// put keeps a rendition, and returns the function by which the caller releases the data. It returns false, and evicts nothing, if
// the rendition is too large, or there is no room because of what is being sent.
func (u *unstored) put(ref Ref, accountID uuid.UUID, result Result) (release func(), ok bool) {
	size := int64(len(result.Data)) + unstoredOverhead
	if len(result.Data) > maxUnstored {
		return nil, false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	account := u.accounts[accountID]
	if account == nil {
		account = &unstoredShare{}
	}
	if account.bytes-account.idle+size > u.limit/2 || u.all.bytes-u.all.idle+size > u.limit {
		return nil, false
	}
	if before, ok := u.entries[ref]; ok {
		u.remove(before)
	}
	for account.bytes+size > u.limit/2 {
		u.removeOldest(account)
	}
	for u.all.bytes+size > u.limit {
		u.removeOldest(&u.all)
	}
	entry := &unstoredEntry{ref: ref, accountID: accountID, account: account, result: result, size: size, until: u.now().Add(unstoredTTL), users: 1}
	u.entries[ref], u.accounts[accountID] = entry, account
	u.all.bytes += size
	account.bytes += size
	return func() { u.release(entry) }, true
}

// removeOldest removes what was not used for the longest time. There is some. The caller holds u.mu.
func (u *unstored) removeOldest(of *unstoredShare) {
	entry, _ := of.order.Back().Value.(*unstoredEntry)
	u.remove(entry)
}

// remove removes an entry. The caller holds u.mu.
func (u *unstored) remove(entry *unstoredEntry) {
	u.takeOut(entry)
	delete(u.entries, entry.ref)
	entry.removed = true
	u.forget(entry)
}

// takeOut takes an entry out of the orders, if it is in them. The caller holds u.mu.
func (u *unstored) takeOut(entry *unstoredEntry) {
	if entry.ofAll == nil {
		return
	}
	u.all.order.Remove(entry.ofAll)
	entry.account.order.Remove(entry.ofAccount)
	u.all.idle -= entry.size
	entry.account.idle -= entry.size
	entry.ofAll, entry.ofAccount = nil, nil
}

// release ends the use of an entry by one response, or by one job.
func (u *unstored) release(entry *unstoredEntry) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if entry.users--; entry.users == 0 && !entry.removed {
		entry.ofAll, entry.ofAccount = u.all.order.PushFront(entry), entry.account.order.PushFront(entry)
		u.all.idle += entry.size
		entry.account.idle += entry.size
		return
	}
	u.forget(entry)
}

// forget subtracts the bytes of an entry that is removed and that nobody uses. The caller holds u.mu.
func (u *unstored) forget(entry *unstoredEntry) {
	if !entry.removed || entry.users > 0 {
		return
	}
	u.all.bytes -= entry.size
	if entry.account.bytes -= entry.size; entry.account.bytes == 0 && u.accounts[entry.accountID] == entry.account {
		delete(u.accounts, entry.accountID)
	}
}
