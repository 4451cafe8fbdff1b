package imaging

import "time"

// SetTimeout sets the timeout of the next attempt. The pool has one worker, which calls it: in the source of a job.
func (p *Pool) SetTimeout(timeout time.Duration) { p.cfg.Timeout = timeout }

// SetCloseGrace sets how long running jobs may take to end when the pool is closed, and EndCloseGrace ends that time.
func (p *Pool) SetCloseGrace(grace time.Duration) { p.closeGrace = grace }

// EndCloseGrace kills the jobs that still run.
func (p *Pool) EndCloseGrace() { p.kill() }
