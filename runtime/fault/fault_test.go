package fault_test

import (
	"errors"
	"fmt"
	"testing"

	"mediastack.dev/runtime/fault"
)

func TestFrom_FindsTheFaultInAChain(t *testing.T) {
	t.Parallel()
	cause := errors.New("duplicate key")
	err := fmt.Errorf("create: %w", fault.Wrap(cause, fault.Conflict, "name %q is taken", "a"))
	f := fault.From(err)
	if f.Kind != fault.Conflict || f.Public != `name "a" is taken` || !errors.Is(err, cause) || !fault.Is(err, fault.Conflict) || fault.Is(err, fault.Invalid) {
		t.Errorf("%+v", f)
	}
	if fault.Wrap(nil, fault.Conflict, "") != nil {
		t.Error("a nil cause became an error")
	}
}

func TestFrom_ReturnsInternalForUnclassifiedErrors(t *testing.T) {
	t.Parallel()
	for _, err := range []error{nil, errors.New("dial tcp: secret.internal")} {
		if f := fault.From(err); f.Kind != fault.Internal || f.Public != "" {
			t.Errorf("%v: %+v", err, f)
		}
	}
}

func TestKindString_NamesEveryKind(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for kind := fault.Internal; kind <= fault.FileLost; kind++ {
		if name := kind.String(); name == "" || seen[name] {
			t.Errorf("kind %d is named %q", kind, name)
		}
		seen[kind.String()] = true
	}
	if fault.InvalidSignature.String() != "invalid signature" || fault.QuotaExceeded.String() != "quota exceeded" || fault.Unavailable.String() != "unavailable" {
		t.Error("the names are not in the order of the kinds")
	}
	if fault.Kind(99).String() != "internal" {
		t.Error("an unknown kind has a name of its own")
	}
}
