package rendition

import "time"

// ErrYields is the error of Ready after a newer encoder was found.
var ErrYields = errYields

// Waiting returns how many requests wait for jobs.
func (s *Service) Waiting() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		n += j.users
	}
	return n
}

// Held returns how many data slots are held.
func (s *Service) Held() int { return s.dataSlots.InFlight() }

// UnstoredBytes returns the bytes of the renditions that could not be stored, and are kept.
func (s *Service) UnstoredBytes() int64 {
	s.unstored.mu.Lock()
	defer s.unstored.mu.Unlock()
	return s.unstored.all.bytes
}

// SetDataSlotWait sets how long a job waits for a data slot. No job begins meanwhile.
func (s *Service) SetDataSlotWait(wait time.Duration) { s.dataSlotWait = wait }

// SetShutdownGrace sets how long jobs may take to end at a shutdown.
func (s *Service) SetShutdownGrace(grace time.Duration) { s.shutdownGrace = grace }

// SetClaimWait sets how long an image worker is kept while pictures are claimed.
func (e *Eager) SetClaimWait(wait time.Duration) { e.claimWait = wait }

// EndYield lets tasks be claimed again after a newer encoder was found.
func (e *Eager) EndYield() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.yieldsTill = time.Time{}
}
