package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The commands run in the pod of the operator, by kubectl with the flags of the plug-in. Not parallel: it changes the PATH.
func TestQuarantine_RunsTheCommandOfTheOperator(t *testing.T) {
	s := newSetup(t)
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "kubectl"), []byte("#!/bin/sh\nprintf '%s\\n' \"$@\"\n[ \"$FAILS\" = '' ] || { echo 'error: forbidden' >&2; exit 1; }\n"), 0o700))
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	const id = "0199f3c2-5f0a-7c4e-8f5e-0d5a6f1b2c3d"
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"quarantine", "list", "-n", "team"}, "exec --namespace=mediastack-system deploy/mediastack-operator -- mediastack-operator quarantine list --output=table --namespace=team"},
		{[]string{"quarantine", "list", "-A", "-o", "json", "--operator-namespace", "media", "--operator", "op"}, "exec --namespace=media deploy/op -- mediastack-operator quarantine list --output=json"},
		{[]string{"quarantine", "release", id}, "exec --namespace=mediastack-system deploy/mediastack-operator -- mediastack-operator quarantine release " + id},
		{[]string{"quarantine", "delete", id}, "exec --namespace=mediastack-system deploy/mediastack-operator -- mediastack-operator quarantine delete " + id},
	} {
		code, out, log := s.call(c.args...)
		flag, rest, _ := strings.Cut(strings.Join(strings.Fields(out), " "), " ")
		if code != 0 || !strings.HasPrefix(flag, "--kubeconfig=") || rest != c.want {
			t.Errorf("%v: %d %s %s", c.args, code, out, log)
		}
	}
	if code, _, log := s.call("quarantine", "release", "x"); code != exitUsage {
		t.Errorf("with an id that is none: %d %s", code, log)
	}
	t.Setenv("FAILS", "1")
	if code, _, log := s.call("quarantine", "delete", id); code != exitFailed || !strings.Contains(log, "forbidden") {
		t.Errorf("a command that fails: %d %s", code, log)
	}
}
