package operator

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"mediastack.dev/runtime/fault"
)

// A store that rejects every request makes the operator not ready, and the text says why. Once it has accepted one, and for any other
// failure, the operator stays ready.
func TestObjectCheck_NamesWhatTheStoreRejects(t *testing.T) {
	t.Parallel()
	because := func(reason fault.Reason, detail string) error {
		return fault.Explain(fault.Wrap(errors.New("s3: ping"), fault.Unavailable, "the object store can't be reached"), reason, detail)
	}
	for name, c := range map[string]struct {
		err  error
		says string // empty: it is ready
	}{
		"a missing permission": {because(fault.Credentials, "ping: AccessDenied"), "the object store rejects the credentials (ping: AccessDenied)"},
		"a wrong region":       {because(fault.Region, "ping: PermanentRedirect: SERVICE_S3_REGION is a, the store expects b"), "expects another region than SERVICE_S3_REGION (ping: PermanentRedirect: SERVICE_S3_REGION is a, the store expects b)"},
		"a skewed clock":       {because(fault.Clock, "ping: RequestTimeTooSkewed"), "clock"},
		"a store that is away": {because("", ""), ""},
		"a full store":         {because(fault.StoreFull, "ping: QuotaExceeded"), ""},
		"no error":             {nil, ""},
	} {
		check := &objectCheck{verified: func(*http.Request) error { return nil }, ping: func(context.Context) error { return c.err }}
		err := check.Ready(httptest.NewRequest(http.MethodGet, "/readyz", http.NoBody))
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		if c.says != "" && !strings.Contains(name, "permission") && strings.Contains(err.Error(), "credentials") {
			t.Errorf("%s blames the credentials: %v", name, err)
		}
	}
}
