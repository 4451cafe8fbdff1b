package media_test

import (
	"log/slog"
	"testing"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/runtime/internal/runtimetest"
	"mediastack.dev/runtime/internal/runtimetest/mediatest"
)

// discard is a log that no test reads.
var discard = slog.New(slog.DiscardHandler)

func TestMain(m *testing.M) { testenv.Main(m) }

// harness is a database, a bucket and a replica that uses them.
type harness struct{ *mediatest.Harness }

func setup(t *testing.T) *harness {
	t.Helper()
	return &harness{mediatest.New(t)}
}

// What runs a whole upload, deletes an item with an API key, and makes a file.
var (
	uploadFile = runtimetest.Upload
	deleteItem = runtimetest.DeleteItem
	random     = runtimetest.Noise
)

var must = check.NoError
