// Package reconcile is the skeleton that the reconcilers of MediaAccount and MediaSettings
// share. A reconcile is a Run: named steps look at the world, change what differs and record
// what they saw; one deferred Report turns that into the status, the events and the next
// reconcile. Errors of steps become reasons and messages here, and a Summary becomes the
// conditions Ready, Reconciling and Stalled.
package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"mediastack.dev/api/v1alpha1"
)

const (
	// conflictDelay is the pause before a reconcile that found its object changed meanwhile is
	// repeated.
	conflictDelay = 500 * time.Millisecond
	// stalledInterval is the longest time until it is checked again whether an object is still
	// stalled.
	stalledInterval = 30 * time.Second
	// sharedRetry is when an object tries again whose outage another call saw.
	sharedRetry = 5 * time.Minute
	// maxPromptDelay is the longest delay of a repetition that a user waits for.
	maxPromptDelay = 2 * time.Second
)

// Deps are the parts that a Run uses.
type Deps struct {
	Client  client.Client // reads from the cache
	Events  events.EventRecorder
	Now     func() time.Time
	Gate    *Gate    // every controller passes its Reconciler through Gated, and its passes through Do
	Outages *Outages // shared by all controllers; may be nil
	Queue   *Queue   // of the controller; nil if nothing adds requests
	Written *Written // of the controller; may be nil
}

// Run is one reconcile of one object. T is the pointer type of the object.
type Run[T client.Object] struct {
	// Original is the object as it was read, or as it was written last.
	Original T
	// Object is the object with the status that Report writes.
	Object T

	deps       Deps
	requeueAt  time.Time // the latest time of the next reconcile; zero = on the next event
	skipStatus bool
}

// Begin reads the object of a request into object and returns its Run. The Run is nil when
// the object does not exist or cannot be read.
func Begin[T client.Object](ctx context.Context, deps Deps, request ctrl.Request, object T) (*Run[T], error) {
	if err := deps.Client.Get(ctx, request.NamespacedName, object); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return NewRun(deps, object), nil
}

// NewRun returns a Run of an object that was read.
func NewRun[T client.Object](deps Deps, object T) *Run[T] {
	return &Run[T]{Original: deepCopy(object), Object: object, deps: deps}
}

// Step does one thing for an object and records in scope what it saw. It reports whether
// the next step can run.
type Step[S any] func(ctx context.Context, scope S) bool

// RunSteps runs steps in order, until one reports that the next cannot run.
func RunSteps[S any](ctx context.Context, scope S, steps ...Step[S]) {
	for _, step := range steps {
		if !step(ctx, scope) {
			return
		}
	}
}

// Deleting reports whether the object is being deleted.
func (r *Run[T]) Deleting() bool { return !r.Object.GetDeletionTimestamp().IsZero() }

// RequeueBy asks for the next reconcile at the given time at the latest.
func (r *Run[T]) RequeueBy(at time.Time) {
	if r.requeueAt.IsZero() || at.Before(r.requeueAt) {
		r.requeueAt = at
	}
}

// SkipStatus makes Report write nothing: the object is gone, or is about to be.
func (r *Run[T]) SkipStatus() { r.skipStatus = true }

// StatusSkipped reports whether Report will write nothing.
func (r *Run[T]) StatusSkipped() bool { return r.skipStatus }

// Conflicted ends the run without a status because something was changed by another client
// since it was read, and repeats it soon.
func (r *Run[T]) Conflicted() {
	r.SkipStatus()
	r.RequeueBy(r.deps.Now().Add(Jitter(conflictDelay)))
}

// AddFinalizer adds this project's finalizer. It reports whether the object has it.
func (r *Run[T]) AddFinalizer(ctx context.Context) (bool, *StepError) {
	if controllerutil.ContainsFinalizer(r.Object, v1alpha1.Finalizer) {
		return true, nil
	}
	return r.patchFinalizers(ctx, func() { controllerutil.AddFinalizer(r.Object, v1alpha1.Finalizer) })
}

