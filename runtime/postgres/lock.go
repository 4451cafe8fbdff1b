package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// uploadChannel is where replicas ask each other for a resumable upload.
const uploadChannel = "mediastack_upload"

const (
	// lockStep bounds one question to the server. A connection that does not answer in
	// time is given up, and with it every lock that it holds.
	lockStep = 5 * time.Second
	// lockComes is how long a request waits for a connection that is not there (yet).
	lockComes = time.Second
	// Pauses between two tries for a lock that somebody holds: at random between these,
	// so that replicas do not keep step.
	lockPauseLeast = 50 * time.Millisecond
	lockPauseMost  = 150 * time.Millisecond
)

// Locks are the locks of resumable uploads: one request at a time holds an upload, at
// whichever replica. They are advisory locks of one connection that lives as long as
// Run and is not the pool's; so they end with the process that holds them, and they
// don't work through a pooler that changes connections between transactions. Locks is
// safe for concurrent use.
type Locks struct {
	config *pgx.ConnConfig
	log    *slog.Logger

	mu      sync.Mutex
	session int           // counts connections; 0 = none was there yet
	ready   chan struct{} // closed while there is a connection
	tasks   []*lockTask
	wake    func() // ends the connection's wait for notifications; nil while it does not wait
	held    map[uuid.UUID]*heldLock
}

// heldLock is an upload that a request of this process works on.
type heldLock struct {
	session int
	letGo   func()
}

// lockTask is something that the connection's goroutine does for another one.
type lockTask struct {
	run func(ctx context.Context, session int, q *sqlgen.Queries) error
	// vital tasks must not fail on a connection that goes on.
	vital bool
	done  chan error
}

// Locks makes the locks of this process. They can be had while Run runs.
func (s *Store) Locks(log *slog.Logger) *Locks {
	config := s.pool.Config().ConnConfig
	// A holder whose host disappears must not hold for hours. Sockets of other kinds
	// than TCP ignore this.
	config.RuntimeParams["tcp_keepalives_idle"] = "10"
	config.RuntimeParams["tcp_keepalives_interval"] = "5"
	config.RuntimeParams["tcp_keepalives_count"] = "3"
	config.RuntimeParams["idle_session_timeout"] = "0"
	return &Locks{config: config, log: log, ready: make(chan struct{}), held: map[uuid.UUID]*heldLock{}}
}

// Run keeps the connection until ctx ends, and comes back when it is lost. Then every
// holder is asked to let go, and no lock is given until it is back.
func (l *Locks) Run(ctx context.Context) error {
	pause, told := listenPauseFirst, false
	for {
		err := l.serve(ctx, func() { pause, told = listenPauseFirst, false })
		if ctx.Err() != nil {
			l.lose(nil)
			return nil
		}
		if !told { // once, not for every attempt to come back
			l.log.WarnContext(ctx, "resumable uploads can't be locked until the database is back", "error", err)
		}
		told = true
		l.lose(classify(err, "lock uploads"))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		pause = min(2*pause, listenPauseLongest)
	}
}

// serve does the work of one connection.
func (l *Locks) serve(ctx context.Context, onConnect func()) error {
	conn, err := pgx.ConnectConfig(ctx, l.config)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing)
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+uploadChannel); err != nil {
		return err
	}
	l.mu.Lock()
	l.session++
	session := l.session
	close(l.ready)
	l.mu.Unlock()
	onConnect()
	q := sqlgen.New(conn)
	for {
		waiting, wake := context.WithTimeout(ctx, listenProbe)
		tasks := l.take(wake)
		if len(tasks) > 0 {
			wake()
			if err := work(ctx, session, conn, q, tasks); err != nil {
				return err
			}
			continue
		}
		asked, err := conn.WaitForNotification(waiting)
		l.mu.Lock()
		l.wake = nil
		l.mu.Unlock()
		quiet := errors.Is(waiting.Err(), context.DeadlineExceeded)
		wake()
		switch {
		case err == nil:
			if id, err := uuid.Parse(asked.Payload); err == nil {
				l.ask(id)
			}
		case ctx.Err() != nil || conn.IsClosed() || waiting.Err() == nil:
			return err
		case quiet:
			if err := ping(ctx, conn); err != nil {
				return err
			}
		}
	}
}

func ping(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, lockStep)
	defer cancel()
	return conn.Ping(ctx)
}

// work carries tasks out. After an error the connection can't be used any more.
func work(ctx context.Context, session int, conn *pgx.Conn, q *sqlgen.Queries, tasks []*lockTask) error {
	var broken error
	for _, task := range tasks {
		if broken != nil {
			task.done <- broken
			continue
		}
		// Without the cancellation of whoever asks: a query that is cancelled closes the
		// connection, and drops everybody's locks.
		step, cancel := context.WithTimeout(context.WithoutCancel(ctx), lockStep)
		err := task.run(step, session, q)
		cancel()
		if err != nil && (task.vital || conn.IsClosed()) {
			broken = err
		}
		task.done <- err
	}
	return broken
}

