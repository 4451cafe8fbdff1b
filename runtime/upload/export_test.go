package upload

import (
	"hash"
	"time"
)

// SetHash sets the hash of files.
func (s *Service) SetHash(newHash func() hash.Hash) { s.newHash = newHash }

// SetUnclaimedTimeout sets how long requests wait for a process that can make the derivatives.
func (d *Derivatives) SetUnclaimedTimeout(timeout time.Duration) { d.unclaimedTimeout = timeout }
