package upload_test

import (
	"slices"
	"testing"
)

// The model of small uploads: a process with one writer, its uploads, and the searcher of another process. A step is what happens at
// once: a transaction, an object that appears, a decision of the process. All orders of all steps are explored. A process that goes on
// with a second writer is two models: nothing that is recorded is of both.

// How far the process has come with an upload. It ends with the process.
const (
	modelIdle         = iota
	modelPutting      // the object is being sent
	modelPut          // the object store has confirmed it
	modelCommitting   // a commit was sent
	modelUncertain    // and its answer was lost
	modelLooked       // of a broken design: there is no item, and the fence is not raised yet
	modelCommitted    // the process knows that there is an item
	modelAcknowledged // so does the client
	modelRejected     // the client is told failure: no commit was executed
	modelUnknown      // the client is told failure: a commit may have been executed, or may still be
	modelDone         // acknowledged, or the removal of the object is queued, or there is an item
)

// An object.
const (
	modelAbsent = iota
	modelSent   // it may still appear, also after its process is dead
	modelStored
)

// A commit whose answer the process awaits: it is not executed yet, it has made the item, or why it was rejected.
const (
	modelNoCall = iota
	modelRunning
	modelExecuted
	modelOldFence
	modelHasEnded
	modelNoRoom
)

// The row of the writer.
const (
	modelUnregistered = iota
	modelLive
	modelEnded // its process was declared dead
	modelDue   // and the grace is over
	modelDeleted
)

type modelUpload struct {
	phase, object, call uint8
	item                bool
	old                 bool // the call names a fence that was raised since
	lost                bool // a commit may still be executed, and its answer was lost
	lostOld             bool // and one that names a fence that was raised since
	removal             bool // of the object, is queued
	listed              bool // the search has passed the object. The listing is not atomic
	found               bool // it was there, and its item is looked for later
	late                bool // it appeared afterwards
}

type modelState struct {
	uploads             [2]modelUpload
	writer              uint8
	paused, dead, lease bool // of the process
	known               bool // the process knows the fence
	unused              bool // the process begins no upload with the writer anymore
	outlived            bool // the process was not dead when the grace of its writer was over
}

// modelDesign is the design, or one with a mistake.
type modelDesign struct {
	uploads                                                    int
	noFence, fenceAfterLook, searchBeforeEnd, searchSoon       bool
	removeUnsettled, ignoreEnd, acknowledgeFirst, registerLate bool
	strict                                                     bool // the allowed case is not
}

// modelStep is a step and the state after it. A run is complete if nothing but faults is possible.
type modelStep struct {
	name  string
	fault bool
	next  modelState
	after int // the step before it, for explore
}

// model collects the steps that are possible in a state.
type model struct {
	modelDesign
	modelState
	steps []modelStep
}

func (m *model) add(possible, fault bool, name string, change func(n *modelState)) {
	if possible {
		next := m.modelState
		change(&next)
		m.steps = append(m.steps, modelStep{name: name, fault: fault, next: next})
	}
}

