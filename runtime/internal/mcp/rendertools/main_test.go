package main

import (
	"bytes"
	"os"
	"testing"

	"mediastack.dev/hack/testenv/check"
)

// The table of tokens and the tasks for models are made from the file.
func TestRender_IsWhatIsCheckedIn(t *testing.T) {
	t.Parallel()
	got, err := render()
	check.NoError(t, err)
	want, err := os.ReadFile("../../../../hack/mcptasks/tools.json")
	check.NoError(t, err)
	if !bytes.Equal(got, want) {
		t.Error("hack/mcptasks/tools.json is out of date: make generate")
	}
}
