package reconcile

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/redact"
)

// Source is the system that an error comes from.
type Source int

// The systems that the operator depends on.
const (
	Database Source = iota
	ObjectStore
	Kubernetes
	Runtime // the replicas that serve tenants; the operator sees their heartbeats only
)

// String returns the name of the source in logs and metrics.
func (s Source) String() string {
	return [...]string{"database", "object store", "kubernetes", "runtime"}[s]
}

// StepError is the error that a step ended with. Its source and its fault decide what follows:
// an error that only a user can resolve stalls the object, an outage is retried at a pace that
// all objects share, and every other error is retried with backoff.
type StepError struct {
	Source Source
	Err    error
	// Action names the request, such as "read Secret x"; for Kubernetes only.
	Action string

	shared bool // the source was not called: it is Err's outage that another call saw
}

// NewError returns a StepError, or nil when err is nil.
func NewError(source Source, err error) *StepError {
	if err == nil {
		return nil
	}
	return &StepError{Source: source, Err: err}
}

// NewAPIError returns the StepError of a request to the Kubernetes API, or nil when err is
// nil. action names the request, such as "read Secret x".
func NewAPIError(err error, action string, args ...any) *StepError {
	if err == nil {
		return nil
	}
	action = fmt.Sprintf(action, args...)
	return &StepError{Source: Kubernetes, Err: fmt.Errorf("%s: %w", action, err), Action: action}
}

// Shared returns the error for an object whose step did not call the source: it shows what another
// call saw.
func (e *StepError) Shared() *StepError {
	if e == nil {
		return nil
	}
	shared := *e
	shared.shared = true
	return &shared
}

// Stalls reports whether a retry cannot succeed before a user changes something.
func (e *StepError) Stalls() bool {
	if e == nil {
		return false
	}
	if fault.Is(e.Err, fault.Conflict) || fault.Is(e.Err, fault.Invalid) {
		return true
	}
	_, known := e.remedy()
	return known || e.deniedBy() != ""
}

// Retries reports whether a retry may succeed.
func (e *StepError) Retries() bool { return e != nil && !e.Stalls() }

// Outage reports whether the source could not be reached, or failed in a way that ends by
// itself. An outage usually concerns every object.
func (e *StepError) Outage() bool {
	return e.Retries() && e.Source != Kubernetes && fault.Is(e.Err, fault.Unavailable)
}

// remedy is what a user has to do about an error of a store.
type remedy struct {
	reason string // of the condition
	text   string // empty: the public text of the fault says it
}

// remedies are the errors of each store that only a user can resolve.
var remedies = map[Source]map[fault.Reason]remedy{
	Database: {
		fault.Credentials:     {v1alpha1.ReasonDatabaseCredentials, "PostgreSQL rejects the credentials or denies the operation: check SERVICE_DATABASE_URL and the permissions of its role"},
		fault.DatabaseMissing: {v1alpha1.ReasonDatabaseMissing, "the database of SERVICE_DATABASE_URL does not exist: create or restore it"},
		fault.StoreFull:       {v1alpha1.ReasonDatabaseFull, "PostgreSQL has no space left: enlarge its disk"},
		fault.Schema:          {v1alpha1.ReasonDatabaseSchema, ""},
	},
	ObjectStore: {
		fault.Credentials:     {v1alpha1.ReasonObjectStoreCredentials, "the object store rejects the credentials or denies the operation: check SERVICE_S3_ACCESS_KEY, SERVICE_S3_SECRET_KEY and the permissions of that key"},
		fault.Region:          {v1alpha1.ReasonObjectStoreRegion, "the object store expects another region: correct SERVICE_S3_REGION"},
		fault.Clock:           {v1alpha1.ReasonObjectStoreClock, "the object store rejects the time of requests: correct the clock of the operator's node, or that of the object store"},
		fault.StoreFull:       {v1alpha1.ReasonObjectStoreQuota, "the object store has no space left, or allows no more buckets: raise its quota"},
		fault.BucketName:      {v1alpha1.ReasonInvalid, "the object store does not accept the name of the bucket: choose another one in spec.storage.bucket.name"},
		fault.Unsupported:     {v1alpha1.ReasonObjectStoreUnsupported, ""},
		fault.MediaLost:       {v1alpha1.ReasonMediaLost, ""},
		fault.DeletionBlocked: {v1alpha1.ReasonDeletionBlocked, ""},
	},
	Kubernetes: {
		fault.DeletionBlocked: {v1alpha1.ReasonDeletionBlocked, ""},
	},
}

