package work

import (
	"time"

	"github.com/google/uuid"
)

// slots are those of a queue. Only its loop uses them; attempts tell it by the channels.
type slots struct {
	policy Policy
	// lanes are the slots of Policy.Slots, and those of Policy.Slow if it is set.
	lanes []*lane
	// running counts the tasks of each account that the process runs.
	running map[uuid.UUID]int
	ended   chan *slot
	late    chan *slot    // their attempts take longer than Slow.After
	closed  chan struct{} // nobody receives anymore
}

// lane has some of the slots.
type lane struct {
	slots, free, spare, perAccount int
	slow                           bool
	more                           bool // tasks may be due
}

// slot is one that an attempt holds.
type slot struct {
	lane    *lane
	account uuid.UUID
	ended   bool
	timer   *time.Timer
}

func newSlots(p Policy) *slots {
	all := p.Slots
	s := &slots{policy: p, lanes: []*lane{{slots: p.Slots, free: p.Slots, spare: p.Spare, perAccount: p.PerAccount, more: true}}, running: map[uuid.UUID]int{}, closed: make(chan struct{})}
	if slow := p.Slow; slow != nil {
		all += slow.Slots
		s.lanes = append(s.lanes, &lane{slots: slow.Slots, free: slow.Slots, spare: slow.Spare, perAccount: p.PerAccount, slow: true, more: true})
	}
	s.ended, s.late = make(chan *slot, all), make(chan *slot)
	return s
}

// begin lets an attempt hold a slot of a lane, until it calls end.
func (s *slots) begin(l *lane, account uuid.UUID) (end func()) {
	held := &slot{lane: l, account: account}
	l.free--
	s.running[account]++
	if s.policy.Slow != nil && !l.slow {
		held.timer = time.AfterFunc(s.policy.Slow.After, func() {
			select {
			case s.late <- held:
			case <-s.closed:
			}
		})
	}
	return func() { s.ended <- held }
}

// end frees a slot.
func (s *slots) end(held *slot) {
	held.ended = true
	if held.timer != nil {
		held.timer.Stop()
	}
	held.lane.free++
	if s.running[held.account]--; s.running[held.account] == 0 {
		delete(s.running, held.account)
	}
	held.lane.more = held.lane.more || s.policy.PerAccount > 0 // the account may have one more
}

// move lets an attempt that takes long hold a slow slot instead, if one is free.
func (s *slots) move(held *slot) {
	slow := s.lanes[1]
	if held.ended || slow.free == 0 {
		return
	}
	held.lane.free++
	held.lane.more = true
	slow.free--
	held.lane = slow
}

// look lets each lane look for tasks.
func (s *slots) look() {
	for _, l := range s.lanes {
		l.more = true
	}
}

// share returns how many of the free slots are claimed at once, and for how many tasks of an account.
func (l *lane) share() (limit, perAccount int) {
	spare := min(l.spare, l.slots-1)
	if l.free <= spare {
		return l.free, 1
	}
	return l.free - spare, l.perAccount
}
