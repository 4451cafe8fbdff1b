// Package operators is the scenario of chaos with the operator: two replicas of the shipped operator
// with leader election manage hundreds of accounts that clients create, rotate, suspend, delete and
// restore, while the replicas are killed at their requests, lose their lease and their
// connections, and the API server, PostgreSQL and S3 are killed. Afterwards no account, bucket or
// key may be lost or left over.
//
// Clocks are not changed: the programs are static, so nothing can be put between them and the
// kernel's clock. The tests of keys inject clocks.
package operators

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"mediastack.dev/hack/test/chaos/faults"
	"mediastack.dev/hack/testenv/objectstatus"
)

// Options configure a run.
type Options struct {
	Seed     uint64
	Kills    int
	Clients  int
	Accounts int
	Dir      string
}

// Run is a whole run. It fails when something was lost or left over.
func Run(ctx context.Context, o Options, out io.Writer) error {
	begun := time.Now()
	e, err := startEnvironment(ctx, o.Dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "seed %d, %d kills, %d accounts, %d clients, data in %s\n", o.Seed, o.Kills, o.Accounts, o.Clients, e.dir)
	m := newModel(time.Now(), o.Accounts)
	keep, err := e.inject(ctx, o, m, out)
	e.close(keep)
	if err != nil {
		return fmt.Errorf("seed %d: %w", o.Seed, err)
	}
	fmt.Fprintf(out, "seed %d: no account, bucket or key lost or left over, in %s\n", o.Seed, time.Since(begun).Round(time.Second))
	return nil
}

// inject injects faults under load, and verifies. keep reports whether the data helps to explain a
// failure.
func (e *environment) inject(ctx context.Context, o Options, m *model, out io.Writer) (keep bool, err error) {
	recorder, err := objectstatus.Start(e.kube.Config, namespace, func(format string, args ...any) { m.wrong(nil, format, args...) },
		func(string, ...any) { m.count("watches that missed versions over a restart") })
	if err != nil {
		return false, err
	}
	serving, stopServing := context.WithCancel(ctx)
	var operators sync.WaitGroup
	for _, one := range e.operators {
		operators.Go(func() { one.supervise(serving, func(format string, args ...any) { m.wrong(nil, format, args...) }) })
	}
	schedule := newSchedule(e, m, o.Seed)
	err = e.underLoad(ctx, o, m, schedule, out)
	var took time.Duration
	if err == nil && ctx.Err() == nil && m.wrongs() == 0 {
		w := &worker{env: e, model: m, http: newHTTP()}
		if took, err = w.converge(ctx); err == nil && m.wrongs() == 0 {
			err = w.verify(ctx)
		}
	}
	recorder.Close()
	stopServing()
	operators.Wait()

	fmt.Fprintf(out, "faults: %s\n", schedule)
	fmt.Fprintf(out, "clients: %s\n", m)
	fmt.Fprintf(out, "converged %s after the last fault; %d versions of objects without a contradiction; operators ended by themselves %d and %d times\n",
		took.Round(100*time.Millisecond), recorder.Count(), e.operators[0].exits, e.operators[1].exits)
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case m.wrongs() > 0:
		m.print(out)
		_ = os.WriteFile(e.path("schedule.log"), []byte(m.schedule()), 0o600)
		return true, errors.Join(err, fmt.Errorf("%d things are wrong; the data is in %s", m.wrongs(), e.dir))
	}
	return err != nil, err
}

// underLoad injects the faults while clients work, and ends with everything in order again.
func (e *environment) underLoad(ctx context.Context, o Options, m *model, schedule *faults.Schedule, out io.Writer) (err error) {
	working, stop := context.WithCancel(ctx)
	defer stop()
	for _, one := range e.operators {
		for one.current() == nil && ctx.Err() == nil {
			faults.Sleep(ctx, restartPause)
		}
	}
	var clients sync.WaitGroup
	e.startLoad(working, m, o.Clients, o.Seed, &clients)
	progress := time.NewTicker(10 * time.Second)
	defer progress.Stop()
	injected := make(chan error, 1)
	go func() { injected <- schedule.Run(working, o.Kills) }()
	for running := true; running && m.wrongs() == 0; {
		select {
		case err = <-injected:
			running = false
		case <-progress.C:
			fmt.Fprintf(out, "%4.0f s  %d of %d kills; %s\n", time.Since(m.begun).Seconds(), schedule.Kills(), o.Kills, m)
		}
	}
	stop()
	clients.Wait()
	return err
}
