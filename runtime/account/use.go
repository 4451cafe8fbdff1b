package account

import "time"

// Use is what is recorded of the requests with a credential.
type Use struct {
	// At is the time of the latest one.
	At       time.Time
	Requests int64
}

// And returns both uses as one.
func (u Use) And(other Use) Use {
	if other.At.After(u.At) {
		u.At = other.At
	}
	u.Requests += other.Requests
	return u
}