// take returns the tasks that wait. When there are none, wake is called for the next one.
func (l *Locks) take(wake func()) []*lockTask {
	l.mu.Lock()
	defer l.mu.Unlock()
	tasks := l.tasks
	if l.tasks = nil; len(tasks) == 0 {
		l.wake = wake
	}
	return tasks
}

// lose ends the connection's time: whoever waits is told why, whoever holds is asked
// to let go.
func (l *Locks) lose(why error) {
	if why == nil {
		why = fault.New(fault.Unavailable, "the service is shutting down")
	}
	l.mu.Lock()
	tasks := l.tasks
	l.tasks, l.wake = nil, nil
	select {
	case <-l.ready:
		l.ready = make(chan struct{})
	default:
	}
	var holders []*heldLock
	for _, holder := range l.held {
		holders = append(holders, holder)
	}
	l.mu.Unlock()
	for _, task := range tasks {
		task.done <- why
	}
	for _, holder := range holders {
		holder.letGo()
	}
}

// ask asks the holder of an upload, if it is one of this process, to let go.
func (l *Locks) ask(id uuid.UUID) {
	l.mu.Lock()
	holder := l.held[id]
	l.mu.Unlock()
	if holder != nil {
		holder.letGo()
	}
}

// do has the connection carry out a task, or says that there is none.
func (l *Locks) do(ctx context.Context, task *lockTask) error {
	waiting, cancel := context.WithTimeout(ctx, lockComes)
	defer cancel()
	l.mu.Lock()
	for {
		ready := l.ready
		select {
		case <-ready:
			l.tasks = append(l.tasks, task)
			if l.wake != nil {
				l.wake()
			}
			l.mu.Unlock()
			return <-task.done // within lockStep, or the connection is given up
		default:
		}
		l.mu.Unlock()
		select {
		case <-ready:
		case <-waiting.Done():
			return fault.New(fault.Unavailable, "resumable uploads can't be locked just now")
		}
		l.mu.Lock()
	}
}

// Lock takes the lock of a name. If another request holds it, Lock calls beforeWait; if that
// returns nil, Lock asks the holder to release the lock, and waits for it until ctx ends.
// letGo is called when another request asks for the lock in turn, and when the lock is lost;
// perhaps often, from any goroutine, and also after unlock. It must return at once. Busy when
// the lock was not released in time, Unavailable when the database can't be reached.
func (l *Locks) Lock(ctx context.Context, id uuid.UUID, letGo func(), beforeWait func() error) (unlock func(), err error) {
	holder := &heldLock{letGo: letGo}
	for waiting := false; ; {
		taken := false
		err := l.do(ctx, &lockTask{done: make(chan error, 1), run: func(ctx context.Context, session int, q *sqlgen.Queries) error {
			var err error
			taken, err = l.try(ctx, session, q, id, holder, waiting)
			return err
		}})
		if err != nil {
			return nil, classify(err, "lock upload")
		}
		if taken {
			return func() { l.unlock(id, holder) }, nil
		}
		if !waiting {
			if err := beforeWait(); err != nil {
				return nil, err
			}
			waiting = true
			continue
		}
		select {
		case <-ctx.Done():
			return nil, &fault.Error{Kind: fault.Busy, Public: "another request is still busy with this upload", Cause: ctx.Err(), RetryAfter: time.Second}
		case <-time.After(lockPauseLeast + rand.N(lockPauseMost-lockPauseLeast)):
		}
	}
}

// try takes the lock; if ask is set and another request holds it, that is asked to release
// it. Only the connection's goroutine calls try. A session may take the same advisory lock
// again, so the locks of this process are checked first.
func (l *Locks) try(ctx context.Context, session int, q *sqlgen.Queries, id uuid.UUID, holder *heldLock, ask bool) (bool, error) {
	l.mu.Lock()
	_, held := l.held[id]
	l.mu.Unlock()
	if held {
		if ask {
			l.ask(id)
		}
		return false, nil
	}
	taken, err := q.TryUploadLock(ctx, lockKey(id))
	if err != nil {
		return false, err
	}
	if !taken && !ask {
		return false, nil
	}
	if !taken {
		return false, q.AskForUpload(ctx, sqlgen.AskForUploadParams{Channel: uploadChannel, Payload: id.String()})
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	holder.session = session
	l.held[id] = holder
	return true, nil
}

// unlock releases the upload. What was lost with its connection is only forgotten.
func (l *Locks) unlock(id uuid.UUID, holder *heldLock) {
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.held, id)
	}()
	if l.lost(holder) {
		return
	}
	_ = l.do(context.Background(), &lockTask{vital: true, done: make(chan error, 1), run: func(ctx context.Context, session int, q *sqlgen.Queries) error {
		if session != holder.session {
			return nil
		}
		return q.UploadUnlock(ctx, lockKey(id))
	}})
}

// lost reports whether a lock has ended with its connection.
func (l *Locks) lost(holder *heldLock) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.ready:
		return holder.session != l.session
	default:
		return true
	}
}

// lockKey is the number of an upload's lock. Two uploads that shared one would only
// wait for each other.
func lockKey(id uuid.UUID) int64 {
	sum := sha256.Sum256(append([]byte("upload "), id[:]...))
	return int64(binary.BigEndian.Uint64(sum[:8])) //nolint:gosec // any 64 bits will do
}
