// Package check has the checks that tests of all packages make. It imports nothing of the project, so
// tests that need no server can use it.
package check

import "testing"

// NoError ends the test with the error, if there is one. Packages that call it often name it:
//
//	var must = check.NoError
func NoError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ErrorOf returns the error of a call whose value a test does not need: NoError(t, ErrorOf(call())).
func ErrorOf[T any](_ T, err error) error { return err }
