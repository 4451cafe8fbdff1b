package main

import (
	"context"

	"golang.org/x/sync/errgroup"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/installation"
)

// heldError is returned by a command that did nothing because nothing may be removed from the
// object store.
type heldError struct{ reason string }

func (e heldError) Error() string { return e.reason }

// asHeld returns the heldError of a fault that says that nothing may be removed, and any other error
// unchanged.
func asHeld(err error) error {
	switch fault.ReasonOf(err) { //nolint:exhaustive // all others are failures of a store
	case fault.Held, fault.OtherInstallation:
		return heldError{fault.From(err).Public}
	}
	return err
}

// runGuard runs the guard beside a command that may take long, so that it notices if the database
// is restored meanwhile. The returned function ends it.
func runGuard(ctx context.Context, guard *installation.Guard) (end func()) {
	ctx, stop := context.WithCancel(ctx)
	var background errgroup.Group
	background.Go(func() error { return guard.Run(ctx) })
	return func() {
		stop()
		_ = background.Wait() // Run returns no error
	}
}