// ofUpload adds the steps of an upload, with what the servers do for it whatever its process does.
func (m *model) ofUpload(i int, u modelUpload) {
	searching := m.writer == modelDue || m.searchSoon && m.writer == modelEnded || m.searchBeforeEnd && m.writer == modelLive && !m.lease
	in := func(phase uint8) bool { return !m.paused && !m.dead && u.phase == phase }
	answered := func(call uint8) bool { return in(modelCommitting) && u.call == call }
	add := func(possible, fault bool, name string, change func(n *modelState, u *modelUpload)) {
		m.add(possible, fault, name, func(n *modelState) { change(n, &n.uploads[i]) })
	}
	to := func(phase uint8) func(*modelState, *modelUpload) {
		return func(_ *modelState, u *modelUpload) { u.phase, u.call, u.old = phase, modelNoCall, false }
	}
	add(in(modelIdle) && !m.unused && (m.writer != modelUnregistered || m.registerLate), false, "send the object", func(_ *modelState, u *modelUpload) { u.phase, u.object = modelPutting, modelSent })
	add(in(modelPutting) && u.object == modelStored, false, "the object is confirmed", to(modelPut))
	add(in(modelPutting), true, "the object may be stored", to(modelRejected))
	add(u.object == modelSent, false, "the object appears", func(_ *modelState, u *modelUpload) { u.object, u.late = modelStored, u.listed })
	add(u.object == modelSent && u.phase != modelPutting, true, "the object never appears", func(_ *modelState, u *modelUpload) { u.object = modelAbsent })
	add(in(modelPut) && m.writer != modelUnregistered, false, "send a commit", func(n *modelState, u *modelUpload) { u.phase, u.call, u.old = modelCommitting, modelRunning, !n.known })
	add(in(modelCommitting) && m.acknowledgeFirst, false, "acknowledge too early", to(modelAcknowledged))
	add(u.call == modelRunning, false, "execute the commit", func(_ *modelState, u *modelUpload) { u.call = m.execute(u, u.old) })
	add(u.call == modelRunning, true, "reject the commit", func(_ *modelState, u *modelUpload) { u.call = modelNoRoom })
	add(answered(modelExecuted), false, "the commit is confirmed", to(modelCommitted))
	add(answered(modelNoRoom), false, "there is no room", to(modelRejected))
	add(answered(modelOldFence), false, "the fence was raised", func(n *modelState, u *modelUpload) { to(modelPut)(n, u); n.known = true })
	add(answered(modelHasEnded), false, "the writer has ended", func(n *modelState, u *modelUpload) { to(modelRejected)(n, u); n.unused = true })
	add(in(modelCommitting), true, "lose the answer", func(_ *modelState, u *modelUpload) { u.lose(modelUncertain) })
	add(u.lost, false, "execute a lost commit", func(_ *modelState, u *modelUpload) { m.execute(u, false); u.lost = false })
	add(u.lostOld, false, "execute a lost commit with an old fence", func(_ *modelState, u *modelUpload) { m.execute(u, true); u.lostOld = false })
	add(u.lost || u.lostOld, true, "the lost commits do not arrive", func(_ *modelState, u *modelUpload) { u.lost, u.lostOld = false, false })
	add(in(modelUncertain), false, "raise the fence and look", func(n *modelState, u *modelUpload) {
		if u.phase = modelPut; u.item {
			u.phase = modelCommitted
		} else if m.fenceAfterLook {
			u.phase = modelLooked
			return
		}
		n.raiseFence(true)
	})
	add(in(modelUncertain) && !m.fenceAfterLook, true, "raise the fence, and lose the answer", func(n *modelState, _ *modelUpload) { n.raiseFence(false) })
	add(in(modelLooked), false, "raise the fence", func(n *modelState, u *modelUpload) { u.phase = modelRejected; n.raiseFence(true) })
	add(in(modelUncertain), true, "the outcome cannot be found out", to(modelUnknown))
	add(in(modelPut), true, "give up", to(modelUnknown))
	add(in(modelCommitted), false, "acknowledge", to(modelAcknowledged))
	add(in(modelAcknowledged), false, "end the upload", to(modelDone))
	add(in(modelRejected), false, "abandon", func(_ *modelState, u *modelUpload) { u.phase, u.removal = modelDone, true })
	add(in(modelUnknown), false, "abandon unless there is an item", func(n *modelState, u *modelUpload) {
		u.phase, u.removal = modelDone, u.removal || !u.item
		n.raiseFence(true)
	})
	// While the object may still appear the removal stays queued, and is repeated.
	add(u.removal && u.object != modelSent, false, "carry out the removal", func(_ *modelState, u *modelUpload) { u.removal, u.object = false, modelAbsent })
	add(searching && !u.listed, false, "list", func(_ *modelState, u *modelUpload) { u.listed, u.found = true, u.object == modelStored })
	add(u.found, false, "queue the removal if there is no item", func(_ *modelState, u *modelUpload) { u.found, u.removal = false, u.removal || !u.item })
}

// raiseFence changes nothing if the row of the writer is gone.
func (s *modelState) raiseFence(known bool) {
	if s.writer == modelDeleted {
		return
	}
	s.known = known
	for i := range s.uploads {
		u := &s.uploads[i]
		u.old, u.lost, u.lostOld = u.call == modelRunning, false, u.lost || u.lostOld
	}
}

// kill ends the process, and all that it knows. Nobody awaits its commits.
func (s *modelState) kill() {
	s.paused, s.dead, s.known, s.unused = false, true, false, false
	for i := range s.uploads {
		s.uploads[i].lose(modelIdle)
	}
}

// lose ends the wait for a commit, which may still be executed.
func (u *modelUpload) lose(phase uint8) {
	u.lost, u.lostOld = u.lost || u.call == modelRunning && !u.old, u.lostOld || u.call == modelRunning && u.old
	u.phase, u.call, u.old = phase, modelNoCall, false
}

// execute returns the outcome of a commit.
func (m *model) execute(u *modelUpload, old bool) uint8 {
	switch {
	case m.writer == modelDeleted, m.writer != modelLive && !m.ignoreEnd:
		return modelHasEnded
	case old && !m.noFence:
		return modelOldFence
	}
	u.item = true
	return modelExecuted
}

