package operators

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// state is what a MediaAccount is, as far as its client knows.
type state int

const (
	absent   state = iota // there is no object, and nothing of an earlier one has to come back
	open                  // the object exists
	deleting              // the object is being deleted
	retained              // the object is gone, and its account is retained
)

// tenant is one MediaAccount. One client alone changes it, and reads this.
type tenant struct {
	name  string
	state state
	// accountID is the id of the account that is open or retained; empty while it is not known.
	accountID string
	// erases: the deletion under way deletes the media.
	erases bool
	// usable: the object was Ready since its last change that denies requests.
	usable     bool
	suspended  bool
	web        bool // it has the app web
	generation int64
	// keys must work, by app: they were read from a Secret, and nothing has ended them.
	keys map[string][]string
	// items were acknowledged as sealed.
	items   []string
	history []string
}

// note adds to the history.
func (t *tenant) note(m *model, format string, args ...any) {
	t.history = append(t.history, fmt.Sprintf("%8.3f s  ", time.Since(m.begun).Seconds())+fmt.Sprintf(format, args...))
}

// forget forgets an account that may or may not come back.
func (t *tenant) forget() { t.accountID, t.items, t.keys = "", nil, map[string][]string{} }

// model is what all clients know, and what was wrong.
type model struct {
	begun   time.Time
	tenants []*tenant

	mu       sync.Mutex
	erased   map[string]string // id of an erased account -> name
	counts   map[string]int
	faults   []string
	problems []problem
}

type problem struct {
	tenant *tenant
	text   string
	faults int // how many were injected before
}

func newModel(begun time.Time, accounts int) *model {
	m := &model{begun: begun, erased: map[string]string{}, counts: map[string]int{}}
	for n := range accounts {
		m.tenants = append(m.tenants, &tenant{name: fmt.Sprintf("tenant-%03d", n)})
	}
	return m
}

func (m *model) count(what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts[what]++
}

func (m *model) recordFault(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults = append(m.faults, fmt.Sprintf("%8.3f s  %s", time.Since(m.begun).Seconds(), name))
}

func (m *model) erase(id, name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.erased[id] = name
}

func (m *model) wasErased(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, was := m.erased[id]
	return was
}

// wrong notes what should never be; of a tenant, or of everything.
func (m *model) wrong(t *tenant, format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	text := fmt.Sprintf("%8.3f s  ", time.Since(m.begun).Seconds()) + fmt.Sprintf(format, args...)
	m.problems = append(m.problems, problem{tenant: t, text: text, faults: len(m.faults)})
}

func (m *model) wrongs() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.problems)
}

// print reports the first problems, with the history of the tenant and the faults before.
func (m *model) print(out io.Writer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	const most = 15
	for n, p := range m.problems {
		if n == most {
			fmt.Fprintf(out, "... and %d more\n", len(m.problems)-most)
			return
		}
		fmt.Fprintf(out, "\nWRONG: %s\n", p.text)
		if p.tenant != nil {
			fmt.Fprintf(out, "  %s, account %s:\n    %s\n", p.tenant.name, p.tenant.accountID, strings.Join(p.tenant.history, "\n    "))
		}
		fmt.Fprintf(out, "  faults before:\n    %s\n", strings.Join(m.faults[max(0, p.faults-8):p.faults], "\n    "))
	}
}

// schedule is all faults, line by line.
func (m *model) schedule() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.faults, "\n") + "\n"
}

// String is one line of what was done how often.
func (m *model) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(m.counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", what, m.counts[what]))
	}
	return strings.Join(parts, ", ")
}