// anySource are the reasons that have the same remedy wherever they come from.
var anySource = map[fault.Reason]remedy{
	fault.OtherInstallation: {v1alpha1.ReasonConflict, ""},
	fault.Held:              {v1alpha1.ReasonConflict, ""},
	fault.Retained:          {v1alpha1.ReasonRetained, ""},
}

func (e *StepError) remedy() (found remedy, ok bool) {
	reason := fault.ReasonOf(e.Err)
	if found, ok = remedies[e.Source][reason]; !ok {
		found, ok = anySource[reason]
	}
	return found, ok
}

// deniedBy names what made the API server deny a write; empty for any other error.
func (e *StepError) deniedBy() string {
	if e.Source != Kubernetes || !apierrors.IsForbidden(e.Err) && !apierrors.IsInvalid(e.Err) {
		return ""
	}
	switch text := e.Err.Error(); {
	case strings.Contains(text, "exceeded quota"):
		return "a resource quota"
	case strings.Contains(text, "ValidatingAdmissionPolicy"):
		return "an admission policy"
	case strings.Contains(text, "admission webhook"):
		return "an admission webhook"
	case apierrors.IsInvalid(e.Err):
		return "a validation"
	}
	return "missing permissions"
}

// maxDeniedText bounds the text of the API server in a condition, in bytes.
const maxDeniedText = 512

// deniedText returns what the API server says about a write that it denied, without credentials.
// The numbers of a quota are left out, since they change and every change would be a status write.
func (e *StepError) deniedText() string {
	status := apierrors.APIStatus(nil)
	if !errors.As(e.Err, &status) {
		return ""
	}
	text, _, _ := strings.Cut(redact.Text(status.Status().Message), ", requested: ")
	text, _, _ = strings.Cut(text, ", used: ")
	if len(text) > maxDeniedText {
		text = strings.ToValidUTF8(text[:maxDeniedText], "") + "..."
	}
	return text
}

// Reason returns the condition's reason.
func (e *StepError) Reason() string {
	if found, ok := e.remedy(); ok {
		return found.reason
	}
	switch kind := fault.From(e.Err).Kind; {
	case kind == fault.Conflict:
		return v1alpha1.ReasonConflict
	case kind == fault.Invalid:
		return v1alpha1.ReasonInvalid
	case e.deniedBy() != "":
		return v1alpha1.ReasonKubernetesDenied
	case e.Source == Kubernetes:
		return v1alpha1.ReasonKubernetesUnavailable
	case e.Source == Runtime:
		return v1alpha1.ReasonRuntimeUnavailable
	case kind == fault.Unavailable && e.Source == Database:
		return v1alpha1.ReasonDatabaseUnavailable
	case kind == fault.Unavailable && e.Source == ObjectStore:
		return v1alpha1.ReasonObjectStoreUnavailable
	}
	return v1alpha1.ReasonInternalError
}

// outageTexts are the messages of outages. There is one for each source, whatever way the calls
// fail, so that the status changes once.
var outageTexts = map[Source]string{
	Database:    "the database cannot be reached",
	ObjectStore: "the object store cannot be reached",
	Runtime:     "no replica of the runtime serves: see the Deployment mediastack-runtime",
}

// Message returns the condition's message: what to do, or the public text of the fault; never
// its cause. It is the same for every retry, so that a retry does not change the status.
func (e *StepError) Message() string {
	if by := e.deniedBy(); by != "" {
		return fmt.Sprintf("the API server denied: %s (by %s): %s", e.Action, by, e.deniedText())
	}
	if e.Source == Kubernetes && !e.Stalls() {
		reason := apierrors.ReasonForError(e.Err)
		if reason == "" {
			reason = "no response"
		}
		return fmt.Sprintf("Kubernetes API request failed: %s (%s)", e.Action, reason)
	}
	if e.Outage() {
		return outageTexts[e.Source]
	}
	f := fault.From(e.Err)
	text := f.Public
	if found, ok := e.remedy(); ok && found.text != "" {
		text = found.text
	}
	switch {
	case text == "":
		return "internal error; see the operator log"
	case f.Detail != "":
		return fmt.Sprintf("%s (%s)", text, f.Detail)
	}
	return text
}
