package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// moduleCommand writes a Go module as the files of a module proxy.
type moduleCommand struct {
	Version string `required:"" help:"Version of the module."`
	Created int64  `required:"" help:"Time of the commit, in seconds since 1970."`
	Module  string `arg:"" type:"existingdir" help:"Folder of the module."`
	Folder  string `arg:"" type:"path" help:"Folder to write to, which GOPROXY=file://... can name."`
}

// Run writes the list of versions, and of this version the information, the go.mod and the archive.
func (c *moduleCommand) Run() error {
	gomod, err := os.ReadFile(filepath.Join(c.Module, "go.mod"))
	if err != nil {
		return err
	}
	version := module.Version{Path: modfile.ModulePath(gomod), Version: c.Version}
	// A module of version 2 or later has another path, which every import must name.
	if err := module.Check(version.Path, version.Version); err != nil {
		return err
	}
	path, err := module.EscapePath(version.Path)
	if err != nil {
		return err
	}
	folder := filepath.Join(c.Folder, filepath.FromSlash(path), "@v")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{c.Version, time.Unix(c.Created, 0).UTC()})
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{"list": []byte(c.Version + "\n"), c.Version + ".info": info, c.Version + ".mod": gomod} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil {
			return err
		}
	}
	archive, err := os.Create(filepath.Join(folder, c.Version+".zip"))
	if err != nil {
		return err
	}
	if err := zip.CreateFromDir(archive, version, c.Module); err != nil {
		_ = archive.Close()
		return fmt.Errorf("module %s: %w", version, err)
	}
	return archive.Close()
}
