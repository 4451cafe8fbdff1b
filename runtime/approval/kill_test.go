package approval_test

import (
	"context"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/google/uuid"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/approval"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres"
	"mediastack.dev/runtime/settings"
	"mediastack.dev/runtime/work"
)

// mortal is a proxy in front of PostgreSQL through which a process reaches it until it dies: at its nth request, before the server has it, or once
// the server has carried it out and before the process has the answer.
type mortal struct {
	listener net.Listener
	target   string
	answered bool // it dies with the answer

	mu       sync.Mutex
	dieAt    int // 0 = never; counts from the last call of arm
	requests int
	dead     bool
	open     []net.Conn
}

func newMortal(t *testing.T, databaseURL string) (*mortal, string) {
	t.Helper()
	address, err := url.Parse(databaseURL)
	must(t, err)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	query := address.Query() // the server of tests listens on a socket
	m := &mortal{listener: listener, target: filepath.Join(query.Get("host"), ".s.PGSQL."+query.Get("port"))}
	t.Cleanup(func() { _ = listener.Close(); m.kill() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go m.serve(client)
		}
	}()
	host, port, err := net.SplitHostPort(listener.Addr().String())
	must(t, err)
	query.Set("host", host)
	query.Set("port", port)
	query.Set("sslmode", "disable")
	address.RawQuery = query.Encode()
	return m, address.String()
}

// kill ends all connections, and takes none from now on.
func (m *mortal) kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = true
	for _, conn := range m.open {
		_ = conn.Close()
	}
}

// arm has the process die at its nth request from now on.
func (m *mortal) arm(n int, answered bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dieAt, m.requests, m.answered = n, 0, answered
}

// died reports whether it has.
func (m *mortal) died() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dead
}

// track keeps a connection to be ended, and reports whether the process lives.
func (m *mortal) track(conn net.Conn) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open = append(m.open, conn)
	return !m.dead
}

// counts counts a request, and reports whether it is the last one.
func (m *mortal) counts() (last, answered bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests++
	return m.dieAt > 0 && m.requests == m.dieAt, m.answered
}

