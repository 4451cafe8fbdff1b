package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// item is what its client knows about one item. Only that client acts on it, so answers come in the
// order of the operations; two concurrent requests count as one step.
type item struct {
	id      string
	tenant  *tenant
	caption string
	kind    string // of operation that made it
	bytes   int64
	sum     string // SHA-256 of what was sent
	photo   *photo // what it shows; nil if it is no image of the client's own
	public  bool
	begun   time.Time // it was committed after this

	// changes are the captions of changes that were not acknowledged, and may be carried out.
	changes []string
	// What was tried may have happened; what was acknowledged has.
	sealTried, sealed    bool
	deleteTried, deleted bool
	missing              bool // was answered 404 when that was right
	// A delete or a restore without an answer may still be carried out. ended: it cannot be restored.
	deleteUnknown, restoreUnknown, ended bool
	mu                                   sync.Mutex
	history                              []string
}

// note adds to the item's history.
func (i *item) note(begun time.Time, format string, args ...any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.history = append(i.history, fmt.Sprintf("%8.3f s  ", time.Since(begun).Seconds())+fmt.Sprintf(format, args...))
}

// expected returns which answers to a read are correct: that the item exists, that it does not, or
// either.
func (i *item) expected() expectation {
	switch {
	case (i.deleted || i.missing) && !i.ended && i.restoreUnknown:
		return either
	case i.deleted, i.missing:
		return gone
	case i.sealed && !i.deleteTried:
		return there
	}
	return either
}

type expectation int

const (
	either expectation = iota
	there
	gone
)

// check returns what is wrong with an answer; empty when nothing is.
func (v expectation) check(status int) string {
	switch {
	case v == there && status == 404:
		return "it was acknowledged as sealed and never deleted, but is gone"
	case v == gone && status == 200:
		return "it was deleted or gone, but is there"
	}
	return ""
}

// answered records the answer to a seal or a delete in what was tried and done of it, and returns what
// is wrong with it.
func (i *item) answered(status int, tried, done *bool) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	v := i.expected()
	*tried = true
	*done = *done || status == 200
	i.missing = i.missing || status == 404 && v != there
	return v.check(status)
}

func (i *item) sealAnswered(status int) string { return i.answered(status, &i.sealTried, &i.sealed) }

func (i *item) deleteAnswered(status int) string {
	wrong := i.answered(status, &i.deleteTried, &i.deleted)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.deleteUnknown = i.deleteUnknown || status != 200 && status != 404
	return wrong
}

// restoreAnswered records the answer to a restore, and returns what is wrong with it. undo reports whether
// the tenant's deletes can be undone. A draft cannot be restored, and an upload may have ended a deleted item.
func (i *item) restoreAnswered(status int, undo bool) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	v := i.expected()
	switch status {
	case 200:
		if v == gone && (!undo || !i.sealTried || i.ended) {
			return v.check(200)
		}
		i.deleted, i.missing, i.deleteTried = false, false, i.deleteUnknown
	case 404:
		if v != there {
			i.missing, i.ended = true, !i.deleteUnknown
		}
		return v.check(404)
	default:
		i.restoreUnknown = true
	}
	return ""
}

// changing records that a change of the caption is sent.
func (i *item) changing(caption string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.changes = append(i.changes, caption)
}

// changeAnswered records the answer to a change of the caption, and returns what is wrong with it.
func (i *item) changeAnswered(status int, caption string) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch status {
	case 200:
		// A change before it that was not answered may be carried out after it.
		i.caption, i.changes = caption, slices.DeleteFunc(i.changes, func(other string) bool { return other == caption })
	case 404:
		i.changes = slices.DeleteFunc(i.changes, func(other string) bool { return other == caption })
	}
	return i.expected().check(status)
}

// mayHave reports whether the item may have this caption.
func (i *item) mayHave(caption string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return caption == i.caption || slices.Contains(i.changes, caption)
}

// raced records the answers to a concurrent seal and delete, in any order.
func (i *item) raced(seal, del int) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	v := i.expected()
	i.sealTried, i.deleteTried = true, true
	i.sealed = i.sealed || seal == 200
	i.deleted = i.deleted || del == 200
	i.deleteUnknown = i.deleteUnknown || del != 200 && del != 404
	if (seal == 404 || del == 404) && v != there {
		i.missing = true
	}
	if del == 404 && seal == 200 {
		return "a delete did not find what a seal at the same time found"
	}
	if v == gone && (seal == 200 || del == 200) {
		return v.check(200)
	}
	return ""
}

