# mediastack. `make` alone lists the targets. On a bare machine `make run` and `make test` install and build what they need.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Everything but the image worker is pure Go. Settings of the caller must not change what is built.
export CGO_ENABLED := 0
export GOWORK := off
export GOOS :=
export GOARCH :=
# -trimpath everywhere, so that programs, tests and linters share the build cache.
export GOFLAGS := -buildvcs=false -trimpath

export VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
# The commit, and its time in seconds since 1970: the images have both.
REVISION = $(shell git describe --always --abbrev=40 --exclude='*' --dirty 2>/dev/null || echo unknown)
COMMITTED = $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
# Folders of the programs, and of the images and releases.
BIN ?= bin
export DIST ?= dist
CACHE := $(abspath $(or $(MEDIASTACK_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/mediastack))
TOOLS := $(CACHE)/bin
# Packages that link libvips. They need cgo, so the other steps exclude them.
CGO_PACKAGES := ./runtime/cmd/mediastack-imaging/... ./runtime/internal/imaging/vips/...

##@ Development
.PHONY: run stop status clean cluster cluster-stop
run: build dev-services dev-stack running $(if $(CLUSTER),,kube) ## Start the dev stack and print commands that use it (DETACH=1 returns when it is ready, CLUSTER=1 uses the current cluster of kubectl, ARGS="--port 8080" passes flags)
	@exec bin/mediastack-dev run $(if $(DETACH),--detach) $(if $(CLUSTER),--cluster="$(CLUSTER)") $(ARGS)

stop: bin/mediastack-dev ## Stop the dev stack of this checkout
	@bin/mediastack-dev stop $(ARGS)

status: bin/mediastack-dev ## Print whether the dev stack runs, and its commands
	@bin/mediastack-dev status $(ARGS)

clean: bin/mediastack-dev ## Remove the data of the dev stack (fails while it runs)
	@bin/mediastack-dev clean $(ARGS)

cluster: cluster-check cluster-duration cluster-programs dev-services ## Start a real Kubernetes cluster of two nodes, with PostgreSQL and an S3 store beside it (as root)
	@bin/mediastack-cluster up $(ARGS)

cluster-stop: bin/mediastack-cluster ## Stop the cluster of this checkout and remove all of it
	@bin/mediastack-cluster stop $(ARGS)

##@ Build
.PHONY: build images release sysroot generate client-types api-viewer fmt
build: libvips ## Build the operator, the runtime and the image worker into bin/ (installs libvips-dev and a C compiler if they are missing)
	@hack/go-build.sh "operator and runtime" -ldflags "-s -w -X main.version=$(VERSION)" -o $(BIN)/ ./controllers/cmd/... ./runtime/cmd/mediastack-runtime
	@CGO_ENABLED=1 hack/go-build.sh "image worker" -ldflags "-s -w -X main.version=$(VERSION)" -o $(BIN)/ ./runtime/cmd/mediastack-imaging

images: build ## Build the container images into dist/, with a software bill of materials (SPDX) each
	@# The archives of other versions are removed.
	rm -f $(DIST)/mediastack-operator-* $(DIST)/mediastack-runtime-*
	go -C hack/images build -o $(abspath $(BIN))/mediastack-images .
	$(BIN)/mediastack-images build --bin $(BIN) --out $(DIST) --version $(VERSION) --revision $(REVISION) --created $(COMMITTED)

release: ## Write everything of a release into dist/ (VERSION=v0.1.0; PLATFORMS=all is for all platforms instead of that of this machine; SIGNING_KEY=cosign.key signs; REGISTRY names one; NIGHTLY=skip goes on without make nightly)
	@PLATFORMS="$(PLATFORMS)" hack/release-check.sh "$(VERSION)"
	@$(MAKE) kubectl helm
	@KUBECTL=$(or $(KUBEBUILDER_ASSETS),$(KUBE))/kubectl HELM=$(TOOLS)/helm PLATFORMS="$(PLATFORMS)" SIGNING_KEY="$(SIGNING_KEY)" REGISTRY="$(REGISTRY)" REVISION=$(REVISION) COMMITTED=$(COMMITTED) \
		hack/release.sh "$(VERSION)"

sysroot: ## Download the packages of Debian that the image for arm64 is made of, into the cache (REFRESH=1 downloads them again)
	@hack/sysroot.sh arm64 $(CACHE)/sysroot/arm64

generate: tools helm ## Regenerate CRDs and their reference, deepcopy, RBAC, SQL and OpenAPI code, the chart's copies of them, what config/ has of the chart, and the tables of operations, settings and metrics
	go run ./hack/operations .
	$(TOOLS)/controller-gen object paths=./api/...
	$(TOOLS)/controller-gen crd paths=./api/... output:crd:dir=config/crd/bases
	cp config/crd/bases/*.yaml charts/mediastack/files/crds/
	go run ./hack/chartdocs charts/mediastack
	$(TOOLS)/crd-ref-docs --log-level=error --source-path=api/v1alpha1 --config=hack/tools/crd-ref-docs/config.yaml --templates-dir=hack/tools/crd-ref-docs/templates --renderer=markdown --output-path=docs/reference/api.md
	$(TOOLS)/controller-gen rbac:roleName=mediastack-operator paths=./controllers/... output:rbac:dir=config/rbac
	cd runtime/postgres && $(TOOLS)/sqlc generate
	PATH="$(TOOLS):$$PATH" go generate ./api/... ./controllers/... ./runtime/...
	go run ./hack/metrics .
	go run ./runtime/internal/mcp/rendertools > hack/mcptasks/tools.json.new && mv hack/mcptasks/tools.json.new hack/mcptasks/tools.json
	go run ./hack/tooltokens .
	go run ./hack/kustomization . $(TOOLS)/helm
	go run ./runtime/internal/api/renderspec > clients/openapi.json
	PATH="$(TOOLS):$$PATH" go -C clients/go generate ./...

client-types: ## Regenerate the types of the TypeScript client from clients/openapi.json (needs npm)
	cd clients/typescript && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && npm run --silent generate

api-viewer: ## Vendor the pinned Swagger UI of the API reference (needs npm)
	@hack/api-viewer.sh

fmt: golangci-lint ## Format all Go code
	$(TOOLS)/golangci-lint fmt ./...

##@ Check
.PHONY: mcp-tasks test test-race presubmit presubmit-plain presubmit-race nightly flaky suite-times test-programs test-modules test-images test-arm64 test-pages e2e zero-loss reproduce test-stores test-erasure test-migrations test-operator test-bodies test-requests test-views test-cdn lint vocabulary tidy verify bench crash vulncheck fuzz screenshots preset-pictures
# A package with real servers takes a minute or two on a slow machine; a hang should not take an hour.
TEST_TIMEOUT ?= 15m
TEST_PACKAGES ?= ./...
# With RERUNS=1 a test that failed runs once more, alone, and is listed as failed either way: so CI shows an unstable test
# without the loss of a whole run. More than three failures, a panic or a data race are final.
RERUNS ?=
# A file for the events of the tests (go test -json), with RERUNS only: those of a test that ran again are in it, too.
EVENTS ?=
# One process serves the packages of a run: PostgreSQL, the S3 stores, an API server with its controllers.
SERVED := bin/mediastack-testenv
TEST_FLAGS = -count=1 -timeout $(TEST_TIMEOUT) -p $(TEST_PACKAGES_AT_A_TIME) -parallel $(TEST_PARALLEL)
# What presubmit leaves out: go vet, since make lint runs govet, and the symbols of debuggers, which take time to link.
presubmit-plain presubmit-race: TEST_FLAGS += -vet=off -ldflags=-w
# Half of the time of a test is waiting for servers, so tests run beside each other: some of a package, and more packages
# than there are processors.
TEST_PARALLEL ?= 4
TEST_PACKAGES_AT_A_TIME ?= $(shell echo $$(($$(nproc) + 1)))
# Compilers, linkers and tests collect garbage less often than by default: they lack processor time, not memory.
TEST_GOGC ?= 400
# go test begins with the packages that are named first: no long one is left alone at the end.
LONG := controllers/operator hack/test/browser hack/bench hack/test/examples runtime/postgres hack/test/proxy runtime/internal/imaging runtime/media runtime/upload hack/test/cdn \
	runtime/cmd/mediastack-runtime hack/test/clients/typescript charts hack/test/clients/react hack/test/clients/release hack/test/clients/tus hack/test/clients/mcp hack/test/clients/go \
	hack/test/e2e hack/test/chaos hack/test/upgrade hack/test/restore hack/test/monitoring hack/presetpictures runtime/internal/rest
long_first = $(foreach long,$(LONG:%=mediastack.dev/%),$(filter $(long),$(1))) $(filter-out $(LONG:%=mediastack.dev/%),$(1))
# go_test runs go test on packages, unless there are none: $(call go_test,FLAGS,PACKAGES)
go_test = $(if $(strip $(2)),GOGC=$(TEST_GOGC) $(SERVED) $(if $(RERUNS),$(TOOLS)/gotestsum --format standard-quiet --hide-summary skipped --rerun-fails=$(RERUNS) --rerun-fails-max-failures 3 --rerun-fails-abort-on-data-race $(if $(EVENTS),--jsonfile "$(EVENTS)") --packages "$(2)" -- $(TEST_FLAGS) $(1),go test $(TEST_FLAGS) $(1) $(2)))
# Packages that link libvips are excluded: make exports no variable to $(shell).
go_list = $(shell CGO_ENABLED=0 GOWORK=off GOOS= GOARCH= go list $(1))
# Tests that take minutes, of what a change seldom breaks: presubmit leaves them to `make nightly`.
NIGHTLY_PACKAGES := ./hack/test/restore ./hack/test/monitoring ./hack/test/browser ./hack/test/examples ./hack/test/clients/next ./hack/presetpictures ./hack/bench
# Goroutines share memory in the operator and the runtime, so presubmit tests the packages that they are made of with the
# race detector. Not the suites that send requests to whole programs, nor that of the image workers, which are processes:
# with it they take as long as all others together.
RACE_PACKAGES = $(filter $(call go_list,$(TEST_PACKAGES)),$(call go_list,./controllers/... ./runtime/... | grep -v -E '/cmd/|/controllers/operator$$|/runtime/consistency$$|/runtime/internal/(rest|mcp|tus|oauthhttp|webfiles|imaging)$$'))
PLAIN_PACKAGES = $(filter-out $(RACE_PACKAGES) $(call go_list,$(NIGHTLY_PACKAGES)),$(call go_list,$(TEST_PACKAGES)))

test: test-programs ## Run all tests (TEST_PACKAGES=./runtime/... selects packages)
	$(call go_test,,$(call long_first,$(call go_list,$(TEST_PACKAGES))))
	$(if $(filter ./...,$(TEST_PACKAGES)),@$(MAKE) test-modules)

test-race: test-programs ## Run all tests with the race detector (needs a C compiler)
	CGO_ENABLED=1 $(call go_test,-race,$(call long_first,$(call go_list,$(TEST_PACKAGES))))

# The second half runs although the first one has failed.
RACE_EVENTS = $(if $(EVENTS),$(basename $(EVENTS))-race.json)
presubmit: ## Run the tests that CI runs, each once: those of the packages that programs are made of with the race detector
	@status=0; \
	$(MAKE) presubmit-plain || status=$$?; \
	$(MAKE) presubmit-race EVENTS="$(RACE_EVENTS)" || status=$$?; \
	$(if $(EVENTS),[ ! -e "$(RACE_EVENTS)" ] || { cat "$(RACE_EVENTS)" >>"$(EVENTS)" && rm "$(RACE_EVENTS)"; } || status=$$?;) \
	exit $$status

presubmit-plain: test-programs
	$(call go_test,,$(call long_first,$(PLAIN_PACKAGES)))
	$(if $(filter ./...,$(TEST_PACKAGES)),@$(MAKE) test-modules)

presubmit-race: test-programs
	CGO_ENABLED=1 $(call go_test,-race,$(call long_first,$(RACE_PACKAGES)))

# What the tests need.
test-programs: packages kube minio tusd helm kube-score promtool prometheus $(if $(RERUNS),gotestsum) build dev-services dev-stack
	go build -o $(SERVED) ./hack/testenv/run

# The tests of other modules, and those of the packages that link libvips.
test-modules:
	go -C hack/gitops test -count=1 ./...
	go -C clients/go test -count=1 ./...
	CGO_ENABLED=1 go test $(TEST_FLAGS) $(CGO_PACKAGES)

# RERUNS=0 runs no test again, and writes the events.
flaky: ## Run presubmit ROUNDS times (20), every second time beside LOAD busy processes (8), and print which tests ever failed (TEST_PACKAGES selects packages; FIRST=8 continues with round 8)
	MEDIASTACK_TEST_WAIT=$(or $(MEDIASTACK_TEST_WAIT),5m) go run ./hack/flaky --rounds $(or $(ROUNDS),20) --first $(or $(FIRST),1) --load $(or $(LOAD),8) -- $(MAKE) presubmit RERUNS=0 EVENTS={events}

suite-times: ## Print where the time of the last run of .ci/run went (ARGS="--write docs/guides/develop.md" writes it there)
	@go run ./hack/suitetimes $(ARGS)

test-images: packages build kubectl helm ## Build the container images twice, run their programs from them alone, and make, sign, verify and interrupt a release
	go -C hack/images test -count=1 -timeout $(TEST_TIMEOUT) -v .
	KUBECTL=$(or $(KUBEBUILDER_ASSETS),$(KUBE))/kubectl go -C hack/release test -count=1 -timeout $(TEST_TIMEOUT) .

test-arm64: packages arm64 build dev-services dev-stack kubectl helm ## Build a release for amd64 and arm64, and run the programs of the images for arm64 with QEMU: versions, a preflight, thumbnails of all formats
	MEDIASTACK_TEST_FULL=1 MEDIASTACK_TEST_WAIT=4m go test -count=1 -v -timeout 60m -run TestImages_ForARM64Run ./hack/test/arm64

reproduce: images ## Build the images again, in another folder with an empty build cache, and compare them
	@REVISION=$(REVISION) COMMITTED=$(COMMITTED) hack/reproduce.sh

# The S3 stores of test-stores. All other tests run against versitygw.
STORES ?= minio $(if $(shell command -v radosgw),ceph)
STORE_PACKAGES := ./runtime/objectstore ./runtime/media ./runtime/upload ./runtime/internal/tus
test-stores: packages minio build dev-services ## Run the tests of objects, media, uploads and TUS against MinIO and, if it is installed, Ceph RGW (STORES="ceph" selects)
	@for store in $(STORES); do \
		echo "== $$store"; \
		MEDIASTACK_TEST_STORE=$$store go test -count=1 -p 1 -timeout 30m $(STORE_PACKAGES); \
	done
	@# make nightly prints the lines of its steps that begin so.
	@command -v radosgw > /dev/null || echo "note: Ceph RGW is not installed, so its tests did not run: apt-get install --no-install-recommends ceph-mon ceph-osd radosgw"

test-pages: test-programs ## Check every login page and the files page in every state in a browser, with screenshots of whole pages
	@# The pictures of the documentation stay as they are. All tests of the package run with make test, without these screenshots and with smaller files.
	pictures=$$(mktemp -d) && trap 'rm -rf "$$pictures"' EXIT && BROWSER_PICTURES=$$pictures $(SERVED) go test -count=1 -timeout 30m -run 'TestPages_AreAccessible|TestAPIReference_' ./hack/test/browser
	MEDIASTACK_TEST_FULL=1 $(SERVED) go test -count=1 -v -timeout 30m -run 'TestLibrary_|TestHandover_' ./hack/test/browser

test-erasure: packages minio build dev-services ## Delete a versioned bucket of 10,000 objects with 3 versions and a delete marker each, and the rows of a million items
	MEDIASTACK_TEST_OBJECTS=10000 go test -count=1 -timeout $(TEST_TIMEOUT) -v -run TestDrain_RemovesEveryVersion ./runtime/objectstore
	MEDIASTACK_TEST_ITEMS=1000000 go test -count=1 -timeout $(TEST_TIMEOUT) -v -run TestErasure_IsLinearInItems ./runtime/postgres

test-migrations: packages minio build dev-services ## Apply the migrations to a million items while clients work, and remove a million objects' rows, and print how long that takes
	MEDIASTACK_TEST_ITEMS=1000000 go test -count=1 -timeout $(TEST_TIMEOUT) -v -parallel 1 -run 'TestMigrate_ReadsAndRewritesNoTable|TestRemovals_OfMany' ./runtime/postgres

lint: golangci-lint libvips ## Run the linters, which include the import rules
	$(TOOLS)/golangci-lint run ./...
	@# With -trimpath, cgo's cached output would name the sources of whichever clone was built first.
	CGO_ENABLED=1 GOFLAGS=-buildvcs=false $(TOOLS)/golangci-lint run $(CGO_PACKAGES)
	for module in hack/devservices hack/images hack/release hack/gitops hack/tools/minio-user clients/go; do (cd $$module && $(TOOLS)/golangci-lint run --config $(CURDIR)/.golangci.yml ./...); done

vocabulary: ## Check names, comments, texts and documents for retired words
	go run ./hack/vocabulary

tidy: ## Tidy every module of the repository, and align the versions of pinned programs with those of the product
	@go run ./hack/alignversions --write
	git ls-files -- 'go.mod' '*/go.mod' | while read -r mod; do (cd "$$(dirname "$$mod")" && go mod tidy); done

mcp-tasks: build dev-services ## Have a model do the tasks of hack/mcptasks (MCPTASKS_URL, MCPTASKS_KEY, MCPTASKS_MODEL; ARGS="--api anthropic keep-a-note" changes it)
	@go run ./hack/mcptasks/run run $(ARGS)

verify: ## Check that generated code, formatting and go.mod are up to date, then the vocabulary and the linters
	@hack/verify.sh

e2e: cluster-check cluster-programs dev-services helm ## Install images and chart in a real cluster, and run the end-to-end tests in it (as root; ARGS="-run Purge" selects, KEEP=1 keeps the cluster of a failure)
	@$(MAKE) images VERSION=e2e DIST=dist/e2e
	@hack/e2e.sh $(ARGS)

zero-loss: cluster-check cluster-programs dev-services helm ## Operate the product in a real cluster under load, and print what clients saw failing (as root; ARGS="--rate 20 --only drain")
	@$(MAKE) images VERSION=e2e DIST=dist/e2e
	CGO_ENABLED=0 go build -ldflags "-s -w" -o bin/mediastack-zeroloss ./hack/test/zeroloss
	@hack/in-cluster.sh zeroloss bin/mediastack-cluster exec bin/mediastack-zeroloss run $(ARGS)

nightly: ## Run what takes hours, before a release: all tests, races, images, a real cluster, crashes, full sizes, fuzzing (STEPS="test crash" selects, CONTINUE=1 leaves out what has passed on this commit, STATUS=1 prints what has)
	@go run ./hack/nightly $(if $(STATUS),--status) $(if $(CONTINUE),--continue) $(STEPS)

fuzz: libvips ## Run every fuzz target for FUZZTIME (30s); FUZZ=regex selects targets
	@hack/fuzz.sh

bench: running build dev-services tusd ## Compare the service with baselines (ARGS="upload read" selects, ARGS=--help explains)
	go run ./hack/bench $(ARGS)

test-operator: kube helm build dev-services ## Run the operator's tests of outages, take-overs, retained accounts and uninstallation at full size: 1,000, 200 and 300 accounts (half an hour)
	@# go test prints the output of one package as it comes, but not that of several.
	MEDIASTACK_TEST_FULL=1 MEDIASTACK_TEST_WAIT=4m go test -count=1 -v -timeout 60m -run TestUninstall_ ./charts
	MEDIASTACK_TEST_FULL=1 MEDIASTACK_TEST_WAIT=4m go test -count=1 -v -timeout 60m -run 'TestOutage_(Short|Long)|TestTakeOver_|TestRetained_(AccountsAre|DeletedDef)|TestUninstall_|TestIdle_|TestRestart_WritesNothing' ./controllers/operator

test-bodies: packages build dev-services ## Hold 4,300 connections with bodies that do not come, behind a proxy, and print what another tenant waits for (7 minutes)
	MEDIASTACK_TEST_FULL=1 MEDIASTACK_TEST_WAIT=4m go test -count=1 -v -timeout 60m ./hack/test/proxy

test-requests: packages build dev-services ## Send a credential in each format in each field of each route, ten thousand addresses that no preset allows, as many uploads to full accounts, 64 writers of events, ten thousand histories of searches, and 100 kills of clamd
	MEDIASTACK_TEST_FULL=1 MEDIASTACK_TEST_WAIT=4m go test -count=1 -v -timeout 60m -run 'TestMisplacedCredentials_|TestPresets_AddressesThatNone|TestRejectedUploads_|TestCommit_WhoseServerIsKilled|TestFeed_MissesNothing|TestSearch_EqualsModel|TestClamd_KilledAgain' ./runtime/cmd/mediastack-runtime ./runtime/gate ./runtime/internal/rest ./runtime/journal ./runtime/postgres ./runtime/upload

test-views: packages build dev-services ## Make pictures for models of 1,000 images of all kinds, 30 of them of 100 megapixels, and print how long that takes
	MEDIASTACK_TEST_FULL=1 MEDIASTACK_TEST_WAIT=4m go test -count=1 -v -timeout 60m -run 'TestView_IsWithinItsBounds' ./runtime/rendition

test-cdn: packages build dev-services ## Make 10,000 changes beside 60 reads a second at an edge, kill replicas 100 times, and have the edge away for 10 minutes; print how soon it forgets
	MEDIASTACK_TEST_FULL=1 MEDIASTACK_TEST_WAIT=15m go test -count=1 -v -timeout 120m -run 'TestEdge_(CatchesUp|HasNothingStale)' ./hack/test/cdn

crash: running build dev-services kube ## Kill the service, then the operators, hundreds of times under load and verify that nothing was lost (ARGS="--scenario operator --seed 7 --kills 50")
	go run ./hack/test/chaos $(ARGS)

screenshots: packages helm prometheus kube build dev-services dev-stack ## Take the screenshots of the documentation, and of every login page in every state into PICTURES (screenshots/), and draw the dashboard after a load of LOAD (8m)
	BROWSER_DOCUMENTS=$(CURDIR)/docs BROWSER_PICTURES=$(abspath $(or $(PICTURES),screenshots)) go test -count=1 -timeout $(TEST_TIMEOUT) -run 'TestPages_AreAccessible|TestAPIReference_ShowsEveryOperation|TestApprovals_WorkInTheBrowser' ./hack/test/browser
	BROWSER_SAMPLE=$(CURDIR)/docs/sample.png go test -count=1 -timeout $(TEST_TIMEOUT) -run TestClient_UploadsReadsAndRetries/the_sample ./hack/test/clients/typescript
	MONITORING_PICTURE=$(CURDIR)/docs/dashboard.png MONITORING_LOAD=$(or $(LOAD),8m) go test -count=1 -timeout 60m ./hack/test/monitoring

preset-pictures: running kube build dev-services dev-stack ## Make the pictures and tables of docs/guides/image-presets-gallery.md with a dev stack of its own
	go run ./hack/presetpictures

vulncheck: govulncheck ## Check for known vulnerabilities (needs the vulnerability database on the network)
	$(TOOLS)/govulncheck ./...

##@ Set up
.PHONY: packages libvips running arm64 cluster-packages cluster-programs dev-services dev-stack kube minio minio-user tusd helm kube-score promtool prometheus tools
packages: ## Install the Debian packages that the tests need (as root on Debian), or print which are missing
libvips running packages cluster-packages arm64:
	@hack/packages.sh $@

dev-services: ## Build the S3 store and the mail sink of the dev stack into bin/
	@hack/go-build.sh "S3 store and mail sink" -C hack/devservices -ldflags "-s -w" -o ../../bin/mediastack-devservices .

# As a file it is a target for the commands of a stack that runs, which must not require a checkout that compiles.
dev-stack: ## Build the program of the dev stack into bin/
dev-stack bin/mediastack-dev:
	@hack/go-build.sh "dev stack" -ldflags "-s -w" -o bin/mediastack-dev ./hack/devstack

.PHONY: cluster-binaries cluster-check cluster-duration
# In the order of its lines: what a machine lacks is said before programs are built for many minutes.
cluster-check: cluster-packages cluster-binaries
	@bin/mediastack-cluster check

# The programs are built in this order: without the last one, some are missing.
cluster-duration:
	@[ -x $(CLUSTER_PROGRAMS)/cni/host-local ] || echo "The first make cluster builds Kubernetes, containerd, runc and CoreDNS, once. That took 37 minutes on a busy machine with two cores."

cluster-binaries bin/mediastack-cluster:
	go build -o bin/mediastack-cluster ./hack/cluster
	go build -ldflags "-s -w" -o bin/mediastack-pause ./hack/cluster/pause

# The go.mod of a module under hack/ pins each of the following programs. They are built once, into the cache.
KUBERNETES := $(shell awk '$$1 == "k8s.io/kubernetes" { print substr($$2, 2) }' hack/kube/go.mod)
KUBE := $(CACHE)/kube/$(KUBERNETES)
# Without these a control plane would call itself v0.0.0.
KUBE_VERSION := gitVersion=v$(KUBERNETES) gitMajor=$(word 1,$(subst ., ,$(KUBERNETES))) gitMinor=$(word 2,$(subst ., ,$(KUBERNETES))) gitTreeState=clean gitCommit=gomod buildDate=2026-01-01T00:00:00Z
KUBE_LDFLAGS := $(foreach pkg,k8s.io/component-base/version k8s.io/client-go/pkg/version,$(foreach value,$(KUBE_VERSION),-X $(pkg).$(value)))

# What `setup-envtest use` has installed, of the same minor version.
KUBE_MINOR := $(basename $(KUBERNETES))
ENVTEST := $(lastword $(sort $(wildcard $(or $(XDG_DATA_HOME),$(HOME)/.local/share)/kubebuilder-envtest/k8s/$(KUBE_MINOR).*-$(shell go env GOHOSTOS)-$(shell go env GOHOSTARCH))))
export KUBEBUILDER_ASSETS ?= $(ENVTEST)
kube: $(if $(KUBEBUILDER_ASSETS),,kube-apiserver etcd kubectl) kube-controllers ## Build a control plane and kubectl into the cache, but for what setup-envtest has installed, or KUBEBUILDER_ASSETS has

CLUSTER_PROGRAMS := $(CACHE)/cluster
# pinned returns the version of a module that the go.mod of hack/cluster/<first argument> requires.
pinned = $(shell awk '$$1 == "$(2)" { print $$2 }' hack/cluster/$(1)/go.mod)
CNI_PLUGINS := bridge loopback portmap host-local
cluster-programs: kube kube-controller-manager kubectl kubelet kube-proxy kube-scheduler containerd containerd-shim-runc-v2 ctr runc coredns $(CNI_PLUGINS) ## Build the programs of a Kubernetes cluster with nodes into the cache

minio: minio-user ## Build the MinIO server, and the program that creates its users, into the cache (tests only)
	@hack/build-pinned.sh $(TOOLS)/minio hack/minio github.com/minio/minio

minio-user:
	@hack/build-pinned.sh $(TOOLS)/$@ hack/tools/$@ .

tusd: ## Build the tusd server into the cache (benchmarks only)
	@hack/build-pinned.sh $(TOOLS)/tusd hack/tusd github.com/tus/tusd/v2/cmd/tusd

helm: ## Build Helm into the cache (generators and tests only)
	@hack/build-pinned.sh $(TOOLS)/helm hack/tools/helm helm.sh/helm/v4/cmd/helm

kube-score: ## Build kube-score into the cache (tests only)
	@hack/build-pinned.sh $(TOOLS)/kube-score hack/tools/kube-score github.com/zegl/kube-score/cmd/kube-score

# Without service discovery, of which nothing here uses any, the build takes half as long.
promtool prometheus: ## Build Prometheus and its promtool into the cache (tests only)
	@hack/build-pinned.sh $(TOOLS)/$@ hack/tools/prometheus github.com/prometheus/prometheus/cmd/$@ "" remove_all_sd

tools: controller-gen crd-ref-docs sqlc oapi-codegen golangci-lint ## Build the pinned generators and linters into the cache

.PHONY: kube-apiserver kube-controller-manager kube-controllers kubectl kubelet kube-proxy kube-scheduler etcd containerd containerd-shim-runc-v2 ctr runc coredns $(CNI_PLUGINS)
.PHONY: controller-gen crd-ref-docs sqlc oapi-codegen golangci-lint govulncheck gotestsum
kube-apiserver kube-controller-manager kubectl kubelet kube-proxy kube-scheduler:
	@hack/build-pinned.sh $(KUBE)/$@ hack/kube k8s.io/kubernetes/cmd/$@ "$(KUBE_LDFLAGS)"
etcd:
	@hack/build-pinned.sh $(KUBE)/$@ hack/kube go.etcd.io/etcd/server/v3
# The few controllers that a control plane without nodes needs.
kube-controllers:
	@hack/build-pinned.sh $(KUBE)/$@ hack/kube ./controllers
containerd containerd-shim-runc-v2 ctr:
	@hack/build-pinned.sh $(CLUSTER_PROGRAMS)/$@ hack/cluster/containerd github.com/containerd/containerd/v2/cmd/$@ "-X github.com/containerd/containerd/v2/version.Version=$(call pinned,containerd,github.com/containerd/containerd/v2)" "no_btrfs no_devmapper no_zfs"
# runc enters namespaces before the Go runtime starts, in C code, so it alone needs cgo (and libseccomp).
runc:
	@hack/build-pinned.sh $(CLUSTER_PROGRAMS)/$@ hack/cluster/runc github.com/opencontainers/runc "-X main.version=$(patsubst v%,%,$(call pinned,runc,github.com/opencontainers/runc)) -extldflags -static" "seccomp netgo osusergo" cgo
coredns:
	@hack/build-pinned.sh $(CLUSTER_PROGRAMS)/$@ hack/cluster/coredns .
bridge loopback:
	@hack/build-pinned.sh $(CLUSTER_PROGRAMS)/cni/$@ hack/cluster/cni github.com/containernetworking/plugins/plugins/main/$@
portmap:
	@hack/build-pinned.sh $(CLUSTER_PROGRAMS)/cni/$@ hack/cluster/cni github.com/containernetworking/plugins/plugins/meta/$@
host-local:
	@hack/build-pinned.sh $(CLUSTER_PROGRAMS)/cni/$@ hack/cluster/cni github.com/containernetworking/plugins/plugins/ipam/$@
controller-gen:
	@hack/build-pinned.sh $(TOOLS)/$@ hack/tools/$@ sigs.k8s.io/controller-tools/cmd/$@
crd-ref-docs:
	@hack/build-pinned.sh $(TOOLS)/$@ hack/tools/$@ github.com/elastic/$@
sqlc:
	@hack/build-pinned.sh $(TOOLS)/$@ hack/tools/$@ github.com/sqlc-dev/sqlc/cmd/$@
oapi-codegen:
	@hack/build-pinned.sh $(TOOLS)/$@ hack/tools/$@ github.com/oapi-codegen/oapi-codegen/v2/cmd/$@
golangci-lint:
	@hack/build-pinned.sh $(TOOLS)/$@ hack/tools/$@ github.com/golangci/golangci-lint/v2/cmd/$@
govulncheck:
	@hack/build-pinned.sh $(TOOLS)/$@ hack/tools/$@ golang.org/x/vuln/cmd/$@
gotestsum:
	@hack/build-pinned.sh $(TOOLS)/$@ hack/tools/$@ gotest.tools/$@

.PHONY: help
help: ## List the targets
	@awk 'BEGIN { FS = ":.*## " } /^##@ / { printf "\n%s\n", substr($$0, 5) } /^[a-z0-9-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
