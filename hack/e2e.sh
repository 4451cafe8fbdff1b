#!/usr/bin/env bash
# Usage: e2e.sh [GO TEST FLAGS]
#
# Runs the tests of the cluster program (hack/cluster), then the end-to-end tests (hack/test/cluster) in a
# cluster of their own, with the images of dist/e2e. It stops the cluster afterwards, unless KEEP is set
# and a test has failed.
set -euo pipefail
cd "$(dirname "$0")/.."
export MEDIASTACK_CLUSTER_NAME=e2e
export CGO_ENABLED=0 # the tests run in a pod, too, which has no libraries
cluster=$PWD/bin/mediastack-cluster

"$cluster" check
go test -tags cluster -count=1 -timeout 10m "$@" ./hack/cluster
"$cluster" stop >/dev/null
stop() {
	local status=$?
	if ((status)) && [ -n "${KEEP:-}" ]; then
		echo "the cluster is kept: MEDIASTACK_CLUSTER_NAME=e2e bin/mediastack-cluster status" >&2
	else
		"$cluster" stop
	fi
}
trap stop EXIT
"$cluster" up
"$cluster" load dist/e2e/mediastack-{operator,runtime}-e2e-*.tar
go test -tags cluster -count=1 -timeout 20m "$@" -exec "$cluster exec" ./hack/test/cluster
