package runtimetest_test

import (
	"fmt"
	"net/http"
	"testing"

	"mediastack.dev/runtime/internal/runtimetest"
)

func TestCheckStatus_SaysWhatCameAndWhatWasWanted(t *testing.T) {
	t.Parallel()
	var said []string
	fail := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	runtimetest.CheckStatus(t, fail, http.StatusOK, http.StatusOK, nil, "a list")
	runtimetest.CheckStatus(t, fail, http.StatusNotFound, http.StatusOK, []byte("gone"), "item %d", 7)
	if len(said) != 1 || said[0] != "item 7: the status is 404, want 200: gone" {
		t.Errorf("it said %q", said)
	}
}
