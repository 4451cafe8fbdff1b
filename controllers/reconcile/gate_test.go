package reconcile

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	ctrl "sigs.k8s.io/controller-runtime"
	ctrlreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestGate_HoldsReconcilesUntilItOpens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := NewGate()
		ran := false
		ended := make(chan error, 1)
		reconciler := Gated(gate, ctrlreconcile.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) {
			ran = true
			return ctrl.Result{}, nil
		}))
		go func() {
			_, err := reconciler.Reconcile(t.Context(), ctrl.Request{})
			ended <- err
		}()
		synctest.Wait()
		if gate.IsOpen() || ran {
			t.Fatal("a reconcile ran behind the closed gate, or a new gate is open")
		}
		if !gate.Open() || gate.Open() {
			t.Error("Open must report the change, once")
		}
		if err := <-ended; err != nil || !ran {
			t.Errorf("after the gate opened, the reconcile ran: %t, %v", ran, err)
		}
	})
}

// A reconcile that the gate interrupts is repeated without an error: an error is a line in the
// log for each object.
func TestGate_InterruptsReconcilesWhenItCloses(t *testing.T) {
	t.Parallel()
	gate := NewGate()
	gate.Open()
	reconciler := Gated(gate, ctrlreconcile.Func(func(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
		gate.Close()
		<-ctx.Done()
		return ctrl.Result{}, context.Cause(ctx)
	}))
	result, err := reconciler.Reconcile(t.Context(), ctrl.Request{})
	if err != nil || result.RequeueAfter == 0 {
		t.Errorf("an interrupted reconcile gives %+v, %v", result, err)
	}
}

func TestGate_PassesErrorsAndEndsWithTheContext(t *testing.T) {
	t.Parallel()
	gate := NewGate()
	failed := errors.New("failed")
	reconciler := Gated(gate, ctrlreconcile.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) { return ctrl.Result{}, failed }))
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := reconciler.Reconcile(canceled, ctrl.Request{}); err != nil {
		t.Errorf("the shutdown of a waiting worker gives %v", err)
	}
	gate.Open()
	if _, err := reconciler.Reconcile(t.Context(), ctrl.Request{}); !errors.Is(err, failed) {
		t.Errorf("the error is %v", err)
	}
}

func TestTransport_DeniesWritesWhileTheGateIsClosed(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	gate := NewGate()
	client := &http.Client{Transport: gate.Transport(http.DefaultTransport)}
	send := func(method, path string) error {
		request, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err == nil {
			_ = response.Body.Close()
		}
		return err
	}
	cases := map[string]bool{ // allowed while closed
		"GET /apis/mediastack.dev/v1alpha1/mediaaccounts":                                   true,
		"PUT /apis/coordination.k8s.io/v1/namespaces/mediastack-system/leases/x":            true,
		"POST /api/v1/namespaces/mediastack-system/events":                                  true,
		"POST /apis/events.k8s.io/v1/namespaces/a/events":                                   false,
		"POST /api/v1/namespaces/a/secrets":                                                 false,
		"DELETE /api/v1/namespaces/a/secrets/events":                                        false,
		"PATCH /apis/mediastack.dev/v1alpha1/namespaces/a/mediaaccounts/b/status":           false,
		"PATCH /apis/mediastack.dev/v1alpha1/namespaces/a/mediaaccounts/b":                  false,
		"PUT /api/v1/namespaces/mediastack-system/configmaps/coordination.k8s.io":           false,
		"POST /apis/mediastack.dev/v1alpha1/retainedmediaaccounts":                          false,
		"DELETE /apis/mediastack.dev/v1alpha1/namespaces/a/mediasettings/coordination":      false,
		"DELETE /apis/mediastack.dev/v1alpha1/namespaces/coordination.k8s.io/mediasettings": false,
	}
	for request, allowed := range cases {
		method, path, _ := strings.Cut(request, " ")
		if err := send(method, path); (err == nil) != allowed {
			t.Errorf("closed: %s: %v", request, err)
		}
	}
	gate.Open()
	for request := range cases {
		method, path, _ := strings.Cut(request, " ")
		if err := send(method, path); err != nil {
			t.Errorf("open: %s: %v", request, err)
		}
	}
}

// A controller whose Reconciler is not behind the gate would fail at every write, and log it, in
// a cluster that must not write.
func TestControllers_AreBehindTheGate(t *testing.T) {
	t.Parallel()
	completes := regexp.MustCompile(`\bComplete\(|\.Reconciler\s*=`)
	found := 0
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			if !completes.MatchString(line) {
				continue
			}
			found++
			if !strings.Contains(line, "reconcile.Gated(") {
				t.Errorf("%s: a controller without reconcile.Gated: %s", path, strings.TrimSpace(line))
			}
		}
		return nil
	})
	if err != nil || found < 3 {
		t.Errorf("found %d controllers, %v", found, err)
	}
}

// A manager that lost its lease ends before its reconciles do. The next one of the process must not begin
// before them.
func TestGate_IdleWaitsForWhatIsPastIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := NewGate()
		if err := gate.Idle(t.Context()); err != nil {
			t.Error(err)
		}
		gate.Open()
		release := make(chan struct{})
		for range 2 {
			go func() {
				_ = gate.Do(t.Context(), func(context.Context) error { <-release; return nil })
			}()
		}
		synctest.Wait()
		gate.Close()
		idle := make(chan error, 1)
		go func() { idle <- gate.Idle(t.Context()) }()
		release <- struct{}{}
		synctest.Wait()
		select {
		case err := <-idle:
			t.Fatalf("it is idle while one call runs: %v", err)
		default:
		}
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		if err := gate.Idle(canceled); !errors.Is(err, context.Canceled) {
			t.Errorf("a wait that was given up: %v", err)
		}
		release <- struct{}{}
		if err := <-idle; err != nil {
			t.Error(err)
		}
	})
}
