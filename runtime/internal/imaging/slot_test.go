package imaging

import (
	"testing"

	"github.com/google/uuid"

	"mediastack.dev/runtime/fairlimit"
)

func TestQueueSlot_IsReleasedOnce(t *testing.T) {
	t.Parallel()
	limiter := fairlimit.New[uuid.UUID](fairlimit.Config{Limit: 2, PerKey: 2})
	slots := make([]*queueSlot, 2)
	for i := range slots {
		slots[i] = &queueSlot{limiter: limiter, account: uuid.UUID{1}}
		if slots[i].Contended() {
			t.Error("contended while a slot is free")
		}
		if err := limiter.TryAcquire(slots[i].account); err != nil {
			t.Fatal(err)
		}
	}
	if !slots[0].Contended() {
		t.Error("not contended while all slots are held")
	}
	slots[0].Release()
	slots[0].Release()
	if n := limiter.InFlight(); n != 1 {
		t.Errorf("%d slots are held after one was released twice, want 1", n)
	}
}
