package webfiles

import (
	"fmt"
	"time"

	"mediastack.dev/runtime/media"
)

// Config configures the files page. The tags are flag and environment names.
type Config struct {
	Enabled    bool          `name:"files-page" env:"SERVICE_FILES_PAGE" default:"true" negatable:"" help:"Serve /account/files, where owners see and change the files of their accounts after a login."`
	PerPage    int           `name:"files-per-page" env:"SERVICE_FILES_PER_PAGE" default:"48" help:"Files on one page of /account/files, from 1 to 100."`
	MaxShare   time.Duration `name:"files-max-share" env:"SERVICE_FILES_MAX_SHARE" default:"720h" help:"Longest time for which an owner can make a link to a private file on /account/files, up to 720h. Below 1h the page makes none."`
	MaxArchive int64         `name:"files-max-archive" env:"SERVICE_FILES_MAX_ARCHIVE" default:"4294967296" help:"Largest sum of files that an owner can download as one archive on /account/files, in bytes."`
	Archives   int           `name:"files-archives" env:"SERVICE_FILES_ARCHIVES" default:"8" help:"Archives that one replica sends at a time, from 1 to 1000. One account has a quarter of them at most, and at least one."`
}

// maxArchives bounds Config.Archives.
const maxArchives = 1000

// maxShare bounds Config.MaxShare.
const maxShare = 720 * time.Hour

// Validate checks the bounds.
func (c Config) Validate() error {
	if c.Enabled && (c.PerPage < 1 || c.PerPage > media.MaxLimit) {
		return fmt.Errorf("SERVICE_FILES_PER_PAGE must be from 1 to %d, not %d", media.MaxLimit, c.PerPage)
	}
	if c.MaxShare < 0 || c.MaxShare > maxShare {
		return fmt.Errorf("SERVICE_FILES_MAX_SHARE must be from 0s to %s, not %s", maxShare, c.MaxShare)
	}
	if c.MaxArchive < 0 {
		return fmt.Errorf("SERVICE_FILES_MAX_ARCHIVE must not be negative, but is %d", c.MaxArchive)
	}
	if c.Enabled && (c.Archives < 1 || c.Archives > maxArchives) {
		return fmt.Errorf("SERVICE_FILES_ARCHIVES must be from 1 to %d, not %d", maxArchives, c.Archives)
	}
	return nil
}
