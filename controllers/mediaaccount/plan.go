package mediaaccount

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"mediastack.dev/runtime/account"
)

type action int

// Actions that planSecret chooses from.
const (
	actionNone    action = iota // the Secret holds the current key and matches what is desired
	actionUpdate                // it holds the current key, but something else differs
	actionDeliver               // it holds a valid key, but the database does not know that it does
	actionIssue                 // a new key is needed
	actionWait                  // a new key is needed, but the Secret is overwritten again and again
	actionReject                // a Secret of that name belongs to something else
)

// secretPlan is what to do about the Secret and the key of one app.
type secretPlan struct {
	action action
	// accept: the Secret may hold a key that the database does not know as valid. If its proof
	// is accepted, the action is not needed.
	accept  bool
	wait    time.Duration // actionWait: until a new key is issued
	overlap time.Duration // actionIssue: how long older keys stay valid
	event   string        // actionIssue: the event's reason
	reason  string        // actionIssue: for the event's message
}

// Reasons of the events of a new key.
const (
	eventKeyIssued   = "KeyIssued"
	eventKeyReplaced = "KeyReplaced"
	eventKeyRotated  = "KeyRotated"
	eventKeyAccepted = "KeyAccepted"
)

// planSecret decides what to do about the Secret and the key of one app. valid are its valid keys,
// newest first; existing is the Secret of that name, nil when there is none; now is the time of
// the database.
func planSecret(want desiredSecret, existing *corev1.Secret, valid []account.Key, now time.Time) secretPlan {
	if existing == nil {
		return want.planMissing(valid)
	}
	if !want.owns(existing) {
		return secretPlan{action: actionReject}
	}
	index := keyIndex(existing, valid)
	if index < 0 {
		plan := want.planOverwritten(valid, now, "Secret held no valid key")
		plan.accept = true
		return plan
	}
	held := valid[index]
	rotate := func(reason string) secretPlan {
		return secretPlan{action: actionIssue, overlap: want.overlap, event: eventKeyRotated, reason: reason}
	}
	switch {
	case held.Pending():
		// Interrupted after the Secret was written, before the delivery was recorded.
		return secretPlan{action: actionDeliver}
	case index > 0 && valid[0].Pending():
		// Interrupted after the key's row was written: no Secret holds the newer key.
		return rotate("interrupted rotation")
	case index > 0:
		return want.planOverwritten(valid, now, "Secret held an older key")
	case held.ExpiresAt != nil:
		return rotate("the current key ends")
	case held.Generation < want.generation:
		return rotate("spec.apiKeys.generation was raised")
	case want.rotateEvery > 0 && !now.Before(want.rotationDue(held)):
		return rotate("spec.apiKeys.rotateEvery has passed")
	case held.ObjectUID != string(want.object.UID), held.ReplacesSecret:
		return secretPlan{action: actionDeliver}
	case want.differs(existing, held):
		return secretPlan{action: actionUpdate}
	}
	return secretPlan{action: actionNone}
}

// planMissing plans for an app without a Secret. The user who deletes a Secret revokes its key. But
// the Secret of an object that never had it (a rebuilt cluster, a restored account) is not
// deleted: clients use its key elsewhere.
func (d desiredSecret) planMissing(valid []account.Key) secretPlan {
	delivered := newestDelivered(valid)
	switch {
	case delivered == nil:
		return secretPlan{action: actionIssue, event: eventKeyIssued, reason: "no key existed"}
	case delivered.ObjectUID != string(d.object.UID):
		return secretPlan{action: actionIssue, overlap: d.overlap, event: eventKeyReplaced, reason: "this object had no Secret yet"}
	case valid[0].ReplacesSecret:
		return secretPlan{action: actionIssue, overlap: d.overlap, event: eventKeyRotated, reason: "interrupted replacement of an immutable Secret"}
	}
	return secretPlan{action: actionIssue, event: eventKeyReplaced, reason: "Secret was missing; previous key revoked"}
}

// planOverwritten plans for a Secret that holds another key than the current one. The clients of
// the valid keys keep them for the overlap. If something else writes the Secret again and again,
// each of the new keys has to wait longer, so that few are valid at a time.
func (d desiredSecret) planOverwritten(valid []account.Key, now time.Time, reason string) secretPlan {
	if len(valid) == 0 {
		return secretPlan{action: actionIssue, event: eventKeyIssued, reason: reason}
	}
	if wait := valid[0].CreatedAt.Add(reissueDelay(len(valid))).Sub(now); wait > 0 && !valid[0].Pending() {
		return secretPlan{action: actionWait, wait: wait}
	}
	return secretPlan{action: actionIssue, overlap: d.overlap, event: eventKeyReplaced, reason: reason}
}

// reissueDelay returns the least age of the newest key at which another replaces it because the
// Secret was overwritten: 1 second if it is the only valid key, and 4 times as long for each
// further one. At most 12 keys of an app are valid then, even with the longest overlap.
func reissueDelay(valid int) time.Duration {
	return time.Second << (2 * min(valid-1, 12))
}

// rotationDue returns when spec.apiKeys.rotateEvery replaces the key: up to a tenth earlier than
// its age requires, by a part of its random id, so that accounts created together are not rotated
// together.
func (d desiredSecret) rotationDue(key account.Key) time.Time {
	since := key.CreatedAt
	if key.DeliveredAt != nil {
		since = *key.DeliveredAt
	}
	return since.Add(d.rotateEvery - d.rotateEvery/10*time.Duration(key.ID[len(key.ID)-1])/256)
}

// newestDelivered returns the newest key that a Secret held; nil if there is none.
func newestDelivered(valid []account.Key) *account.Key {
	index := slices.IndexFunc(valid, func(key account.Key) bool { return key.DeliveredAt != nil })
	if index < 0 {
		return nil
	}
	return &valid[index]
}

// keyIndex returns the index of the key that the Secret holds, or -1 when it is none of valid.
func keyIndex(secret *corev1.Secret, valid []account.Key) int {
	record := recordOf(secret)
	if !record.hasKey {
		return -1
	}
	return slices.IndexFunc(valid, func(key account.Key) bool { return key.Hash.Equal(record.hash) })
}
