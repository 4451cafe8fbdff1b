package pages_test

import (
	"errors"
	"fmt"
	"testing"

	"mediastack.dev/runtime/internal/oauthhttp/pages"
	"mediastack.dev/runtime/oauth"
)

func TestErrorText_HasASentenceForEveryReason(t *testing.T) {
	t.Parallel()
	for _, reason := range oauth.Reasons() {
		if text, ok := pages.ErrorText(fmt.Errorf("wrapped: %w", reason.Fault())); !ok || text == "" {
			t.Errorf("%s has no sentence", reason)
		}
	}
	if text, ok := pages.ErrorText(errors.New("another error")); ok {
		t.Errorf("another error is shown as %q", text)
	}
}
