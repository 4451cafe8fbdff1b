#!/usr/bin/env bash
# Usage: e2e.sh [GO TEST FLAGS]
#
# Runs the tests of the cluster program (hack/cluster), then the end-to-end tests (hack/test/cluster) in a
# cluster of their own, with the images of dist/e2e. KEEP=1 keeps the cluster of a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
export CGO_ENABLED=0 # the tests run in a pod, too, which has no libraries
cluster=$PWD/bin/mediastack-cluster

# With -v a line tells each test that ends: all of them take minutes.
go test -tags cluster -count=1 -timeout 10m -v "$@" ./hack/cluster
hack/in-cluster.sh e2e go test -tags cluster -count=1 -timeout 20m -v "$@" -exec "$cluster exec" ./hack/test/cluster
