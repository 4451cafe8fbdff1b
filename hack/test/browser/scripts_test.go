package browser_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/node"
)

// scriptTimeout is for all that one script does. Other tests may run meanwhile.
const scriptTimeout = 12 * time.Minute

// scenario is what a script prints of each scenario, on a line.
type scenario struct {
	Scenario string
	Problem  string
	Took     float64 // seconds
	Note     string  // something that was measured
}

// runScript runs the scenarios of a script against the service; each becomes a test.
func (s *service) runScript(t *testing.T, script string, more map[string]any) {
	t.Helper()
	packages := node.New(t, "hack/test/browser")
	studio, both, galleries := owners()
	options := map[string]any{
		"browser": testenv.Program(t, "chromium"), "base": s.base, "api": s.api, "plain": s.plain, "hooks": s.testHooks(t),
		"front": s.front.Listener.Addr().String(), "people": studio, "owners": both, "galleries": galleries,
		"files": makeFiles(t),
	}
	for name, value := range more {
		options[name] = value
	}
	text, err := json.Marshal(options)
	must(t, err)
	result := packages.Run(t, scriptTimeout, packages.Script(t, script), string(text))
	count := 0
	for line := range strings.Lines(result.Stdout) {
		var one scenario
		if err := json.Unmarshal([]byte(line), &one); err != nil || one.Scenario == "" {
			t.Fatalf("%s printed %s", script, line)
		}
		count++
		t.Run(one.Scenario, func(t *testing.T) {
			t.Logf("%.1f s %s", one.Took, one.Note)
			if one.Problem != "" {
				t.Error(one.Problem)
			}
		})
	}
	if result.Code != 0 || count == 0 {
		t.Fatalf("%s ran %d scenarios and ended with %d: %s", script, count, result.Code, result.Stderr)
	}
}
