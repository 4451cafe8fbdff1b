package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mediastack.dev/hack/testenv"
)

// toolAnswer is a JSON-RPC response, as far as the guide's example shows it.
type toolAnswer struct {
	Result struct {
		Tools             []any
		IsError           bool
		StructuredContent struct {
			MediaID, OriginalFileName string
			Temp                      bool
		}
	}
}

// The example of the guide "Connect an assistant", as it is printed there.
func TestAssistantGuide_UploadsAndSealsAFile(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(testenv.RepoRoot(t), "docs", "guides", "connect-an-assistant.md"))
	must(t, err)
	_, script, _ := strings.Cut(string(page), "```sh TestAssistantGuide_UploadsAndSealsAFile\ncall() {")
	script, _, found := strings.Cut(script, "\n```")
	if !found {
		t.Fatal("the guide has no example")
	}
	s := newService(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), clientTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", "call() {"+script)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "URL="+strings.TrimSuffix(s.url(), "/mcp"), "KEY=x-service-apikey: "+s.key)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s\n%s", err, out, stderr.String())
	}
	var answers []toolAnswer
	for decoder := json.NewDecoder(bytes.NewReader(out)); decoder.More(); {
		var next toolAnswer
		must(t, decoder.Decode(&next))
		answers = append(answers, next)
	}
	if len(answers) != 3 {
		t.Fatalf("it printed %s", out)
	}
	if tools := answers[0].Result.Tools; len(tools) != 10 {
		t.Errorf("it lists %d tools", len(tools))
	}
	draft, sealed := answers[1].Result, answers[2].Result
	if draft.IsError || sealed.IsError || draft.StructuredContent.MediaID == "" || sealed.StructuredContent.MediaID != draft.StructuredContent.MediaID ||
		sealed.StructuredContent.OriginalFileName != "note.txt" || sealed.StructuredContent.Temp {
		t.Errorf("it printed %s", out)
	}
}
