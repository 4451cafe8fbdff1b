package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// uploadChannel is the channel on which a replica requests the release of an upload lock.
const uploadChannel = "mediastack_upload"

const (
	// minConnectWait is how long Lock waits for the connection at least.
	minConnectWait = time.Second
	// The pause between two attempts to take a lock is random between these, so that
	// replicas do not retry in step.
	minLockPause = 50 * time.Millisecond
	maxLockPause = 150 * time.Millisecond
)

// UploadLocks are the locks of resumable uploads: one request at a time, of any replica,
// holds an upload. They are advisory locks of one connection that is not the pool's and lives
// as long as Run. They end with the process that holds them, and they do not work through a
// pooler that changes connections between transactions.
//
// Only the goroutine of Run uses the connection. Other goroutines queue tasks, which interrupt
// its wait for notifications. UploadLocks is safe for concurrent use.
type UploadLocks struct {
	config *pgx.ConnConfig
	log    *slog.Logger
	// connectWait bounds how long Lock waits for the connection.
	connectWait time.Duration

	mu        sync.Mutex
	session   int           // counts connections, from 1
	connected chan struct{} // closed while there is a connection
	tasks     []*lockTask
	interrupt func() // ends the wait for notifications; nil while the connection does not wait
	held      map[uuid.UUID]*heldLock
}

// heldLock is an upload that a request of this process holds.
type heldLock struct {
	session        int
	requestRelease func()
}

// lockTask is a query that the connection's goroutine runs for another one.
type lockTask struct {
	run func(ctx context.Context, session int, q *sqlgen.Queries) error
	// critical tasks must not fail on a connection that stays open.
	critical bool
	done     chan error
}

// UploadLocks returns the upload locks of this process. They can be taken while Run runs.
func (s Uploads) UploadLocks(log *slog.Logger) *UploadLocks {
	config := s.pool.Config().ConnConfig
	// The server ends the session of a host that disappeared, and with it its locks.
	// Sockets other than TCP ignore these settings.
	config.RuntimeParams["tcp_keepalives_idle"] = "10"
	config.RuntimeParams["tcp_keepalives_interval"] = "5"
	config.RuntimeParams["tcp_keepalives_count"] = "3"
	config.RuntimeParams["idle_session_timeout"] = "0"
	return &UploadLocks{config: config, log: log, connectWait: max(minConnectWait, s.db.retryTimeout), connected: make(chan struct{}), held: map[uuid.UUID]*heldLock{}}
}

// Run keeps the connection until ctx ends, and reconnects when it is lost. Then it requests
// the release of every held lock, and none can be taken until it is back.
func (l *UploadLocks) Run(ctx context.Context) error {
	logged := false // once for each outage, not for every attempt to reconnect
	listen(ctx, l.config, uploadChannel, func(conn *listener) error {
		logged = false
		return l.serve(ctx, conn)
	}, func(err error) {
		if !logged {
			l.log.WarnContext(ctx, "upload locks unavailable until the database is reachable", "error", err)
		}
		logged = true
		l.dropConnection(toFault(err, "lock uploads"))
	})
	l.dropConnection(fault.New(fault.Unavailable, "the service is shutting down"))
	return nil
}

// serve runs the tasks of one connection, and passes release requests on to the holders.
func (l *UploadLocks) serve(ctx context.Context, conn *listener) error {
	session := l.addSession()
	q := sqlgen.New(conn.conn)
	for {
		waiting, interrupt := context.WithCancel(ctx)
		tasks := l.takeTasks(interrupt)
		var payload string
		var err error
		if len(tasks) > 0 {
			err = runTasks(ctx, session, conn.conn, q, tasks)
		} else {
			payload, err = conn.next(ctx, waiting)
			l.clearInterrupt()
		}
		interrupt()
		if err != nil {
			return err
		}
		if id, err := uuid.Parse(payload); err == nil {
			l.requestRelease(id)
		}
	}
}

// addSession makes the connection available to tasks, and returns its number.
func (l *UploadLocks) addSession() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session++
	close(l.connected)
	return l.session
}

// runTasks runs tasks. After an error the connection can't be used.
func runTasks(ctx context.Context, session int, conn *pgx.Conn, q *sqlgen.Queries, tasks []*lockTask) error {
	var broken error
	for _, task := range tasks {
		if broken != nil {
			task.done <- broken
			continue
		}
		// Not the caller's context: canceling a query closes the connection, and drops the
		// locks of all callers.
		querying, cancel := context.WithTimeout(context.WithoutCancel(ctx), queryTimeout)
		err := task.run(querying, session, q)
		cancel()
		if err != nil && (task.critical || conn.IsClosed()) {
			broken = err
		}
		task.done <- err
	}
	return broken
}

// takeTasks returns the queued tasks. If there are none, the next task calls interrupt.
func (l *UploadLocks) takeTasks(interrupt func()) []*lockTask {
	l.mu.Lock()
	defer l.mu.Unlock()
	tasks := l.tasks
	if l.tasks = nil; len(tasks) == 0 {
		l.interrupt = interrupt
	}
	return tasks
}

func (l *UploadLocks) clearInterrupt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.interrupt = nil
}