// RemoveFinalizer removes this project's finalizer. It skips the status if the object is gone with
// it: other finalizers may keep it. It reports whether the object is without the finalizer.
func (r *Run[T]) RemoveFinalizer(ctx context.Context) (bool, *StepError) {
	if controllerutil.ContainsFinalizer(r.Object, v1alpha1.Finalizer) {
		removed, err := r.patchFinalizers(ctx, func() { controllerutil.RemoveFinalizer(r.Object, v1alpha1.Finalizer) })
		if !removed {
			return false, err
		}
	}
	if len(r.Object.GetFinalizers()) == 0 {
		r.SkipStatus()
	}
	return true, nil
}

// maxFinalizers bounds how many finalizers a message names.
const maxFinalizers = 3

// Finalizers names the finalizers of an object in a message.
func Finalizers(object client.Object) string {
	names := object.GetFinalizers()
	if more := len(names) - maxFinalizers; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxFinalizers], ", "), more)
	}
	return strings.Join(names, ", ")
}

// RemoveAnnotation removes an annotation that has had its effect. An object that is gone is no error.
func (r *Run[T]) RemoveAnnotation(ctx context.Context, name string) *StepError {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, name)
	answer, err := metadataOf(r.deps.Client, r.Original)
	if err == nil {
		err = r.deps.Client.Patch(ctx, answer, client.RawPatch(types.MergePatchType, patch))
	}
	return NewAPIError(client.IgnoreNotFound(err), "remove the annotation %s", name)
}

// patchFinalizers changes the finalizers, unless another client changed the object since it
// was read.
func (r *Run[T]) patchFinalizers(ctx context.Context, change func()) (bool, *StepError) {
	before, version := slices.Clone(r.Object.GetFinalizers()), r.Object.GetResourceVersion()
	change()
	finalizers, err := json.Marshal(r.Object.GetFinalizers())
	if err != nil {
		return false, NewAPIError(err, "change the finalizers")
	}
	patch := fmt.Appendf(nil, `{"metadata":{"finalizers":%s,"resourceVersion":%q}}`, finalizers, version)
	answer, err := metadataOf(r.deps.Client, r.Object)
	if err == nil {
		err = r.deps.Client.Patch(ctx, answer, client.RawPatch(types.MergePatchType, patch))
	}
	switch {
	case apierrors.IsConflict(err):
		r.Conflicted()
		return false, nil
	case apierrors.IsNotFound(err):
		r.SkipStatus()
		return false, nil
	case err != nil:
		r.Object.SetFinalizers(before)
		return false, NewAPIError(err, "change the finalizers")
	case !r.Deleting() && answer.Generation != r.Object.GetGeneration(): // admission changed the spec, too
		r.Conflicted()
		return false, nil
	}
	r.Object.SetFinalizers(answer.Finalizers)
	r.Object.SetResourceVersion(answer.ResourceVersion)
	r.Original = deepCopy(r.Object)
	return true, nil
}

// metadataOf returns an object of the same kind and name, for an answer to a patch: the API server sends the
// metadata alone. The run has the rest, since the patch says which version it changes.
func metadataOf(c client.Client, object client.Object) (*metav1.PartialObjectMetadata, error) {
	kind, err := c.GroupVersionKindFor(object)
	if err != nil {
		return nil, err
	}
	answer := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: object.GetNamespace(), Name: object.GetName()}}
	answer.SetGroupVersionKind(kind)
	return answer, nil
}

// Status points to the parts of an object's status that Report sets.
type Status struct {
	Conditions         *[]metav1.Condition
	ObservedGeneration *int64
	// Types are the types of conditions that objects of this kind have. Report removes all others.
	Types []string
	// All is the whole status.
	All any
}

// Observation is what the steps of a Run saw.
type Observation struct {
	// Conditions are the conditions of the object.
	Conditions []metav1.Condition
	// Measured are conditions that are written during a short outage, too.
	Measured []metav1.Condition
	// GenerationObserved is set when this generation of the spec was handled.
	GenerationObserved bool
	// Failures are the errors of the steps; nil ones are ignored.
	Failures []*StepError
	// Interval is the longest time until it is checked again whether an object is still stalled.
	Interval time.Duration
}

