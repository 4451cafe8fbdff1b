package postgres_test

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/runtime/fault"
)

func TestListen_ReceivesChangesAfterServerRestart(t *testing.T) {
	t.Parallel()
	server := testenv.PostgresServer(t)
	url := testenv.Database(t, server)
	store := open(t, url)
	connected, lost, changed := make(chan struct{}, 100), make(chan struct{}, 100), make(chan uuid.UUID, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- store.Listen(ctx, func() { connected <- struct{}{} }, func(id uuid.UUID) { changed <- id }, func(error) { lost <- struct{}{} })
	}()
	<-connected
	a, err := registry(store).Ensure(t.Context(), spec)
	must(t, err)
	if got := <-changed; got != a.ID {
		t.Errorf("notified of %v, not of %v", got, a.ID)
	}
	server.Kill()
	<-lost
	if err := store.Ping(t.Context()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("ping of a stopped server: %v", err)
	}
	server.Start()
	<-connected
	suspended := spec
	suspended.Suspended = true
	_, err = registry(store).Ensure(t.Context(), suspended)
	must(t, err)
	if got := <-changed; got != a.ID {
		t.Errorf("after the restart notified of %v, not of %v", got, a.ID)
	}
	cancel()
	must(t, <-done)
}
