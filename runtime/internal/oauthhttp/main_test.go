package oauthhttp_test

import (
	"testing"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var must = check.NoError
