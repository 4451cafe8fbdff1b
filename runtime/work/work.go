// Package work runs what happens later: tasks that wait in the database, which all replicas share.
//
// The statement or transaction that makes a task necessary adds it, so a task exists if and only if its cause was
// committed. A Runner claims tasks that are due, gives them to the Worker of their kind, and records how the attempt
// ended. A task may run twice, after its process died or its end could not be recorded: a Worker can be repeated.
//
// A claim has an id, and ends with its process or with its time, whichever is first. What a process records about a
// task whose claim has ended changes nothing.
package work

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
)

// Kind is the kind of a task. It is stored, and a label of metrics.
type Kind string

// NewTask is a task to be added.
type NewTask struct {
	Kind Kind
	// Key identifies the task within its kind: one that is there already is not added again.
	Key uuid.UUID
	// AccountID is the account whose turn the task takes; zero for a task of no account.
	AccountID uuid.UUID
	// DueAt is when the task may run first, and ExpiresAt when it is of no use anymore; zero = never.
	DueAt, ExpiresAt time.Time
	// Payload is what the Worker needs. Nothing changes it, and it holds no plain secret.
	Payload []byte
}

// Task is a task that a process has claimed.
type Task struct {
	Kind      Kind
	Key       uuid.UUID
	AccountID uuid.UUID
	Payload   []byte
	// Attempt counts the attempts that were neither snoozed, nor uncounted (RetryUncounted), nor given back at a shutdown, this one included.
	Attempt int
	// Expired reports whether the time of the task was over when it was claimed.
	Expired bool
	// Claim is the id of the claim.
	Claim uuid.UUID
}

// Worker does the tasks of a kind. Work is called by several goroutines.
//
// Work returns nil if the task is done, an error of Snooze, SnoozeAccount, Retry, RetryUncounted or Discard, or another error if the attempt failed: the task is
// then tried again after the backoff of the Policy. The text of an error is logged and stored, so it holds no secret. ctx ends with Policy.Timeout,
// and when the process shuts down: the task is then given to another process, and the attempt does not count.
type Worker interface {
	Work(ctx context.Context, task Task) error
}

// snoozed is the error of Snooze and SnoozeAccount.
type snoozed struct {
	delay   time.Duration
	account bool
}

// Error implements error.
func (s snoozed) Error() string { return fmt.Sprintf("snoozed for %s", s.delay) }

// Snooze returns an error with which a Worker puts a task off. The attempt does not count.
func Snooze(delay time.Duration) error { return snoozed{delay: max(0, delay)} }

// SnoozeAccount returns an error with which a Worker puts off all tasks of the kind that the task's account has, those that are added
// meanwhile included. The attempt does not count. Tasks that run already continue.
func SnoozeAccount(delay time.Duration) error { return snoozed{max(0, delay), true} }

// retried is the error of Retry and RetryUncounted.
type retried struct {
	cause       error
	delay, rest time.Duration
	uncounted   bool
}

// Error implements error.
func (r retried) Error() string { return r.cause.Error() }

// Unwrap returns the cause.
func (r retried) Unwrap() error { return r.cause }

// Retry returns the error of an attempt that failed, after which the task is tried again: after delay, instead of the backoff of the Policy.
// With rest above zero, all tasks of the kind that the task's account has are put off for so long, as SnoozeAccount does. Policy.MaxAttempts
// bounds the attempts.
func Retry(delay, rest time.Duration, cause error) error {
	return retried{cause: cause, delay: max(0, delay), rest: max(0, rest)}
}

// RetryUncounted returns the error of an attempt that failed for a reason that the task has no part in: it is tried again after delay, and the
// attempt does not count. So Task.Attempt and Policy.MaxAttempts count the failures of the task itself.
func RetryUncounted(delay time.Duration, cause error) error {
	return retried{cause: cause, delay: max(0, delay), uncounted: true}
}

// discarded is the error of Discard.
type discarded struct{ cause error }

// Error implements error.
func (d discarded) Error() string { return d.cause.Error() }

// Unwrap returns the cause.
func (d discarded) Unwrap() error { return d.cause }

// Discard returns an error with which a Worker ends a task that can never succeed.
func Discard(cause error) error { return discarded{cause} }