func (m *mortal) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := (&net.Dialer{}).DialContext(context.Background(), "unix", m.target)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	if !m.track(client) || !m.track(server) {
		return
	}
	mute := make(chan struct{})
	var once sync.Once
	go func() { // the answers
		buffer := make([]byte, 64<<10)
		for {
			n, err := server.Read(buffer)
			select {
			case <-mute: // the server has carried the request out
				m.kill()
				return
			default:
			}
			if err != nil {
				_ = client.Close()
				return
			}
			if _, err := client.Write(buffer[:n]); err != nil {
				return
			}
		}
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		last, answered := m.counts()
		if last && !answered {
			m.kill()
			return
		}
		if last {
			once.Do(func() { close(mute) })
		}
		if _, err := server.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// process is a process of its own, which reaches the database until it dies.
func (w *world) process(t *testing.T) (*approval.Service, *mortal) {
	t.Helper()
	proxy, through := newMortal(t, w.Database.DatabaseURL)
	config := w.Database
	config.DatabaseURL, config.RetryTimeout, config.DatabaseConns = through, 0, 1
	store, err := postgres.Open(t.Context(), config)
	must(t, err)
	t.Cleanup(store.Close)
	clock := &runtimetest.Clock{}
	items, err := media.New(runtimetest.MediaConfig(), media.Deps{Store: store.Items, Objects: w.Objects, Now: clock.Now, Log: (&runtimetest.Log{}).Logger()})
	must(t, err)
	service, err := approval.New(approval.Deps{Store: store.Approvals, Media: items, Settings: settings.NewService(store.Settings), NewID: store.Cell().NewID, Log: (&runtimetest.Log{}).Logger()})
	must(t, err)
	return service, proxy
}

// A process that dies at any request to the database, before or after the server has carried it out, leaves each change made with its step, or
// neither. The next process goes on, and each change is made once.
func TestKill_AtEachStatement(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	permanent := w.tenant(t, "permanent", func(s *account.Spec) { s.Undo = account.Undo{} })
	undoable := w.tenant(t, "undoable", func(s *account.Spec) { s.ToolPolicy.Ceilings.Total.DeletesPerHour = 1000 })
	for _, kind := range []struct {
		name      string
		of        runtimetest.Tenant
		tool      string
		arguments object
		made      string // a query that counts how often the change was made
	}{
		{"permanent delete", permanent, "delete_media", object{}, `SELECT count(*) FROM journal WHERE type = 'media.deleted' AND item_id = $1`},
		{"delete that can be undone", undoable, "delete_media", object{}, `SELECT count(*) FROM journal WHERE type = 'media.deleted' AND item_id = $1`},
		{"publication", undoable, "update_media", object{"access": "public"}, `SELECT count(*) FROM journal WHERE type = 'media.updated' AND item_id = $1`},
	} {
		t.Run(kind.name, func(t *testing.T) {
			by := w.application(t, kind.of)
			for _, answered := range []bool{false, true} {
				deaths := 0
				for n := 1; ; n++ {
					item := w.sealed(t, kind.of, strconv.Itoa(n)+".txt")
					arguments := object{"mediaId": item}
					for name, value := range kind.arguments {
						arguments[name] = value
					}
					q := w.asked(t, by, kind.tool, arguments)
					found, err := w.tools.Approvals.Find(t.Context(), uuid.MustParse(q.ApprovalID))
					must(t, err)
					must(t, w.tools.Approvals.Decide(t.Context(), approval.Decision{ID: found.ID, AccountID: found.AccountID, Revision: found.Revision, Allow: true, By: runtimetest.Owner}))
					service, proxy := w.process(t)
					if _, err := service.Find(t.Context(), found.ID); err != nil { // it is connected
						t.Fatal(err)
					}
					proxy.arm(n, answered)
					_ = service.Work(t.Context(), work.Task{Kind: approval.Work, Key: found.ID})
					made := w.QueryInt(t, kind.made, item)
					done := w.QueryInt(t, `SELECT count(*) FROM approval_step WHERE approval_id = $1 AND state = 'done'`, found.ID)
					if made != done || made > 1 {
						t.Fatalf("death at request %d (answered: %t): the change was made %d times, and %d steps are done", n, answered, made, done)
					}
					w.carryOut(t, q)
					w.Counts(t, 1, "changes", kind.made, item)
					if got := w.told(t, by, q); got.State != "done" || got.Results[0].Outcome != "done" {
						t.Errorf("death at request %d (answered: %t): %+v", n, answered, got)
					}
					if !proxy.died() {
						break
					}
					deaths++
				}
				if deaths < 6 {
					t.Errorf("the process died at %d requests only", deaths)
				}
			}
		})
	}
}

// A decision is recorded with its task, or not at all.
func TestKill_ADecisionIsRecordedWithItsTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.tenant(t, "studio")
	by := w.application(t, tenant)
	for _, answered := range []bool{false, true} {
		for n := 1; ; n++ {
			q := w.asked(t, by, "delete_media", object{"mediaId": w.sealed(t, tenant, strconv.Itoa(n)+".txt")})
			found, err := w.tools.Approvals.Find(t.Context(), uuid.MustParse(q.ApprovalID))
			must(t, err)
			service, proxy := w.process(t)
			if _, err := service.Find(t.Context(), found.ID); err != nil {
				t.Fatal(err)
			}
			proxy.arm(n, answered)
			decision := approval.Decision{ID: found.ID, AccountID: found.AccountID, Revision: found.Revision, Allow: true, By: runtimetest.Owner, Allowance: true}
			_ = service.Decide(t.Context(), decision)
			allowed := w.QueryInt(t, `SELECT count(*) FROM approval WHERE id = $1 AND state = 'allowed'`, found.ID)
			tasks := w.QueryInt(t, `SELECT count(*) FROM work WHERE kind = 'approval' AND key = $1`, found.ID)
			if allowed != tasks {
				t.Fatalf("death at request %d (answered: %t): %d decisions and %d tasks", n, answered, allowed, tasks)
			}
			if allowed == 0 {
				must(t, w.tools.Approvals.Decide(t.Context(), decision))
			}
			w.carryOut(t, q)
			w.Exec(t, `DELETE FROM approval_allowance`)
			if !proxy.died() {
				if n < 4 {
					t.Errorf("the process died at %d requests only", n-1)
				}
				break
			}
		}
	}
}
