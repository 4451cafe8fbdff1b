package upload

import "hash"

// SetHash sets the hash of files.
func (s *Service) SetHash(newHash func() hash.Hash) { s.newHash = newHash }
