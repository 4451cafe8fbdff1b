package installation

import (
	"fmt"

	"github.com/google/uuid"

	"mediastack.dev/runtime/installation"
)

// Record is what the ConfigMap beside the operator says about the installation.
type Record struct {
	InstallationID uuid.UUID
	ClusterUID     string
	Epoch          int64
}

// action is what the operator does next about the installation.
type action int

const (
	// proceed: both sides agree.
	proceed action = iota
	// bindRow: no cluster has used this database, and this one has used no other.
	bindRow
	// writeRecord: the row is this cluster's, and the ConfigMap is missing or behind.
	writeRecord
	// hold: the database is older than the ConfigMap, so it was restored.
	hold
	// stop: an administrator has to decide.
	stop
)

const (
	takeOverCommand = "mediastack-operator take-over"
	resumeCommand   = "mediastack-runtime resume-after-restore"
)

// decide compares this cluster and its record with the row in the database. The record is nil if
// there is no ConfigMap. For hold and stop, the text names both sides and the command.
func decide(clusterUID string, record *Record, row installation.State) (action, string) {
	switch {
	case record != nil && record.InstallationID != row.ID:
		return stop, fmt.Sprintf("the database has installation %s, but ConfigMap %s of this cluster names installation %s: "+
			"set SERVICE_DATABASE_URL to the database of installation %[3]s, or restore it; to use this database instead, run `%s`",
			row.ID, ConfigMapName, record.InstallationID, takeOverCommand)
	case row.ClusterUID != "" && row.ClusterUID != clusterUID:
		return stop, fmt.Sprintf("installation %s in the database is bound to cluster %s (epoch %d), but this cluster is %s: "+
			"if the other cluster is gone, run `%s`", row.ID, row.ClusterUID, row.Epoch, clusterUID, takeOverCommand)
	case row.ClusterUID == "" && record == nil:
		return bindRow, ""
	case row.ClusterUID == "" && record.ClusterUID != clusterUID:
		return stop, fmt.Sprintf("installation %s in the database is not bound to a cluster, but ConfigMap %s was copied from cluster %s, and this cluster is %s: run `%s`",
			row.ID, ConfigMapName, record.ClusterUID, clusterUID, takeOverCommand)
	case record != nil && record.ClusterUID == clusterUID && restored(*record, row):
		return hold, fmt.Sprintf("the database was restored: its epoch is %d, but ConfigMap %s has epoch %d", row.Epoch, ConfigMapName, record.Epoch)
	case row.HoldReason != "":
		return stop, onHold(row.ID, row.HoldReason)
	case row.ClusterUID == "":
		return bindRow, ""
	case record == nil || *record != recordOf(row):
		return writeRecord, ""
	}
	return proceed, ""
}

// restored reports whether the row is older than the record, and nobody knows it yet. A row
// without a cluster is older, unless its epoch shows that the restore was confirmed.
func restored(record Record, row installation.State) bool {
	return record.Epoch > row.Epoch || (row.ClusterUID == "" && record.Epoch == row.Epoch && row.HoldReason == "")
}

// recordOf returns the record of a row.
func recordOf(row installation.State) Record {
	return Record{InstallationID: row.ID, ClusterUID: row.ClusterUID, Epoch: row.Epoch}
}

// onHold returns the text about an installation that is on hold.
func onHold(id uuid.UUID, reason string) string {
	return fmt.Sprintf("installation %s is on hold: %s: run `%s`", id, reason, resumeCommand)
}