// Policy is how the tasks of a kind are run.
type Policy struct {
	// Slots is how many tasks a process runs at once.
	Slots int
	// PerAccount is how many tasks of an account run at once, in all processes; 0 = any number.
	PerAccount int
	// Spare is how many of several slots of a process, the last free ones, are for accounts of which no task runs, so that few accounts with
	// long tasks do not hold all slots. One slot is never a spare one.
	Spare int
	// Slow keeps attempts that take long apart from others; nil = all share the slots.
	Slow *Slow
	// Select says before each claim of Run of which accounts tasks are claimed; nil = of all.
	Select func(ctx context.Context, claim Selecting) (Selection, error)
	// Timeout bounds one attempt.
	Timeout time.Duration
	// Leased claims tasks only while the process has a lease, so their claims end with it. Otherwise a process that dies before it has its
	// lease leaves claims that last as long as Timeout.
	Leased bool
	// Interrupt ends running attempts at once when the process shuts down, for tasks that take longer than the few seconds that others have.
	Interrupt bool
	// CheckInterval is about how often a process looks for tasks that it was not woken for; 0 = 2 s.
	CheckInterval time.Duration
	// MaxAttempts is after how many failed attempts a task is discarded; 0 = it is tried until it succeeds or expires.
	MaxAttempts int
	// MinBackoff is the pause after the first failed attempt. It doubles with each other one, up to MaxBackoff. A
	// random share of up to a quarter is added.
	MinBackoff, MaxBackoff time.Duration
	// Ready returns an error while no task may run: none is claimed or enqueued then. nil = they always may.
	Ready func() error
	// Enqueue adds the tasks that are due because of rows elsewhere, for a kind whose causes add none, and returns how many. It is called
	// at each check, by all processes. nil = none.
	Enqueue func(ctx context.Context) (int, error)
	// Full is called at each check at which no slot is free and Ready returns nil, to make room. nil = tasks wait for a slot.
	Full func(ctx context.Context)
}

// Slow are slots for attempts that take long, beside Policy.Slots. So the others have slots, however many take long.
type Slow struct {
	// Slots is how many there are, and Spare is as Policy.Spare.
	Slots, Spare int
	// After is from when on an attempt takes long: it gives its slot back, and holds one of these, if one is free.
	After time.Duration
}

// Selecting is what Policy.Select knows of a claim.
type Selecting struct {
	// Slow: it is for the slots of Policy.Slow. Slots is how many of them there are, or of Policy.Slots.
	Slow  bool
	Slots int
	// PerAccount is how many tasks of an account may run at once after the claim.
	PerAccount int
	// Running counts the tasks that the process runs, by account. It must not be changed, nor kept.
	Running map[uuid.UUID]int
}

// Selection says of which accounts tasks are claimed. The zero value is of all. At most one of its fields is set.
type Selection struct {
	// Except are accounts of which no task is claimed.
	Except []uuid.UUID
	// Only are the only accounts of which tasks are claimed, and how many of each at most; nil = all.
	Only map[uuid.UUID]int
}

// ready returns an error while no task may run.
func (p Policy) ready() error {
	if p.Ready == nil {
		return nil
	}
	return p.Ready()
}

// validate checks what a program may have wrong.
func (p Policy) validate() error {
	switch {
	case p.Slots < 1, p.PerAccount < 0, p.Spare < 0, p.MaxAttempts < 0, p.CheckInterval < 0:
		return errors.New("a policy needs at least one slot, and no negative number")
	case p.PerAccount == 0 && (p.Spare > 0 || p.Slow != nil && p.Slow.Spare > 0):
		return errors.New("a policy with a spare slot needs a number of tasks per account")
	case p.Slow != nil && (p.Slow.Slots < 1 || p.Slow.Spare < 0 || p.Slow.After <= 0 || p.Select == nil):
		return errors.New("a policy with slow slots needs at least one, a time, and Select")
	case p.Timeout <= 0, p.MinBackoff <= 0, p.MaxBackoff < p.MinBackoff:
		return errors.New("a policy needs a timeout, and a backoff of which the maximum is not below the minimum")
	}
	return nil
}

// backoff returns the pause after a failed attempt, from 1.
func (p Policy) backoff(attempt int) time.Duration {
	pause := p.MinBackoff
	for range attempt - 1 {
		if pause *= 2; pause >= p.MaxBackoff {
			pause = p.MaxBackoff
			break
		}
	}
	return pause + rand.N(pause/4+1)
}

// jitter returns interval, changed randomly by at most a quarter, so that replicas that started at the same time do not check
// at the same time.
func jitter(interval time.Duration) time.Duration { return interval*3/4 + rand.N(interval/2) }
