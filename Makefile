# mediastack. `make` alone lists what can be made; on a bare machine `make run` and `make test` set up everything themselves.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Everything but the image worker is pure Go, and no setting of the caller's may change what is built.
export CGO_ENABLED := 0
export GOWORK := off
# -trimpath everywhere, so that programs, tests and linters share what was compiled.
export GOFLAGS := -buildvcs=false -trimpath

export VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
CACHE := $(or $(MEDIASTACK_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/mediastack)
TOOLS := $(CACHE)/bin
SETUP := go run ./hack/cmd/setup
# What links libvips. Without cgo these packages don't exist, so the other steps pass them by.
CGO_PACKAGES := ./runtime/cmd/mediastack-imaging/... ./runtime/internal/imaging/vips/...

##@ Development
.PHONY: run stop status clean
run: build dev-services dev-stack running kube ## Start the whole stack and print lines to paste (DETACH=1 returns when it is ready, ARGS="--port 8080" passes flags)
	@exec bin/mediastack-dev run $(if $(DETACH),--detach) $(ARGS)

stop: bin/mediastack-dev ## End a stack that runs in this checkout
	@bin/mediastack-dev stop $(ARGS)

status: bin/mediastack-dev ## Say whether a stack runs, and print its lines
	@bin/mediastack-dev status $(ARGS)

clean: bin/mediastack-dev ## Remove the stack's data folder (refused while it runs)
	@bin/mediastack-dev clean $(ARGS)

# Ending a stack must not depend on a tree that builds.
bin/mediastack-dev:
	@$(SETUP) dev-stack

##@ Build
.PHONY: build generate fmt
build: ## Build the operator, the runtime and the image worker into bin/ (installs libvips-dev and a C compiler if need be)
	@$(SETUP) build

generate: tools ## Regenerate CRDs, deepcopy, RBAC, SQL and OpenAPI code
	$(TOOLS)/controller-gen object paths=./api/...
	$(TOOLS)/controller-gen crd paths=./api/... output:crd:dir=config/crd/bases
	$(TOOLS)/controller-gen rbac:roleName=mediastack-operator paths=./controllers/... output:rbac:dir=config/rbac
	cd runtime/postgres && $(TOOLS)/sqlc generate
	PATH="$(TOOLS):$$PATH" go generate ./api/... ./controllers/... ./runtime/...

fmt: lint-tool ## Format all Go code
	$(TOOLS)/golangci-lint fmt ./...

##@ Check
.PHONY: test test-race test-stores lint tidy verify bench crash vulncheck fuzz screenshots
# A package with the real parts takes a minute or two of a slow machine; a hang should not take an hour.
TEST_TIMEOUT ?= 15m
TEST_PACKAGES ?= ./...
test: packages kube minio tusd build dev-services dev-stack ## Run all tests, after setting up what they need (TEST_PACKAGES=./runtime/... narrows them)
	go test -count=1 -timeout $(TEST_TIMEOUT) $(TEST_PACKAGES)
	$(if $(filter ./...,$(TEST_PACKAGES)),CGO_ENABLED=1 go test -count=1 -timeout $(TEST_TIMEOUT) $(CGO_PACKAGES))

test-race: packages kube minio tusd build dev-services dev-stack ## Run all tests with the race detector (needs a C compiler)
	CGO_ENABLED=1 go test -race -count=1 -timeout $(TEST_TIMEOUT) $(TEST_PACKAGES)

# The stores of test-stores. versitygw is what all other tests run against.
STORES ?= minio $(if $(shell command -v radosgw),ceph)
STORE_PACKAGES := ./runtime/objectstore ./runtime/media ./runtime/internal/tus
test-stores: packages minio build dev-services ## Run the tests of objects, media and TUS against MinIO and, if it is installed, Ceph RGW (STORES="ceph" picks)
	@for store in $(STORES); do \
		echo "== $$store"; \
		MEDIASTACK_TEST_STORE=$$store go test -count=1 -p 1 -timeout 30m $(STORE_PACKAGES); \
	done
	@command -v radosgw > /dev/null || echo "Ceph RGW was left out: apt-get install --no-install-recommends ceph-mon ceph-osd radosgw"

lint: lint-tool libvips ## Look for mistakes and forbidden imports
	$(TOOLS)/golangci-lint run ./...
	@# With -trimpath, cgo's cached output would name the sources of whichever clone was built first.
	CGO_ENABLED=1 GOFLAGS=-buildvcs=false $(TOOLS)/golangci-lint run $(CGO_PACKAGES)
	cd hack/devservices && $(TOOLS)/golangci-lint run --config ../../.golangci.yml ./...

tidy: ## Tidy every module of the repository
	git ls-files -- 'go.mod' '*/go.mod' | while read -r mod; do (cd "$$(dirname "$$mod")" && go mod tidy); done

verify: ## Regenerate, format, tidy and lint; fail if that changes a file
	@hack/verify.sh

fuzz: ## Run every fuzz target for FUZZTIME (30s); FUZZ=regex narrows them
	@hack/fuzz.sh

bench: running build dev-services tusd ## Measure the service against the raw limits (ARGS="upload read" picks, ARGS=--help explains)
	go run ./hack/bench $(ARGS)

crash: running build dev-services ## Kill the service hundreds of times under load and prove that nothing was lost (ARGS="--seed 7 --kills 50")
	go run ./hack/test/chaos $(ARGS)

screenshots: packages build dev-services ## Take pictures of the login pages: docs/login.png, and every page in every state into PICTURES (screenshots/)
	BROWSER_SHEET=$(CURDIR)/docs/login.png BROWSER_PICTURES=$(abspath $(or $(PICTURES),screenshots)) go test -count=1 -timeout $(TEST_TIMEOUT) -run TestPages_AreAccessible ./hack/test/browser

vulncheck: ## Look for known vulnerabilities (asks the vulnerability database on the network)
	@$(SETUP) govulncheck
	$(TOOLS)/govulncheck ./...

##@ Set up
.PHONY: packages kube minio tusd dev-services dev-stack tools
packages: ## Install the Debian packages that are missing for the tests (root on Debian), or say which
	@$(SETUP) packages

kube: ## Build etcd, kube-apiserver and kubectl into the cache, unless KUBEBUILDER_ASSETS has them
	@$(SETUP) kube

minio: ## Build the MinIO server into the cache (tests only)
	@$(SETUP) minio

tusd: ## Build the tusd server into the cache (benchmarks only)
	@$(SETUP) tusd

dev-services: ## Build the dev stack's S3 store and mail sink into bin/
	@$(SETUP) dev-services

dev-stack: ## Build the program behind `make run` into bin/
	@$(SETUP) dev-stack

tools: ## Build the pinned generators and linters into the cache
	@$(SETUP) tools

.PHONY: lint-tool libvips running
libvips running:
	@$(SETUP) $@

lint-tool:
	@$(SETUP) golangci-lint

.PHONY: help
help: ## List what can be made
	@awk 'BEGIN { FS = ":.*## " } /^##@ / { printf "\n%s\n", substr($$0, 5) } /^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
