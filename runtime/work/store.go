package work

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Claim says which tasks a process claims.
type Claim struct {
	Kind Kind
	// Limit is how many at most.
	Limit int
	// PerAccount is how many tasks of an account may run at once; 0 = any number.
	PerAccount int
	// Of are the accounts of which tasks are claimed.
	Of Selection
	// Duration is when the claim ends at the latest.
	Duration time.Duration
	// Leased claims nothing while the process has no lease.
	Leased bool
	// Now is the time in tests; zero = the database's.
	Now time.Time
}

// Return is why, and for how long, a task goes back into the queue.
type Return struct {
	// Delay is after how long it is due again.
	Delay time.Duration
	// Failure is the text of the error of an attempt that failed. Without it, the attempt does not count.
	Failure string
	// Uncounted is set if the attempt does not count although it failed.
	Uncounted bool
	// Rest puts off all tasks of the kind that the task's account has for so long; 0 = none.
	Rest time.Duration
	// Now is the time in tests; zero = the database's.
	Now time.Time
}

// Ending is what became of a task whose attempt has ended.
type Ending int

// The endings.
const (
	Recorded Ending = iota // as it was asked for
	Expired                // the task is gone: it would have been due again only after its time
	Lost                   // nothing was changed: the claim had ended, and another process may run the task
)

// Store keeps the tasks. Package postgres implements it. All methods can be repeated.
type Store interface {
	// ClaimTasks claims tasks that are due. Those of accounts of which the fewest run come first, of these those that were
	// served the longest time ago; an account's tasks are in the order in which they are due.
	ClaimTasks(ctx context.Context, claim Claim) ([]Task, error)
	// ClaimTask claims one task for so long, whenever it is due. It returns false if the task is not there, or a process works on it.
	ClaimTask(ctx context.Context, claim Claim, key uuid.UUID) (task Task, claimed bool, err error)
	// FinishTask removes a task: Recorded or Lost.
	FinishTask(ctx context.Context, task Task) (Ending, error)
	// ReturnTask ends the claim of a task, which is due again later.
	ReturnTask(ctx context.Context, task Task, why Return) (Ending, error)
	// ReleaseTasks ends the claims of processes that are dead, and returns how many tasks are due by that.
	ReleaseTasks(ctx context.Context, kind Kind) (int, error)
}
