package webfiles

import (
	"fmt"

	"mediastack.dev/runtime/media"
)

// Config configures the files page. The tags are flag and environment names.
type Config struct {
	Enabled bool `name:"files-page" env:"SERVICE_FILES_PAGE" default:"true" negatable:"" help:"Serve /account/files, where owners see and change the files of their accounts after a login."`
	PerPage int  `name:"files-per-page" env:"SERVICE_FILES_PER_PAGE" default:"24" help:"Files on one page of /account/files, from 1 to 100."`
}

// Validate checks the number of files on a page.
func (c Config) Validate() error {
	if c.Enabled && (c.PerPage < 1 || c.PerPage > media.MaxLimit) {
		return fmt.Errorf("SERVICE_FILES_PER_PAGE must be from 1 to %d, not %d", media.MaxLimit, c.PerPage)
	}
	return nil
}
