package mediasettings

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/runtime/rendition"
)

// The status was written at every interval in which a single picture was made.
func TestCounts_ShowLargeChangesAtOnceAndSmallOnesLater(t *testing.T) {
	t.Parallel()
	const maxStorage = 1_000_000
	total := func(items, bytes int64) rendition.PresetTotal {
		return rendition.PresetTotal{Preset: "a", Items: items, Bytes: bytes}
	}
	for name, c := range map[string]struct {
		shown  v1alpha1.PresetStatus
		stored rendition.PresetTotal
		at     []bool // whether the status is written at the start, before an hour, and after it
	}{
		"the same":             {v1alpha1.PresetStatus{Ready: 3, Stale: 1, Bytes: 4000}, total(4, 4000), []bool{false, false, false}},
		"nothing":              {v1alpha1.PresetStatus{}, rendition.PresetTotal{}, []bool{false, false, false}},
		"the first one":        {v1alpha1.PresetStatus{}, total(1, 10), []bool{true}},
		"the last one":         {v1alpha1.PresetStatus{Stale: 1, Bytes: 10}, rendition.PresetTotal{}, []bool{true}},
		"one more":             {v1alpha1.PresetStatus{Ready: 3, Stale: 1, Bytes: 4000}, total(5, 5000), []bool{false, false, true}},
		"a percent of the cap": {v1alpha1.PresetStatus{Ready: 4, Bytes: 40_000}, total(3, 30_000), []bool{true}},
		"less than that":       {v1alpha1.PresetStatus{Ready: 4, Bytes: 40_000}, total(3, 30_001), []bool{false, false, true}},
		"other pictures":       {v1alpha1.PresetStatus{Ready: 4, Bytes: 4000}, total(5, 4000), []bool{false, false, true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changes, start := countChanges{later: time.Hour, since: map[types.NamespacedName]time.Time{}}, time.Now()
			c.shown.Name = "a"
			key := types.NamespacedName{Namespace: "team", Name: "site"}
			for i, want := range c.at {
				at := start.Add([]time.Duration{0, time.Hour - 1, time.Hour}[i])
				stored := func(preset string) rendition.PresetTotal {
					if preset == "a" {
						return c.stored
					}
					return rendition.PresetTotal{}
				}
				if got := changes.due(key, []v1alpha1.PresetStatus{{Name: "b"}, c.shown}, stored, maxStorage, at); got != want {
					t.Errorf("after %s: %v, want %v", at.Sub(start), got, want)
				}
			}
			if last := c.at[len(c.at)-1]; last && len(changes.since) > 0 {
				t.Error("what is shown is remembered as a change")
			}
		})
	}
}
