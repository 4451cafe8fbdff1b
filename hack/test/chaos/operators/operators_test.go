package operators

import (
	"strings"
	"testing"
	"time"
)

func TestSeed_FixesTheSchedule(t *testing.T) {
	t.Parallel()
	schedule := func(seed uint64) string {
		s := newSchedule(&environment{operators: []*operator{{name: "A"}, {name: "B"}}}, newModel(time.Now(), 1), seed)
		var names []string
		for range 50 {
			names = append(names, s.Pick().Name)
		}
		return strings.Join(names, ",")
	}
	first := schedule(1)
	if again := schedule(1); first != again || first == schedule(2) {
		t.Error("the schedule does not follow from the seed")
	}
}