// dropConnection fails the queued tasks with reason, and requests the release of every held lock.
func (l *UploadLocks) dropConnection(reason error) {
	l.mu.Lock()
	tasks := l.tasks
	l.tasks, l.interrupt = nil, nil
	select {
	case <-l.connected:
		l.connected = make(chan struct{})
	default:
	}
	var holders []*heldLock
	for _, holder := range l.held {
		holders = append(holders, holder)
	}
	l.mu.Unlock()
	for _, task := range tasks {
		task.done <- reason
	}
	for _, holder := range holders {
		holder.requestRelease()
	}
}

// requestRelease asks the holder of an upload in this process, if there is one, to release it.
func (l *UploadLocks) requestRelease(id uuid.UUID) {
	l.mu.Lock()
	holder := l.held[id]
	l.mu.Unlock()
	if holder != nil {
		holder.requestRelease()
	}
}

// runTask queues a task and waits for its result; Unavailable without a connection.
func (l *UploadLocks) runTask(ctx context.Context, task *lockTask) error {
	waiting, cancel := context.WithTimeout(ctx, l.connectWait)
	defer cancel()
	l.mu.Lock()
	for {
		connected := l.connected
		select {
		case <-connected:
			l.tasks = append(l.tasks, task)
			if l.interrupt != nil {
				l.interrupt()
			}
			l.mu.Unlock()
			return <-task.done // within queryTimeout, or the connection is closed
		default:
		}
		l.mu.Unlock()
		select {
		case <-connected:
		case <-waiting.Done():
			return fault.New(fault.Unavailable, "upload locks are temporarily unavailable")
		}
		l.mu.Lock()
	}
}

// Lock takes the lock of an upload. If another request holds it, Lock calls beforeWait; if
// that returns nil, Lock asks the holder to release the lock, and waits until ctx ends: Busy
// if the holder did not release it in time, Unavailable without a connection.
//
// requestRelease is called when another request asks for the upload, or when the lock is
// lost; possibly several times, from any goroutine, and also after unlock. It must return at
// once.
func (l *UploadLocks) Lock(ctx context.Context, id uuid.UUID, requestRelease func(), beforeWait func() error) (unlock func(), err error) {
	holder := &heldLock{requestRelease: requestRelease}
	reconnectBy := time.Now().Add(l.connectWait)
	for waiting := false; ; {
		taken := false
		err := l.runTask(ctx, &lockTask{done: make(chan error, 1), run: func(ctx context.Context, session int, q *sqlgen.Queries) error {
			var err error
			taken, err = l.tryLock(ctx, session, q, id, holder, waiting)
			return err
		}})
		if err != nil && isLost(err) && ctx.Err() == nil && time.Now().Before(reconnectBy) {
			continue // a lock that was taken has ended with its connection
		}
		if err != nil {
			return nil, toFault(err, "lock upload")
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
			return nil, &fault.Error{Kind: fault.Busy, Public: "the upload is locked by another request", Cause: ctx.Err(), RetryAfter: time.Second}
		case <-time.After(minLockPause + rand.N(maxLockPause-minLockPause)):
		}
	}
}

// tryLock takes the lock. If another request holds it and askHolder is set, it requests the
// release. Only the connection's goroutine calls it. It checks the locks of this process
// first, because a session can take the same advisory lock again.
func (l *UploadLocks) tryLock(ctx context.Context, session int, q *sqlgen.Queries, id uuid.UUID, holder *heldLock, askHolder bool) (bool, error) {
	l.mu.Lock()
	_, held := l.held[id]
	l.mu.Unlock()
	if held {
		if askHolder {
			l.requestRelease(id)
		}
		return false, nil
	}
	taken, err := q.TryUploadLock(ctx, lockKey(id))
	switch {
	case err != nil:
		return false, err
	case !taken && askHolder:
		return false, q.NotifyRelease(ctx, sqlgen.NotifyReleaseParams{Channel: uploadChannel, Payload: id.String()})
	case !taken:
		return false, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	holder.session = session
	l.held[id] = holder
	return true, nil
}

// unlock releases the upload. A lock that ended with its connection is only forgotten.
func (l *UploadLocks) unlock(id uuid.UUID, holder *heldLock) {
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.held, id)
	}()
	if l.isLost(holder) {
		return
	}
	_ = l.runTask(context.Background(), &lockTask{critical: true, done: make(chan error, 1), run: func(ctx context.Context, session int, q *sqlgen.Queries) error {
		if session != holder.session {
			return nil
		}
		return q.UploadUnlock(ctx, lockKey(id))
	}})
}

// isLost reports whether a lock has ended with its connection.
func (l *UploadLocks) isLost(holder *heldLock) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.connected:
		return holder.session != l.session
	default:
		return true
	}
}

// lockKey returns the key of an upload's advisory lock. Two uploads with the same key would
// only wait for each other.
func lockKey(id uuid.UUID) int64 {
	sum := sha256.Sum256(append([]byte("upload "), id[:]...))
	return int64(binary.BigEndian.Uint64(sum[:8])) //nolint:gosec // any 64 bits will do
}
