package main

import (
	"bytes"
	"context"
	"debug/elf"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

//go:embed icudata.c
var icuDataSource []byte

const (
	icuDataName   = "libicudata.so."
	icuDataSymbol = "_dat"   // after the name and the version of ICU
	icuPackage    = "libicu" // before its version
	icuComment    = "libicudata.so is not that of the package: it has no data, and was compiled with the image"
)

// replaceICUData replaces the data of ICU in an image by data with nothing in it.
//
// It is a fifth of the libraries, and no program of the image reads it: libvips links librsvg, which links
// libxml2, which links ICU, and none of the formats needs them. But the loader demands the file. ICU without
// data answers that a conversion is not available.
func replaceICUData(ctx context.Context, t tree, architecture string) error {
	for name, file := range t {
		if !strings.HasPrefix(filepath.Base(name), icuDataName) || file.source == "" {
			continue
		}
		library, err := emptyICUData(ctx, file.source, architecture)
		if err != nil {
			return fmt.Errorf("data of ICU: %w", err)
		}
		t[name] = entry{mode: file.mode, data: library}
	}
	return nil
}

// emptyICUData returns a library that the loader takes for Debian's library of the data of ICU, without the data.
func emptyICUData(ctx context.Context, original, architecture string) ([]byte, error) {
	soname, symbol, err := icuData(original)
	if err != nil {
		return nil, err
	}
	compiler := "gcc"
	if architecture != runtime.GOARCH {
		triplet, ok := map[string]string{"arm64": "aarch64-linux-gnu", "amd64": "x86_64-linux-gnu"}[architecture]
		if !ok {
			return nil, fmt.Errorf("there is no compiler for %s", architecture)
		}
		compiler = triplet + "-gcc"
	}
	folder, err := os.MkdirTemp("", "icudata-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	library := filepath.Join(folder, "library.so")
	// Without the libraries and start files of C, which it does not need, and without what differs from machine to machine.
	command := exec.CommandContext(ctx, compiler, "-x", "c", "-Wall", "-Werror", "-Os", "-ffreestanding", "-fPIC", "-fno-asynchronous-unwind-tables", "-shared", "-nostdlib", "-s",
		"-Wl,--build-id=none", "-Wl,-z,noexecstack", "-Wl,-soname,"+soname, "-DENTRY_POINT="+symbol, "-o", library, "-")
	command.Stdin = bytes.NewReader(icuDataSource)
	if out, err := command.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", compiler, err, out)
	}
	return os.ReadFile(library)
}

// icuData returns the name by which the loader knows a library of the data of ICU, and the one symbol that it exports.
func icuData(path string) (soname, symbol string, err error) {
	library, err := elf.Open(path)
	if err != nil {
		return "", "", err
	}
	defer func() { _ = library.Close() }()
	names, err := library.DynString(elf.DT_SONAME)
	if err != nil || len(names) != 1 {
		return "", "", fmt.Errorf("%s has the names %q (%w)", path, names, err)
	}
	all, err := library.DynamicSymbols()
	if err != nil {
		return "", "", err
	}
	for _, one := range all {
		// Libraries for arm64 list their sections, too, as local symbols without a name.
		if one.Section == elf.SHN_UNDEF || elf.ST_BIND(one.Info) == elf.STB_LOCAL {
			continue
		}
		if symbol != "" || !strings.HasPrefix(one.Name, "icudt") || !strings.HasSuffix(one.Name, icuDataSymbol) {
			return "", "", fmt.Errorf("%s exports %s, which is not the data of ICU alone", path, one.Name)
		}
		symbol = one.Name
	}
	if symbol == "" {
		return "", "", fmt.Errorf("%s exports no data of ICU", path)
	}
	return names[0], symbol, nil
}
