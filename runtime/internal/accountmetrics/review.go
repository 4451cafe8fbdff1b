package accountmetrics

import (
	"cmp"
	"slices"
	"time"
)

// review decides which accounts are members. reviewing is held.
func (m *Metrics) review(now time.Time) {
	if now.Sub(m.reviewed) < reviewInterval {
		return
	}
	m.reviewed = now
	var members, candidates []*entry
	freed := int64(0)
	m.entries.Range(func(_, value any) bool {
		e := value.(*entry) //nolint:forcetypeassert // the map has no other type
		e.score = e.score/2 + float64(e.active.Swap(0))
		switch {
		case e.member.Load():
			members = append(members, e)
			return true
		case e.leaving:
			m.former.add(&e.series)
			m.formerAt = now
			freed++
			// A new entry, since a series that begins again begins with zero.
			e = &entry{account: e.account, score: e.score}
			m.entries.Store(e.account.ID, e)
		}
		candidates = append(candidates, e)
		return true
	})
	candidates = slices.DeleteFunc(candidates, func(e *entry) bool {
		if e.score >= 1 {
			return false
		}
		m.entries.CompareAndDelete(e.account.ID, e)
		m.tracked.Add(-1)
		return true
	})
	byScore := func(a, b *entry) int { return cmp.Compare(a.score, b.score) }
	slices.SortFunc(candidates, func(a, b *entry) int { return byScore(b, a) })
	// Those that become members now were the most active ones of the last interval.
	for ; freed > 0 && len(candidates) > 0; freed-- {
		candidates[0].member.Store(true)
		candidates = candidates[1:]
	}
	m.members.Add(-freed)
	slices.SortFunc(members, byScore)
	for i := range min(len(members), len(candidates)) {
		if candidates[i].score <= hysteresis*members[i].score {
			break
		}
		members[i].leaving = true
		members[i].member.Store(false)
	}
}
