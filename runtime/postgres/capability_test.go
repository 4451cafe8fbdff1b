package postgres_test

import (
	"crypto/sha256"
	"testing"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/upload"
)

// The use of an upload whose process was killed, or whose lease has ended, is given back; a paused process
// cannot make a draft of it afterwards.
func TestCapability_UseEndsWithTheLeaseOfItsUpload(t *testing.T) {
	t.Parallel()
	dead, url := setup(t)
	alive := open(t, url)
	scope := tenants(t, dead, 1, 1000)[0]
	deadID := uuid.New()
	must(t, touch(t, dead, deadID, "v1"))
	must(t, touch(t, alive, uuid.New(), "v1"))
	hash := sha256.Sum256([]byte("nonce"))
	capability := upload.Capability{ID: hash[:], Count: 2, ExpiresAt: time.Now().Add(time.Hour)}
	uses := func(want int) {
		t.Helper()
		if got := number(t, url, `SELECT uses FROM capability_use`); got != int64(want) {
			t.Errorf("%d uses are taken, want %d", got, want)
		}
	}
	killed, slow, third := newUploading(scope, 10), newUploading(scope, 10), newUploading(scope, 10)
	must(t, dead.Uploads.OpenCountedUpload(t.Context(), killed.id, scope, capability, 10, time.Now().Add(time.Hour)))
	must(t, alive.Uploads.OpenCountedUpload(t.Context(), slow.id, scope, capability, 10, time.Now().Add(-time.Minute)))
	if err := alive.Uploads.OpenCountedUpload(t.Context(), third.id, scope, capability, 10, time.Now().Add(time.Hour)); !fault.Is(err, fault.InvalidSignature) {
		t.Errorf("a third upload: %v", err)
	}
	counts(t, url, 20, "bytes are reserved: the upload without a use has kept its own", `SELECT bytes FROM account_usage`)
	uses(2)
	statement(t, url, lapse, deadID)
	if n, err := alive.Uploads.EndUploadsOfDeadProcesses(t.Context(), 5, keysOf, time.Now()); err != nil || n != 1 {
		t.Fatalf("%d uploads were ended: %v", n, err)
	}
	uses(1)
	if n, err := alive.Items.ExpireUploads(t.Context(), time.Now(), 5, keysOf); err != nil || n != 1 {
		t.Fatalf("%d uploads have expired: %v", n, err)
	}
	uses(0)
	must(t, touch(t, dead, deadID, "v1"))
	if err := killed.commit(dead); !fault.Is(err, fault.NotFound) {
		t.Errorf("the process that was paused commits: %v", err)
	}
	must(t, alive.Uploads.OpenCountedUpload(t.Context(), third.id, scope, capability, 10, time.Now().Add(time.Hour)))
	must(t, third.commit(alive))
	uses(1)
	// The cap has no room: the use is not taken.
	if err := alive.Uploads.OpenCountedUpload(t.Context(), slow.id, scope, capability, 991, time.Now().Add(time.Hour)); !fault.Is(err, fault.QuotaExceeded) {
		t.Errorf("an upload over the cap: %v", err)
	}
	uses(1)
	// The count outlives the capability, and ends with the purge.
	for want, cutoff := range []time.Duration{time.Minute, 2 * time.Hour} {
		if n, err := alive.Items.DeleteExpiredCapabilities(t.Context(), time.Now().Add(cutoff), 5); err != nil || n != want {
			t.Errorf("%d counts were deleted, want %d: %v", n, want, err)
		}
	}
}