// Report writes the status if it differs, records an event if Ready changed, and returns
// when to reconcile next, if a step or a failure asks for it. statusOf returns the status of an object. The conditions of an object
// that was Ready stay during a short outage.
func (r *Run[T]) Report(ctx context.Context, statusOf func(T) Status, saw Observation) (ctrl.Result, error) {
	if r.skipStatus {
		r.deps.Outages.forget(r.Object.GetUID())
		return r.result(), nil
	}
	if ctx.Err() != nil { // the errors are those of an interruption
		return ctrl.Result{}, ctx.Err()
	}
	for _, failure := range saw.Failures {
		r.deps.Outages.failed(failure)
	}
	keeps, until := r.deps.Outages.keepsStatus(r.subject(), saw.Failures)
	removeForeign(statusOf(r.Object).Conditions, statusOf(r.Object).Types)
	setConditions(statusOf(r.Object).Conditions, r.Object.GetGeneration(), saw.Measured)
	if !keeps || !isReady(statusOf(r.Original), r.Object.GetGeneration()) {
		next := statusOf(r.Object)
		setConditions(next.Conditions, r.Object.GetGeneration(), saw.Conditions)
		if saw.GenerationObserved {
			*next.ObservedGeneration = r.Object.GetGeneration()
		}
	}
	patched, err := r.writeStatus(ctx, statusOf)
	if apierrors.IsConflict(err) {
		r.Conflicted()
		return r.result(), nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	if patched {
		recordReadyEvent(r.deps.Events, r.Object, *statusOf(r.Original).Conditions, *statusOf(r.Object).Conditions)
	}
	if keeps {
		r.RequeueBy(until) // the status changes then
	}
	if err := r.planRetry(saw); err != nil {
		return ctrl.Result{}, err
	}
	return r.result(), nil
}

// writeStatus writes the status if it differs, and reports whether it did. It is a conflict if the
// object was read before the operator wrote its status: the API server would say so, too.
func (r *Run[T]) writeStatus(ctx context.Context, statusOf func(T) Status) (bool, error) {
	if r.deps.Written.isBehind(r.Original) {
		return false, apierrors.NewConflict(schema.GroupResource{Group: v1alpha1.GroupVersion.Group}, r.Object.GetName(), errBehind)
	}
	r.deps.Written.writing(r.Object.GetUID(), statusOf(r.Object).All)
	patched, err := patchStatus(ctx, r.deps.Client, r.Original, r.Object, statusOf(r.Original).All, statusOf(r.Object).All)
	if patched && err == nil {
		r.deps.Written.wrote(r.Object)
	}
	return patched, err
}

var errBehind = errors.New("the cache is behind the last write of the status")

// subject returns the object as the outages know it.
func (r *Run[T]) subject() subject {
	return subject{uid: r.Object.GetUID(), queue: r.deps.Queue, request: ctrl.Request{NamespacedName: client.ObjectKeyFromObject(r.Object)}}
}

// planRetry asks for the next reconcile after outages and after errors that stall, and returns
// the other errors, which are retried with backoff.
func (r *Run[T]) planRetry(saw Observation) error {
	var errs []error
	for _, failure := range saw.Failures {
		switch {
		case failure == nil:
		case failure.Outage() && failure.shared:
			r.RequeueBy(r.deps.Now().Add(Jitter(sharedRetry))) // the end of the outage requests it earlier
		case failure.Outage():
			r.RequeueBy(r.deps.Now().Add(r.deps.Outages.RetryIn(failure.Source)))
		case failure.Stalls():
			r.RequeueBy(r.deps.Now().Add(Jitter(min(stalledInterval, saw.Interval))))
		default:
			errs = append(errs, failure.Err)
		}
	}
	return errors.Join(errs...)
}

// result returns the Result that reconciles at requeueAt, or on the next event only.
func (r *Run[T]) result() ctrl.Result {
	if r.requeueAt.IsZero() {
		return ctrl.Result{}
	}
	result := ctrl.Result{RequeueAfter: max(r.requeueAt.Sub(r.deps.Now()), time.Millisecond)}
	if result.RequeueAfter > maxPromptDelay {
		result.Priority = new(PriorityRepeat)
	}
	return result
}

// Jitter varies an interval by up to 10 percent either way, so that objects that were
// created together are not reconciled together.
func Jitter(interval time.Duration) time.Duration {
	return time.Duration(float64(interval) * (0.9 + 0.2*rand.Float64()))
}

func deepCopy[T client.Object](object T) T { return object.DeepCopyObject().(T) }
