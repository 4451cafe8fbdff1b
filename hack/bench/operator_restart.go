package main

import (
	"context"
	"errors"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
)

// measureRestart starts the operator again: once when nothing changed meanwhile, and once with a change
// that was made before.
func (c *cluster) measureRestart(ctx context.Context, f fleet) error {
	c.operator.Stop()
	before, err := c.counters(ctx)
	if err != nil {
		return err
	}
	started := time.Now()
	if err := c.startOperator(ctx); err != nil {
		return err
	}
	if err := c.settle(ctx); err != nil {
		return err
	}
	took := time.Since(started) - c.b.quiet
	after, err := c.counters(ctx)
	if err != nil {
		return err
	}
	used := after.since(before)
	accounts, err := c.accountsToChange(ctx, f)
	if err != nil {
		return err
	}
	waiting, err := c.timeAfterRestart(ctx, accounts[0], true)
	if err != nil {
		return err
	}
	fresh, err := c.timeAfterRestart(ctx, accounts[len(accounts)-1], false)
	if err != nil {
		return err
	}
	shown := table{{"restart", "", "min", "max", "target", ""}}
	for _, one := range []struct {
		what, figure string
		value        float64
		target       *target
	}{
		{"API writes", "writes", max(used.apiWrites(), 1e-6), maximum(1)},
		{"seconds until it has settled", "seconds", took.Seconds(), nil},
		{"seconds from the lease to a change made before it", "seconds", waiting.Seconds(), maximum(2)},
		{"seconds from the lease to a change made after it", "seconds", fresh.Seconds(), maximum(2)},
	} {
		found := c.b.add(result{Benchmark: c.b.name, Case: "restart, " + one.what, Figure: one.figure, Target: one.target}, one.value)
		shown.row(append([]string{one.what}, found.cells()...)...)
	}
	shown.print(c.b.out)
	c.b.note("after the restart: %s SQL statements, %s of them wrote, %s S3 requests; %s s of processor time", number(used.statements), number(used.writes), number(used.s3), number(used.cpu[operatorName]))
	c.noteTop(used, 1, "in all")
	return nil
}

// timeAfterRestart starts the operator again and returns the time from the acquisition of the lease until
// a change is served, which was made while no operator ran, or when the lease was acquired.
func (c *cluster) timeAfterRestart(ctx context.Context, account *changed, before bool) (time.Duration, error) {
	c.operator.Stop()
	held, err := c.leaseAcquired(ctx)
	if err != nil {
		return 0, err
	}
	if before {
		if err := c.patch(ctx, account); err != nil {
			return 0, err
		}
	}
	started := make(chan error, 1)
	go func() { started <- c.startOperator(ctx) }()
	acquired := held
	for deadline := time.Now().Add(time.Minute); !acquired.After(held); {
		if time.Now().After(deadline) {
			return 0, errors.Join(errors.New("the operator did not acquire its lease"), <-started)
		}
		if err := wait(pollPause)(ctx); err != nil {
			return 0, err
		}
		if acquired, err = c.leaseAcquired(ctx); err != nil {
			return 0, err
		}
	}
	if !before {
		if err := c.patch(ctx, account); err != nil {
			return 0, err
		}
	}
	if err := c.waitServed(ctx, account, changeTimeout); err != nil {
		return 0, err
	}
	took := time.Since(acquired)
	if err := <-started; err != nil {
		return 0, err
	}
	if account.suspended { // the next measurement begins with accounts that are served
		if err := errors.Join(c.patch(ctx, account), c.waitServed(ctx, account, changeTimeout)); err != nil {
			return 0, err
		}
	}
	return took, c.settle(ctx)
}

// leaseAcquired returns when the operator's lease was acquired last.
func (c *cluster) leaseAcquired(ctx context.Context) (time.Time, error) {
	var lease coordinationv1.Lease
	if err := c.api.Get(ctx, kube.ObjectKey{Namespace: operatorNamespace, Name: operatorLease}, &lease); err != nil {
		return time.Time{}, err
	}
	if lease.Spec.AcquireTime == nil {
		return time.Time{}, nil
	}
	return lease.Spec.AcquireTime.Time, nil
}