// final returns what is wrong with an item at the end, when every draft was purged.
func (i *item) final(status int, temp, listed bool) string {
	if wrong := i.expected().check(status); wrong != "" {
		return wrong
	}
	switch {
	case status != 200 && status != 404:
		return fmt.Sprintf("reading it was answered %d", status)
	case status == 200 && temp:
		return "it is a draft, and drafts were purged"
	case status == 200 && !i.sealTried:
		return "it is sealed, and nobody sealed it"
	case status == 200 && !listed:
		return "it is there, and not listed"
	case status == 404 && listed:
		return "it is listed, and not there"
	}
	return ""
}

// model is what all clients know, and what was wrong.
type model struct {
	begun time.Time

	mu    sync.Mutex
	items []*item
	jobs  []*job // accepted, and not ended
	// unheardJobs were asked for without an answer.
	unheardJobs []*job
	counts      map[string]int
	breaks      []string // what was broken, and when
	problems    []problem
}

type problem struct {
	item *item
	text string
	// request is the id of the request whose answer was wrong; the runtime's log has it.
	request string
	// broken is how many things were broken before.
	broken int
}

func newModel(begun time.Time) *model { return &model{begun: begun, counts: map[string]int{}} }

func (m *model) add(i *item) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.items = append(m.items, i)
}

func (m *model) all() []*item {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.items)
}

func (m *model) count(what string) { m.countBy(what, 1) }

func (m *model) countBy(what string, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts[what] += n
}

func (m *model) recordFault(what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.breaks = append(m.breaks, fmt.Sprintf("%8.3f s  %s", time.Since(m.begun).Seconds(), what))
}

// find returns the item with this id; nil when no client was answered its id.
func (m *model) find(id string) *item {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, i := range m.items {
		if i.id == id {
			return i
		}
	}
	return nil
}

// wrong notes what should never be; of an item, or of everything.
func (m *model) wrong(i *item, format string, args ...any) {
	m.wrongAnswer(i, "", format, args...)
}

// wrongAnswer is wrong for the answer to a request that the runtime logged.
func (m *model) wrongAnswer(i *item, request, format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	text := fmt.Sprintf("%8.3f s  ", time.Since(m.begun).Seconds()) + fmt.Sprintf(format, args...)
	m.problems = append(m.problems, problem{item: i, text: text, request: request, broken: len(m.breaks)})
}

func (m *model) failed() bool { return m.wrongs() > 0 }

func (m *model) wrongs() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.problems)
}

// schedule is all that was broken, line by line.
func (m *model) schedule() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.breaks, "\n") + "\n"
}

// print reports the first problems, each with the history of its item and with what
// logged returns of its request.
func (m *model) print(out io.Writer, logged func(request string) []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	const most = 10
	for n, p := range m.problems {
		if n == most {
			fmt.Fprintf(out, "... and %d more\n", len(m.problems)-most)
			return
		}
		fmt.Fprintf(out, "\nWRONG: %s\n", p.text)
		if p.request != "" {
			fmt.Fprintf(out, "  request %s:\n    %s\n", p.request, strings.Join(logged(p.request), "\n    "))
		}
		if p.item != nil {
			fmt.Fprintf(out, "  item %s of %s (%s, %d bytes, sha256 %s)\n", p.item.id, p.item.tenant.name, p.item.kind, p.item.bytes, p.item.sum)
			p.item.mu.Lock()
			for _, line := range p.item.history {
				fmt.Fprintf(out, "    %s\n", line)
			}
			p.item.mu.Unlock()
		}
		fmt.Fprintf(out, "  broken before:\n    %s\n", strings.Join(m.breaks[max(0, p.broken-8):p.broken], "\n    "))
	}
}

// progress is one line of what was done so far.
func (m *model) progress() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var sealed, deleted, unknown int
	for _, i := range m.items {
		i.mu.Lock()
		switch {
		case i.deleted:
			deleted++
		case i.sealed && !i.deleteTried:
			sealed++
		case i.deleteTried, i.sealTried && !i.sealed:
			unknown++
		}
		i.mu.Unlock()
	}
	return fmt.Sprintf("%d uploads acknowledged, %d items kept sealed, %d deleted, %d of unknown outcome", len(m.items), sealed, deleted, unknown)
}

// answers is one line of what was answered how often.
func (m *model) answers() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(m.counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", what, m.counts[what]))
	}
	return strings.Join(parts, ", ")
}
