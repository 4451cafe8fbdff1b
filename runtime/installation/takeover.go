package installation

import (
	"time"

	"github.com/google/uuid"
)

// OpenAccount is an account that a take-over binds.
type OpenAccount struct {
	ID        uuid.UUID
	Namespace string // of the MediaAccount
	Name      string // of the MediaAccount
	Bucket    string
	Items     int64 // sealed items
	Bytes     int64 // what counts against the storage cap
}

// PlannedDeletion is a closed account whose media is deleted.
type PlannedDeletion struct {
	Account    uuid.UUID `json:"account"`
	Namespace  string    `json:"namespace"` // of the former MediaAccount
	Name       string    `json:"name"`
	Bucket     string    `json:"bucket"`
	ClosedAt   time.Time `json:"closedAt"`
	EraseAfter time.Time `json:"eraseAfter"`
	Erasing    bool      `json:"erasing"` // the deletion has begun
	Items      int64     `json:"items"`   // sealed items
	Bytes      int64     `json:"bytes"`   // what counts against the storage cap
}

// Takeover is the request to bind the installation to another cluster.
type Takeover struct {
	// ClusterUID is the cluster that takes over.
	ClusterUID string
	// OldClusterUID and OldEpoch are the values that were shown to the user. The take-over fails
	// with Conflict if the installation has others meanwhile.
	OldClusterUID string
	OldEpoch      int64
	// KnownEpoch is the epoch in the ConfigMap of the cluster that takes over; the new one is
	// above it.
	KnownEpoch int64
}