// possible returns all steps that are possible.
func (d modelDesign) possible(s modelState) []modelStep {
	m := &model{modelDesign: d, modelState: s}
	alive, settled, sending, searched := !s.paused && !s.dead, true, false, true
	for i, u := range s.uploads[:d.uploads] {
		m.ofUpload(i, u)
		settled = settled && (u.phase == modelIdle || u.phase == modelDone)
		sending, searched = sending || u.object == modelSent, searched && u.listed && !u.found
	}
	m.add(alive && s.lease && s.writer == modelUnregistered, false, "register the writer", func(n *modelState) { n.writer, n.known = modelLive, true })
	m.add(alive && s.writer == modelLive && !s.unused && (settled || d.removeUnsettled), false, "remove the writer", func(n *modelState) { n.unused, n.writer = true, modelDeleted })
	m.add(alive, true, "pause", func(n *modelState) { n.paused = true })
	m.add(s.paused, false, "resume", func(n *modelState) { n.paused = false })
	m.add(!s.dead, true, "kill", func(n *modelState) { n.kill() })
	m.add(s.lease, alive, "the lease ends", func(n *modelState) { n.lease = false })
	m.add(alive && !s.lease, false, "renew the lease", func(n *modelState) { n.lease = true })
	m.add(s.writer == modelLive && !s.lease, false, "declare the process dead", func(n *modelState) { n.writer = modelEnded })
	// What a dead process has sent appears within the grace, or never. A process that is paused may send the rest later.
	m.add(s.writer == modelEnded && (!s.dead || !sending), false, "the grace is over", func(n *modelState) { n.writer, n.outlived = modelDue, !n.dead })
	m.add((s.writer == modelDue || d.searchSoon && s.writer == modelEnded) && searched, false, "forget the writer", func(n *modelState) { n.writer = modelDeleted })
	return m.steps
}

// The invariants that a state can break.
const (
	noObject   = "an item has no object"
	noItem     = "an object without an item is left"
	notDurable = "an upload is acknowledged and has no item"
)

// broken returns the invariant that a state breaks; empty = none.
func (d modelDesign) broken(s modelState, complete bool) string {
	for _, u := range s.uploads {
		// The allowed case: a process was paused until its writer was searched, stores an object, and is killed before it can abandon it.
		allowed := s.dead && s.outlived && u.late && !d.strict
		switch {
		case u.item && u.object != modelStored:
			return noObject
		case u.phase == modelAcknowledged && !u.item:
			return notDurable
		case complete && u.object == modelStored && !u.item && !allowed:
			return noItem
		}
	}
	return ""
}

// explore visits all states, and returns how many they are, and the shortest run that breaks an invariant; empty = all hold.
func (d modelDesign) explore(invariant string) (states int, run string) {
	visits, known := []modelStep{{}}, map[modelState]bool{{}: true}
	for at := 0; at < len(visits); at++ {
		steps := d.possible(visits[at].next)
		complete := !slices.ContainsFunc(steps, func(s modelStep) bool { return !s.fault })
		if broken := d.broken(visits[at].next, complete); broken != "" && (invariant == "" || broken == invariant) {
			for ; at > 0; at = visits[at].after {
				run = visits[at].name + "; " + run
			}
			return len(visits), run + broken
		}
		for _, step := range steps {
			if !known[step.next] {
				known[step.next] = true
				step.after = at
				visits = append(visits, step)
			}
		}
	}
	return len(visits), ""
}

func TestWriters_EveryOrderOfEventsKeepsItemsAndLeavesNothing(t *testing.T) {
	t.Parallel()
	for uploads := 1; uploads <= 2; uploads++ {
		states, run := modelDesign{uploads: uploads}.explore("")
		if t.Logf("%d uploads: %d states", uploads, states); run != "" {
			t.Errorf("%d uploads: %s", uploads, run)
		}
	}
}

// Each part of the design is needed: without it the model breaks this invariant.
func TestWriters_EachPartOfTheDesignIsNeeded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		design  modelDesign
		without string
	}{
		"no fence":                                     {modelDesign{noFence: true}, noObject},
		"the fence is raised after the look":           {modelDesign{fenceAfterLook: true}, noObject},
		"the search does not wait for the end":         {modelDesign{searchBeforeEnd: true}, noObject},
		"the search does not wait for the grace":       {modelDesign{searchSoon: true}, noItem},
		"a writer is removed before all is settled":    {modelDesign{removeUnsettled: true}, noItem},
		"a commit does not check whether it has ended": {modelDesign{ignoreEnd: true}, noObject},
		"acknowledged before the commit is answered":   {modelDesign{acknowledgeFirst: true}, notDurable},
		"registered after the object is sent":          {modelDesign{registerLate: true}, noItem},
		"the allowed case is not":                      {modelDesign{strict: true}, noItem},
	} {
		c.design.uploads = 1
		_, run := c.design.explore(c.without)
		if t.Logf("%s: %s", name, run); run == "" {
			t.Errorf("%s breaks nothing: %s", name, c.without)
		}
	}
}
