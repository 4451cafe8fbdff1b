package objectstatus

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	toolswatch "k8s.io/client-go/tools/watch"

	"mediastack.dev/api/v1alpha1"
)

const (
	// flushTimeout bounds how long Flush and Close wait for what was written last.
	flushTimeout = 2 * time.Minute
	// relistPause is the pause between two attempts to list.
	relistPause = 50 * time.Millisecond
)

// Recorder sees every version of the custom resources of a namespace.
type Recorder struct {
	report  func(format string, args ...any)
	gap     func(format string, args ...any)
	sources []source
	stop    context.CancelFunc
	watches sync.WaitGroup

	mu       sync.Mutex
	changed  chan struct{} // closed when a version was seen
	seen     map[types.UID]string
	versions []*unstructured.Unstructured
}

// source is one kind.
type source struct {
	resource dynamic.ResourceInterface
	selector string
}

// Record records the custom resources of a namespace until the test ends, and fails the test for
// every version with a contradiction.
func Record(t testing.TB, config *rest.Config, namespace string) *Recorder {
	t.Helper()
	return record(t, config, namespace, t.Errorf)
}

// RecordOverRestarts is Record for tests that restart their API server, which forgets the versions
// before its start: those that a watch had not delivered by then are missed.
func RecordOverRestarts(t testing.TB, config *rest.Config, namespace string) *Recorder {
	t.Helper()
	return record(t, config, namespace, t.Logf)
}

func record(t testing.TB, config *rest.Config, namespace string, gap func(string, ...any)) *Recorder {
	t.Helper()
	r, err := Start(config, namespace, t.Errorf, gap)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// Start records the custom resources of a namespace until Close. It calls report for every version
// with a contradiction, and gap when versions were missed.
func Start(config *rest.Config, namespace string, report, gap func(format string, args ...any)) (*Recorder, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	kind := func(resource string) dynamic.NamespaceableResourceInterface {
		return client.Resource(v1alpha1.GroupVersion.WithResource(resource))
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &Recorder{report: report, gap: gap, stop: cancel, changed: make(chan struct{}), seen: map[types.UID]string{}, sources: []source{
		{resource: kind("mediaaccounts").Namespace(namespace)},
		{resource: kind("mediasettings").Namespace(namespace)},
		{resource: kind("mediawebhooks").Namespace(namespace)},
		{resource: kind("retainedmediaaccounts"), selector: fields.OneTermEqualSelector("spec.accountNamespace", namespace).String()},
	}}
	for _, from := range r.sources {
		if err := r.watch(ctx, from); err != nil {
			r.Close()
			return nil, err
		}
	}
	return r, nil
}

// watch records what a kind has and what happens to it, over interrupted connections.
func (r *Recorder) watch(ctx context.Context, from source) error {
	watcher, err := r.list(ctx, from)
	if err != nil {
		return err
	}
	r.watches.Go(func() {
		for watcher != nil {
			missed := r.follow(watcher)
			if missed == "" || ctx.Err() != nil {
				return
			}
			r.gap("versions were missed: %s", missed)
			watcher = r.listAgain(ctx, from)
		}
	})
	return nil
}

// list records the objects of a kind and starts to watch them.
func (r *Recorder) list(ctx context.Context, from source) (*toolswatch.RetryWatcher, error) {
	list, err := from.resource.List(ctx, metav1.ListOptions{FieldSelector: from.selector})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		r.see(&list.Items[i])
	}
	return toolswatch.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), lister{from})
}

// listAgain lists until it succeeds; nil when the recording ends first.
func (r *Recorder) listAgain(ctx context.Context, from source) (watcher *toolswatch.RetryWatcher) {
	_ = wait.PollUntilContextCancel(ctx, relistPause, true, func(ctx context.Context) (bool, error) {
		var err error
		watcher, err = r.list(ctx, from)
		return err == nil, nil
	})
	return watcher
}

// follow records what a watch delivers. It returns why the watch cannot continue, or nothing when
// the recording has ended.
func (r *Recorder) follow(watcher *toolswatch.RetryWatcher) (missed string) {
	for event := range watcher.ResultChan() {
		switch object := event.Object.(type) {
		case *unstructured.Unstructured:
			if event.Type == watch.Deleted {
				r.forget(object)
			} else if event.Type != watch.Bookmark {
				r.see(object)
			}
		case *metav1.Status:
			missed = object.Message
		}
	}
	return missed
}

// lister adapts a source to what a RetryWatcher calls.
type lister struct{ source }

// WatchWithContext starts a watch.
func (l lister) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.FieldSelector = l.selector
	return l.resource.Watch(ctx, options)
}

// ListWithContext lists the objects.
func (l lister) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	options.FieldSelector = l.selector
	return l.resource.List(ctx, options)
}

func (r *Recorder) see(object *unstructured.Unstructured) {
	contradictions, err := Contradictions(object)
	if err != nil {
		contradictions = []string{err.Error()}
	}
	if len(contradictions) > 0 {
		r.report("the status contradicts itself: %s\n%s", strings.Join(contradictions, "; "), describe(object))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen[object.GetUID()] == object.GetResourceVersion() {
		return // listed again
	}
	r.versions = append(r.versions, object)
	r.note(object.GetUID(), object.GetResourceVersion())
}

func (r *Recorder) forget(object *unstructured.Unstructured) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note(object.GetUID(), "")
}

// note notes the last version of an object; the caller has locked mu.
func (r *Recorder) note(uid types.UID, version string) {
	r.seen[uid] = version
	close(r.changed)
	r.changed = make(chan struct{})
}

// Versions returns every version so far of the object with this kind and name, in order.
func (r *Recorder) Versions(kind, name string) (versions []*unstructured.Unstructured) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, object := range r.versions {
		if object.GetKind() == kind && object.GetName() == name {
			versions = append(versions, object)
		}
	}
	return versions
}

// Count returns how many versions were seen.
func (r *Recorder) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.versions)
}

// Close waits until what was written before is seen, and ends the recording.
func (r *Recorder) Close() {
	r.Flush()
	r.stop()
	r.watches.Wait()
}

// Flush waits until what was written before is seen.
func (r *Recorder) Flush() {
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	for _, from := range r.sources {
		list, err := from.resource.List(ctx, metav1.ListOptions{FieldSelector: from.selector})
		if err != nil {
			break // the test has ended its API server
		}
		for i := range list.Items {
			if !r.flushed(ctx, &list.Items[i]) {
				r.report("the recorder did not see version %s of %s", list.Items[i].GetResourceVersion(), list.Items[i].GetName())
			}
		}
	}
}

// flushed waits until a version was seen, or one that replaced it.
func (r *Recorder) flushed(ctx context.Context, object *unstructured.Unstructured) bool {
	for {
		r.mu.Lock()
		last, known := r.seen[object.GetUID()]
		changed := r.changed
		r.mu.Unlock()
		if known && (last == "" || !older(last, object.GetResourceVersion())) {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// older reports whether a resource version comes before another one.
func older(a, b string) bool { return len(a) < len(b) || len(a) == len(b) && a < b }

// describe shows what a reader of a failed test needs.
func describe(object *unstructured.Unstructured) string {
	text, err := json.MarshalIndent(map[string]any{
		"kind": object.GetKind(), "name": object.GetName(), "generation": object.GetGeneration(), "resourceVersion": object.GetResourceVersion(),
		"deletionTimestamp": object.GetDeletionTimestamp(), "status": object.Object["status"],
	}, "", "  ")
	if err != nil {
		return fmt.Sprint(object)
	}
	return string(text)
}
