#!/usr/bin/env bash
# Usage: in-cluster.sh NAME COMMAND...
#
# Starts a cluster of that name with the images of dist/e2e, runs a command, and stops the cluster, unless KEEP
# is set and the command has failed.
set -euo pipefail
cd "$(dirname "$0")/.."
export MEDIASTACK_CLUSTER_NAME=$1
cluster=$PWD/bin/mediastack-cluster

"$cluster" stop >/dev/null
stop() {
	local status=$?
	if ((status)) && [ -n "${KEEP:-}" ]; then
		echo "the cluster is kept: MEDIASTACK_CLUSTER_NAME=$MEDIASTACK_CLUSTER_NAME bin/mediastack-cluster status" >&2
	else
		"$cluster" stop
	fi
}
trap stop EXIT
"$cluster" up
"$cluster" load dist/e2e/mediastack-{operator,runtime}-e2e-*.tar
"${@:2}"
