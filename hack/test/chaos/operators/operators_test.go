package operators

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"mediastack.dev/hack/servers"
)

// A short run of what `make crash` does at length. The seed is another one each time; the output
// names it.
func TestRun_LosesNoAccountUnderFaults(t *testing.T) {
	klog.SetLogger(logr.Discard()) // client-go reports the API server that is killed
	parent := os.TempDir()
	if !servers.PostgresCanReach(parent) {
		parent = "/tmp"
	}
	var out bytes.Buffer
	err := Run(t.Context(), Options{Seed: uint64(time.Now().UnixNano()), Kills: 12, Clients: 4, Accounts: 40, Dir: parent}, &out)
	if err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
	t.Log(out.String())
}

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
