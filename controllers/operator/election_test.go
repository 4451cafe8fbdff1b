package operator_test

import (
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/controllers/operator"
	"mediastack.dev/hack/testenv/wait"
)

// electee is an operator that takes part in a leader election.
type electee struct {
	clock   time.Duration // how far its clock is ahead
	elected <-chan struct{}
	stop    func()
}

// election runs two operators with leader election, whose clocks are 10 minutes apart.
type election struct {
	*harness
	config         operator.Config
	step           atomic.Int64 // of both clocks, in nanoseconds
	leader, second *electee
}

func (b *harness) elect() *election {
	b.t.Helper()
	grantIn(b.t, b.plane, b.namespace, "rbac/leader_election_role.yaml", "rbac/leader_election_role_binding.yaml")
	e := &election{harness: b, config: b.config}
	e.config.LeaderElect, e.config.LeaderElectionNamespace = true, b.namespace
	e.leader = e.join(5 * time.Minute)
	wait.Receive(b.t, "the first operator becomes the leader", e.leader.elected)
	e.second = e.join(-5 * time.Minute)
	return e
}

func (e *election) join(clock time.Duration) *electee {
	e.t.Helper()
	operators, end := e.start(e.config, e.ownConnections(), func(deps *operator.Deps) {
		deps.Now = func() time.Time { return time.Now().Add(clock + time.Duration(e.step.Load())) }
	})
	stop := func() {
		if err := end(); err != nil {
			e.t.Errorf("an elected operator ended with %v", err)
		}
	}
	return &electee{clock: clock, elected: operators.Elected(), stop: stop}
}

// change ends the leader, waits until the other operator leads, and starts another second one.
func (e *election) change() {
	e.t.Helper()
	select {
	case <-e.second.elected:
		e.t.Fatal("two operators lead")
	default:
	}
	e.leader.stop()
	wait.Receive(e.t, "the second operator becomes the leader", e.second.elected)
	former := e.leader
	e.leader, e.second = e.second, e.join(former.clock)
}

// A clock behind by some seconds made 1,023 valid keys from one rotation. Here two elected operators
// have clocks that are 10 minutes apart, the leader changes in the middle of every rotation, and both
// clocks step back by an hour while they run.
func TestKeys_ClocksOfElectedOperatorsDoNotMatter(t *testing.T) {
	t.Parallel()
	b := newHarness(t, quiet, idle)
	e := b.elect()
	object := b.readyAccount("demo")
	const rotations = 7
	for generation := int64(2); generation <= rotations; generation++ {
		if generation == rotations/2 {
			e.step.Store(int64(-time.Hour))
		}
		change(b, object, func(a *v1alpha1.MediaAccount) { a.Spec.APIKeys.Generation = generation })
		wait.UntilNone(b.t, func() string {
			if b.sql(`SELECT max(generation) FROM api_key`) != generation {
				return "the rotation has not begun"
			}
			return ""
		})
		e.change()
		b.ready(object)
		b.oneKeyEach(generation)
	}

	// A rotation by age is due by the clock of the database. The leader's clock is an hour late, then
	// 5 minutes early, and the key is due in 2 minutes.
	change(b, object, func(a *v1alpha1.MediaAccount) {
		a.Spec.APIKeys.RotateEvery = &metav1.Duration{Duration: 10 * time.Hour}
	})
	b.ready(object)
	b.ageKeys(10*time.Hour - b.earlier(object) - 2*time.Minute)
	e.step.Store(0)
	if e.leader.clock < 0 {
		e.change()
	}
	b.touch(object, "5 minutes early")
	b.oneKeyEach(rotations)
	b.ageKeys(3 * time.Minute)
	e.step.Store(int64(-time.Hour))
	b.touch(object, "55 minutes late")
	b.ready(object)
	b.oneKeyEach(rotations + 1)
}

// oneKeyEach fails unless the rotations so far made one key each, and the Secret holds the last one.
func (b *harness) oneKeyEach(rotations int64) {
	b.t.Helper()
	if rows := b.keyRows(); rows != rotations {
		b.t.Fatalf("%d rotations made %d keys", rotations, rows)
	}
	if held := b.secret("demo", "default").Data["apiKey"]; b.sql(`SELECT count(*) FROM api_key WHERE expires_at IS NULL`) != 1 || !b.opens(held) {
		b.t.Fatal("the Secret does not hold the one key without an end")
	}
}

// earlier returns how long before its age the newest key is rotated: keys are not rotated all at
// once.
func (b *harness) earlier(object *v1alpha1.MediaAccount) time.Duration {
	b.t.Helper()
	key := b.newestKey(object)
	return time.Duration(key.ID[15]) * time.Hour / 256
}
