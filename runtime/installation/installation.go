// Package installation is the domain package of the installation's identity: it decides whether
// this database may write to the object store. A database that was restored or cloned does not
// know of later changes, and the purge would remove files of sealed items. Every process asks
// Guard; postgres.Store and objectstore.Store implement the interfaces. See docs/decisions/0014.
package installation

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"

	"mediastack.dev/runtime/cell"
)

// Identity is what the marker of every bucket says about the installation.
type Identity struct {
	ID    uuid.UUID
	Epoch int64 // increases with every take-over and every resume after a restore
}

// State is the row of the installation.
type State struct {
	Identity
	Cell       cell.Number // fixed when the schema was made
	ClusterUID string      // UID of the namespace kube-system; empty until an operator is bound
	// LeaderTerm increases when a replica of the operator becomes the leader.
	LeaderTerm int64
	// Heartbeat increases while any process runs. Token is that of the last heartbeat.
	Heartbeat int64
	Token     uuid.UUID
	// HeartbeatAge is the time since the last heartbeat, by the database's clock.
	HeartbeatAge time.Duration
	// Server is the recorded server and database; empty until it is recorded. CurrentServer is the
	// one that responded.
	Server, CurrentServer Server
	// HoldReason says why nothing may be written to the object store; empty if it may.
	HoldReason string
	HeldAt     *time.Time
	// ResumedAt is when a restore was last confirmed; nil = never.
	ResumedAt *time.Time
}

// Witness returns what the markers that carry the heartbeat say after the next write.
func (s State) Witness() Witness {
	return Witness{InstallationID: s.ID, Epoch: s.Epoch, Heartbeat: s.Heartbeat, Token: s.Token}
}

// Witness is what the marker of a bucket says about the installation. A marker without a heartbeat
// has Heartbeat 0.
type Witness struct {
	InstallationID uuid.UUID `json:"installationID"`
	Epoch          int64     `json:"epoch"`
	Heartbeat      int64     `json:"heartbeat,omitempty"`
	Token          uuid.UUID `json:"token,omitzero"`
}

// MaxCounter is the highest epoch and heartbeat that is accepted from outside of the database. One
// heartbeat a second takes 285 million years to it, so that a higher one was edited; the next one
// after the maximum of the type would be negative.
const MaxCounter = 1 << 53

// ValidCounters reports whether epoch and heartbeat are numbers that a process can have written.
func (w Witness) ValidCounters() bool {
	return w.Epoch >= 0 && w.Epoch <= MaxCounter && w.Heartbeat >= 0 && w.Heartbeat <= MaxCounter
}

// Marker is the content of a bucket's marker.
type Marker struct {
	AccountID string `json:"accountID"`
	Namespace string `json:"namespace"` // of the MediaAccount
	Name      string `json:"name"`      // of the MediaAccount
	Witness
	// ClaimedAt is when the marker was written first, by the clock of the object store, which also
	// dates the objects. Those that are older are not the account's: the bucket was adopted. The
	// first version of a marker does not contain it: it is the time of that object.
	ClaimedAt time.Time `json:"claimedAt,omitzero"`
	// Version identifies the stored bytes. WriteWitness replaces only this version.
	Version string `json:"-"`
}

// Bucket is a bucket with the account that owns it.
type Bucket struct {
	AccountID uuid.UUID
	Name      string
	// Erasing: its account is being erased. Its marker, which is removed last, is read only.
	Erasing bool
}

// Runtimes are the replicas of the runtime that serve.
type Runtimes struct {
	Replicas int
	Versions []string // distinct, sorted
}

// Server identifies the server and the database. A component that is not known is empty.
type Server struct {
	System   string // system identifier of the PostgreSQL cluster; needs the right to read it
	Database string // oid of the database
}

const (
	systemPrefix   = "system="
	databasePrefix = "database="
)

// ParseServer returns the Server of a text that String returned.
func ParseServer(text string) (s Server) {
	for part := range strings.SplitSeq(text, " ") {
		if value, ok := strings.CutPrefix(part, systemPrefix); ok {
			s.System = value
		}
		if value, ok := strings.CutPrefix(part, databasePrefix); ok {
			s.Database = value
		}
	}
	return s
}

// String returns the components, as the row records them; empty if none is known.
func (s Server) String() string {
	var parts []string
	if s.System != "" {
		parts = append(parts, systemPrefix+s.System)
	}
	if s.Database != "" {
		parts = append(parts, databasePrefix+s.Database)
	}
	return strings.Join(parts, " ")
}

// Matches reports whether no known component differs.
func (s Server) Matches(other Server) bool {
	same := func(a, b string) bool { return a == "" || b == "" || a == b }
	return same(s.System, other.System) && same(s.Database, other.Database)
}

// Store is the row of the installation; Package postgres implements it. Errors are faults.
type Store interface {
	// CheckSchema returns a fault if the schema is not that of this program.
	CheckSchema(ctx context.Context) error
	// Installation returns the row, or a fault with reason OtherInstallation if its cell is not that
	// of the configuration.
	Installation(ctx context.Context) (State, error)
	// WitnessBuckets returns up to limit buckets that are owned by accounts with ids after the given
	// one, in the order of ids.
	WitnessBuckets(ctx context.Context, after uuid.UUID, limit int32) ([]Bucket, error)
	// RecordServer records the server unless one is recorded.
	RecordServer(ctx context.Context, server Server) error
	// AdvanceHeartbeat increases the heartbeat and sets its token, durably. It returns false if the
	// row is held, or has another heartbeat or token than from.
	AdvanceHeartbeat(ctx context.Context, from State, token uuid.UUID) (bool, error)
	// Hold records why nothing may be written to the object store. The first reason stays.
	Hold(ctx context.Context, reason string) error
}

// Markers are the markers of buckets; objectstore.Store implements it. Errors are faults.
type Markers interface {
	// Marker reads the marker of a bucket. NotFound without bucket or marker, Conflict if it cannot
	// be read as one.
	Marker(ctx context.Context, bucket string) (Marker, error)
	// WriteWitness replaces the witness of a marker that was read. Conflict if it has changed since.
	WriteWitness(ctx context.Context, bucket string, read Marker, witness Witness) error
	BucketExists(ctx context.Context, bucket string) (bool, error)
}
