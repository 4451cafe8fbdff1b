#!/usr/bin/env bash
# Usage: zero-loss.sh [FLAGS OF mediastack-zeroloss]
#
# Runs the zero-loss test (hack/test/zeroloss) in a cluster of its own, with the images of dist/e2e. It stops
# the cluster afterwards, unless KEEP is set and the test has failed.
set -euo pipefail
cd "$(dirname "$0")/.."
export MEDIASTACK_CLUSTER_NAME=zeroloss
cluster=$PWD/bin/mediastack-cluster

"$cluster" check
"$cluster" stop >/dev/null
stop() {
	local status=$?
	if ((status)) && [ -n "${KEEP:-}" ]; then
		echo "the cluster is kept: MEDIASTACK_CLUSTER_NAME=zeroloss bin/mediastack-cluster status" >&2
	else
		"$cluster" stop >/dev/null
	fi
}
trap stop EXIT
"$cluster" up >/dev/null
"$cluster" load dist/e2e/mediastack-{operator,runtime}-e2e-*.tar >/dev/null
"$cluster" exec bin/mediastack-zeroloss run "$@"
