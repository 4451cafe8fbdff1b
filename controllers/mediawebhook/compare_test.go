package mediawebhook

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/runtime/webhook"
)

func TestComparison_ShowsWhatIsImportantAtOnceAndOthersLater(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 28, 12, 0, 0, 987654321, time.UTC)
	stored := webhook.State{Pending: 3, Oldest: at, LastAttempt: at, LastSuccess: at, LastStatus: 200, Tested: "t", Replayed: "r", Journal: true}
	for name, c := range map[string]struct {
		change func(*webhook.State)
		at     []bool // whether the status is written at the start, before an hour, and after it
	}{
		"the same":             {func(*webhook.State) {}, []bool{false, false, false}},
		"one more":             {func(s *webhook.State) { s.Pending = 4 }, []bool{false, false, true}},
		"the last one":         {func(s *webhook.State) { s.Pending = 0 }, []bool{true}},
		"another oldest":       {func(s *webhook.State) { s.Oldest = at.Add(time.Hour) }, []bool{false, false, true}},
		"another attempt":      {func(s *webhook.State) { s.LastAttempt, s.LastSuccess = at.Add(time.Hour), at.Add(time.Hour) }, []bool{false, false, true}},
		"another answer":       {func(s *webhook.State) { s.LastStatus = 204 }, []bool{false, false, true}},
		"a failure":            {func(s *webhook.State) { s.FailingSince = at }, []bool{true}},
		"an end":               {func(s *webhook.State) { s.Ended = true }, []bool{true}},
		"missed events":        {func(s *webhook.State) { s.Missed = at }, []bool{true}},
		"a queue that is full": {func(s *webhook.State) { s.Full = true }, []bool{true}},
		"a test":               {func(s *webhook.State) { s.Tested = "t2" }, []bool{true}},
		"a replay":             {func(s *webhook.State) { s.Replayed = "r2" }, []bool{true}},
		"a replay that failed": {func(s *webhook.State) { s.ReplayError = "no" }, []bool{true}},
		"a journal that ended": {func(s *webhook.State) { s.Journal = false }, []bool{true}},
		"a former key":         {func(s *webhook.State) { s.FormerKey = true }, []bool{true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			memory := comparison{later: time.Hour, since: map[types.UID]time.Time{}}
			shown, now, start := v1alpha1.MediaWebhookStatus{}, stored, time.Now()
			setState(&shown, stored)
			shown.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
			c.change(&now)
			for i, want := range c.at {
				after := []time.Duration{0, time.Hour - 1, time.Hour}[i]
				if got := memory.due("uid", shown, now, start.Add(after)); got != want {
					t.Errorf("after %s: %v, want %v", after, got, want)
				}
			}
			if last := c.at[len(c.at)-1]; last && len(memory.since) > 0 {
				t.Error("what is shown is remembered as a change")
			}
		})
	}
}

// A change that was taken back is no change that waits.
func TestComparison_ForgetsAChangeThatIsOver(t *testing.T) {
	t.Parallel()
	memory := comparison{later: time.Hour, since: map[types.UID]time.Time{}}
	shown, start := v1alpha1.MediaWebhookStatus{}, time.Now()
	setState(&shown, webhook.State{Pending: 3})
	for i, pending := range []int{4, 3, 4} {
		if memory.due("uid", shown, webhook.State{Pending: pending}, start.Add(time.Duration(i)*time.Hour)) {
			t.Errorf("%d pending are shown at once", pending)
		}
	}
}
