package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The loader takes what is in the image for the library of Debian: it has its name, exports its symbol, and no data.
func TestICUData_HasTheNameAndTheSymbolOfDebiansAndNoData(t *testing.T) {
	t.Parallel()
	found := 0
	for name, file := range fixtures["runtime"].base {
		if !strings.HasPrefix(filepath.Base(name), icuDataName) || file.target != "" {
			continue
		}
		found++
		if size := len(file.data); size == 0 || size > 100e3 {
			t.Errorf("%s has %d bytes", name, size)
		}
		written := filepath.Join(t.TempDir(), "library.so")
		if err := os.WriteFile(written, file.data, 0o600); err != nil {
			t.Fatal(err)
		}
		soname, symbol, err := icuData(written)
		if err != nil {
			t.Fatal(err)
		}
		wantName, wantSymbol, err := icuData("/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if soname != wantName || symbol != wantSymbol {
			t.Errorf("%s is %s with %s, and Debian's is %s with %s", name, soname, symbol, wantName, wantSymbol)
		}
	}
	if found != 1 {
		t.Errorf("the image has %d libraries of the data of ICU", found)
	}
	if sbom := string(read(t, fixtures["runtime"].sbom)); strings.Count(sbom, icuComment) != 1 {
		t.Errorf("the SBOM does not say that the library is another one")
	}
}

func TestICUData_OfAnotherLibraryIsAnError(t *testing.T) {
	t.Parallel()
	other, err := filepath.Glob("/usr/lib/*-linux-gnu/libicuuc.so.*")
	if err != nil || len(other) == 0 {
		t.Fatalf("there is no libicuuc: %v", err)
	}
	if _, err := emptyICUData(t.Context(), other[0], "amd64"); err == nil || !strings.Contains(err.Error(), "is not the data of ICU alone") {
		t.Errorf("%v", err)
	}
	if _, _, err := icuData(filepath.Join(t.TempDir(), "missing")); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("%v", err)
	}
}

func TestICUData_NeedsACompilerOfTheArchitecture(t *testing.T) {
	t.Parallel()
	data, err := filepath.Glob("/usr/lib/*-linux-gnu/" + icuDataName + "*")
	if err != nil || len(data) == 0 {
		t.Fatalf("there is no data of ICU: %v", err)
	}
	if _, err := emptyICUData(t.Context(), data[0], "riscv64"); err == nil || !strings.Contains(err.Error(), "no compiler for riscv64") {
		t.Errorf("%v", err)
	}
}
