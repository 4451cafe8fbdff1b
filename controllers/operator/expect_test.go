package operator_test

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/testenv/wait"
)

// shows waits until an object's condition has a status and a reason.
func (b *harness) shows(object client.Object, kind string, status metav1.ConditionStatus, reason string) {
	b.t.Helper()
	wait.UntilNone(b.t, func() string {
		must(b.t, b.Get(b.ctx, client.ObjectKeyFromObject(object), object))
		return lacks(conditionsOf(object), kind, status, reason)
	})
}

// ready waits until the current generation of an object is Ready.
func (b *harness) ready(object client.Object) {
	b.t.Helper()
	wait.UntilNone(b.t, func() string {
		must(b.t, b.Get(b.ctx, client.ObjectKeyFromObject(object), object))
		if observed := observedOf(object); observed != object.GetGeneration() {
			return "the generation has not been observed: " + describe(conditionsOf(object))
		}
		return lacks(conditionsOf(object), v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
	})
}

// readyAccount creates an account and waits until it is ready.
func (b *harness) readyAccount(name string, change ...func(*v1alpha1.MediaAccount)) *v1alpha1.MediaAccount {
	b.t.Helper()
	object := b.account(name, change...)
	b.ready(object)
	return object
}

// gone waits until an object is deleted.
func (b *harness) gone(object client.Object) {
	b.t.Helper()
	wait.UntilNone(b.t, func() string {
		err := b.Get(b.ctx, client.ObjectKeyFromObject(object), object)
		if err == nil {
			return object.GetName() + " still exists: " + describe(conditionsOf(object))
		}
		must(b.t, client.IgnoreNotFound(err))
		return ""
	})
}

func lacks(conditions []metav1.Condition, kind string, status metav1.ConditionStatus, reason string) string {
	condition := meta.FindStatusCondition(conditions, kind)
	if condition != nil && condition.Status == status && condition.Reason == reason {
		return ""
	}
	return kind + " is not " + string(status) + ", " + reason + ": " + describe(conditions)
}

func describe(conditions []metav1.Condition) string {
	var lines []string
	for _, c := range conditions {
		lines = append(lines, c.Type+"="+string(c.Status)+" "+c.Reason+": "+c.Message)
	}
	return strings.Join(lines, "\n\t")
}

func conditionsOf(object client.Object) []metav1.Condition {
	switch object := object.(type) {
	case *v1alpha1.MediaAccount:
		return object.Status.Conditions
	case *v1alpha1.RetainedMediaAccount:
		return object.Status.Conditions
	case *v1alpha1.MediaSettings:
		return object.Status.Conditions
	case *v1alpha1.MediaWebhook:
		return object.Status.Conditions
	}
	return nil
}

func observedOf(object client.Object) int64 {
	switch object := object.(type) {
	case *v1alpha1.MediaAccount:
		return object.Status.ObservedGeneration
	case *v1alpha1.RetainedMediaAccount:
		return object.Status.ObservedGeneration
	case *v1alpha1.MediaSettings:
		return object.Status.ObservedGeneration
	case *v1alpha1.MediaWebhook:
		return object.Status.ObservedGeneration
	}
	return 0
}
