package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The packages of another architecture are downloaded with a configuration of apt that has the proxies of the machine. Blocks of
// several lines, as appstream and apt-file install them, once were copied in part, and all that followed became a part of them.
func TestSysroot_ConfigurationOfAptMayHaveBlocks(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	machine, seen := filepath.Join(folder, "machine.conf"), filepath.Join(folder, "seen.conf")
	if err := os.WriteFile(machine, []byte(`
Acquire::IndexTargets {
    deb::DEP-11 { MetaKey "$(COMPONENT)/dep11/Components.yml"; };
};
Acquire { http { Proxy "http://proxy.example.org:3128"; }; };
`), 0o600); err != nil {
		t.Fatal(err)
	}
	// It keeps the configuration, and downloads nothing.
	for name, script := range map[string]string{"apt-get": "cp \"$APT_CONFIG\" '" + seen + "'; exit 1", "aarch64-linux-gnu-gcc": "exit 1"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.CommandContext(t.Context(), "../sysroot.sh", "arm64", filepath.Join(folder, "root"))
	command.Env = append(os.Environ(), "PATH="+folder+":"+os.Getenv("PATH"), "APT_CONFIG="+machine)
	if out, err := command.CombinedOutput(); err == nil || !strings.Contains(string(out), "the lists of packages for arm64 could not be downloaded") {
		t.Fatalf("%v: %s", err, out)
	}
	command = exec.CommandContext(t.Context(), "apt-config", "dump")
	command.Env = append(os.Environ(), "APT_CONFIG="+seen)
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`APT::Architecture "arm64";`, `Dir::Cache "` + folder, `Dir::State::status "` + folder, `Acquire::http::Proxy "http://proxy.example.org:3128";`} {
		if !strings.Contains("\n"+string(out), "\n"+want) {
			t.Errorf("the configuration lacks %s", want)
		}
	}
	if strings.Contains(string(out), "Components.yml") {
		t.Error("it downloads the indexes of other programs")
	}
	if left, err := filepath.Glob(filepath.Join(folder, "root*")); err != nil || len(left) != 1 { // its lock
		t.Errorf("it leaves %q (%v)", left, err)
	}
}
