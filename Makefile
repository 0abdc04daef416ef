# `make help` lists the targets.

GO          ?= go
STATICCHECK  = honnef.co/go/tools/cmd/staticcheck@v0.8.2
IMAGE       ?= georegister:dev
VERSION     ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

# The binary is static and needs no C compiler; only the race detector does.
export CGO_ENABLED = 0
# A checkout that belongs to another user must build too; the version comes from here instead.
# What differs in -trimpath shares no compiled package: with it everywhere, programs and tests are compiled once.
export GOFLAGS := $(shell $(GO) env GOFLAGS) -buildvcs=false -trimpath
LDFLAGS = -s -w -X main.version=$(VERSION)

DEMO      ?= config/samples/gryff-five-regions.yaml
SCHEDULES ?= 100000
SEED      ?= 1
COUNT     ?= 300
FUZZTIME  ?= 20s
MUTANTS   ?=
BENCH     ?=
CHANGE    ?=
TRANSFER  ?=
LOSSES    ?=
MASTERS   ?=
REDIS     ?=
PROTOCOLS ?=
MEMORY    ?=
SCALE     ?=
DEPLOY    ?=

.DEFAULT_GOAL := help
.PHONY: help build build-store build-operator build-mutants test test-race test-clients test-controlplane mutants lint generate demo bench bench-change bench-losses bench-masters bench-protocols bench-keys bench-memory bench-operator bench-sustained soak fuzz manifests chart test-chart build-installer image clean cluster-up cluster-down chaos-up chaos-down cluster-kind deploy smoke e2e

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: build-store build-operator ## Build all programs, with progress

build-store: ## Build bin/georegister, which needs no Kubernetes
	@GO="$(GO)" hack/build.sh -ldflags '$(LDFLAGS)' -o bin/georegister ./cmd/georegister

build-operator: ## Build bin/georegister-operator, which is bin/kubectl-georegister too
	@GO="$(GO)" hack/build.sh -ldflags '$(LDFLAGS)' -o bin/georegister-operator ./cmd/georegister-operator
	@ln -sf georegister-operator bin/kubectl-georegister

build-mutants: ## Build bin/georegister-mutants, which has all known mistakes (docs/mutants.md)
	@$(GO) run ./test/mutants/build

# Where tests of this module are run, nothing is vetted: `make lint` does that for all, and more, and once.
TEST := $(GO) test -vet=off

test: ## Run all tests: no root, no Docker, no packages needed
	$(TEST) -timeout 45m ./...

# Packages in which nothing runs beside anything else, so that there is no race to look for; test/layout holds both.
PURE := replica/register replica/view replica/membership replica/capability replica/protocol controllers/world controllers/build controllers/chaosmesh \
	controllers/decide witness/cache witness/core dev/decide \
	replica/simulator/machine replica/simulator/faults replica/simulator/schedule replica/simulator/diagram replica/simulator/network \
	replica/simulator/clients replica/simulator/cluster replica/simulator/members replica/simulator/injection replica/simulator/coverage \
	replica/simulator/invariant replica/simulator/field replica/simulator/directed
# test/e2e runs programs that are built without the race detector, the explorer and the
# checker of transactions are one goroutine each; the others read files.
UNRACED := $(PURE) replica/history/precedence replica/history/transactions replica/simulator replica/explorer test/e2e test/layout test/mutants/equivalent test/mutants/generate
# These tests of commands are of the simulator, whose own tests below are raced, and of how much memory a check takes;
# those of package history are of one goroutine. Damage at each byte of a disk is found by one, too: what disks do beside
# each other, other tests of them race.
UNRACED_TESTS := ^Test(NoDamageIsSilent|Simulate|CheckIsBounded|Costs|SchedulesAreWrittenWhole|ProtocolsOfAManifest|ReadingIsBounded|SingleCorruptionsAreRefused|CarstampsThatCount|WrongCarstamps)

test-race: export CGO_ENABLED = 1
test-race: ## Run the tests of all that has goroutines, with a small share of the simulation, under the race detector (needs a C compiler)
	$(TEST) -race -short -skip '$(UNRACED_TESTS)' -timeout 25m $$($(GO) list ./... | grep -Ev "/($$(echo $(UNRACED) | tr ' ' '|'))(/|$$)")
	$(TEST) -race -timeout 25m -short -run Survives ./replica/simulator

test-clients: build-store ## Run redis-cli and redis-benchmark (Debian: redis-tools) against a running cluster
	$(TEST) -tags clients -count 1 -v -timeout 10m ./test/clients

test-controlplane: ## Run the operator against a real apiserver and etcd, with real members (the first time builds both)
	KUBEBUILDER_ASSETS=$${KUBEBUILDER_ASSETS:-$$(hack/kubernetes/build.sh assets | tail -1)} $(TEST) -tags controlplane -count 1 -timeout 25m ./test/controlplane

# Tests that need more than Go, each with its target.
TAGS := clients,controlplane,chart,cluster

lint: ## Check formatting, go vet, staticcheck, and that what is generated is up to date
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not formatted by gofmt:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet -tags $(TAGS) ./...
	$(GO) run $(STATICCHECK) -tags $(TAGS) ./...
	@GO="$(GO)" hack/manifests.sh --check

generate: manifests ## Regenerate all that is generated: also the code of the .proto files (needs protoc)
	hack/generate.sh

demo: build-store ## Run five regions on this machine; without a terminal, check a bounded workload and exit
	@if [ -t 0 ] && [ -t 1 ]; then exec ./bin/georegister dev -f $(DEMO); \
	else exec ./bin/georegister dev -f $(DEMO) --check; fi

bench: build-store ## Measure the parts, then a cluster beside etcd; BENCH="-duration 20s" measures longer
	$(GO) test -run '^$$' -bench . -benchtime 0.3s -benchmem ./...
	$(GO) run ./test/bench $(BENCH)

bench-change: build-store ## Measure what clients feel while members change, and how fast a new member fetches 1,000,000 keys
	$(GO) run ./test/bench change $(CHANGE)
	$(GO) run ./test/bench transfer $(TRANSFER)

bench-losses: build-store ## Measure how long a shard with CURP is not served when a backup or its master is lost; LOSSES="-keys 10000" takes less
	$(GO) run ./test/bench losses $(LOSSES)

bench-masters: build-store ## Measure writes with CURP, one replica, primary-backup and asynchronous replication, then SETs beside Redis (Debian: redis-server)
	$(GO) run ./test/bench masters $(MASTERS)
	$(GO) run ./test/bench redis $(REDIS)

bench-protocols: build-store ## Measure the throughput of every protocol on this machine, in turn, as ratios; PROTOCOLS="-rounds 5" measures longer
	$(GO) run ./test/bench protocols $(PROTOCOLS)

bench-keys: build-store ## Compare throughput with 10,000, 200,000 and 1,000,000 keys beside etcd; KEYS="-rounds 1" takes less
	$(GO) run ./test/bench keys $(KEYS)

bench-memory: ## Measure what a key takes of memory and disk with every protocol, at 1,000,000 keys; MEMORY="-keys 100000" takes less
	$(GO) run ./test/bench memory $(MEMORY)

bench-sustained: build-store ## Measure 5 minutes at 70% of the peak with 5,000,000 keys of 1 KiB, more than memory holds, and a start after that; SUSTAINED="-keys 100000" takes less
	$(GO) run ./test/bench sustained -value-bytes 1024 -mixes YCSB-A -etcd "" $(SUSTAINED)

bench-operator: build-operator ## Measure the operator with 200 clusters of 5 simulated members; SCALE="-rest 6m" watches it longer
	$(GO) run ./test/scale $(SCALE)

soak: export GOGC ?= 800
soak: build-store ## Search SCHEDULES=100000 random schedules of faults and changes of members or masters per protocol, with progress
	./bin/georegister simulate --protocol all --soak $(SCHEDULES)

mutants: SCHEDULES = 20000
mutants: ## Measure how many of COUNT=300 mutants, drawn from the code by SEED=1, are found within SCHEDULES=20000, with progress
	$(GO) run ./test/mutants/score -seed $(SEED) -count $(COUNT) -schedules $(SCHEDULES) $(MUTANTS)

fuzz: ## Run every fuzz target for FUZZTIME=20s
	@GO="$(GO)" FUZZTIME=$(FUZZTIME) hack/fuzz.sh

manifests: ## Regenerate the CRD, its reference, what the operator may do, and the chart's copies of them
	GO="$(GO)" hack/manifests.sh
	hack/chart.sh

chart: ## Copy what the Helm chart shares with config/ into it
	hack/chart.sh

test-chart: ## Render the chart and the kustomize bases, and have a real apiserver judge them; test what stands in for netem
	bin=$$(hack/kubernetes/build.sh assets helm kustomize | tail -1) && crds=$$(hack/chaos-mesh/build.sh crds | tail -1) && \
		KUBEBUILDER_ASSETS=$${KUBEBUILDER_ASSETS:-$$bin} CHAOS_CRDS=$$crds HELM=$$bin/helm KUSTOMIZE=$$bin/kustomize $(TEST) -tags chart -count 1 -timeout 10m ./test/chart
	cd hack/chaos-mesh && GOWORK=off $(GO) test ./netem

build-installer: ## Write dist/install.yaml, which installs the operator that runs IMAGE
	@hack/installer.sh $(IMAGE) $(BASE)

cluster-up: ## Start a Kubernetes of three zones on this machine (Linux, root), with progress
	@hack/cluster/up.sh

cluster-down: ## Remove what cluster-up started
	@hack/cluster/down.sh

chaos-up: ## Build Chaos Mesh and install it on the cluster that is up, with progress
	@hack/chaos-mesh/install.sh

chaos-down: ## End all experiments and remove Chaos Mesh
	@hack/chaos-mesh/uninstall.sh

cluster-kind: ## Start a Kubernetes of three zones in Docker, with kind
	@hack/cluster/kind.sh

smoke: ## Run a store through its first minutes on a cluster of three zones (Linux, root)
	@MAKE="$(MAKE)" GO="$(GO)" test/cluster/run.sh TestSmoke

e2e: ## Also lose volumes, a node and a zone; change, move and recover members under load (Linux, root)
	@MAKE="$(MAKE)" GO="$(GO)" test/cluster/run.sh .

deploy: build ## Load this project's image into the cluster that is up, and install the operator
	@IMAGE="$(IMAGE)" hack/cluster/deploy.sh bin $(DEPLOY)

image: ## Build the container image IMAGE=georegister:dev
	docker build --build-arg VERSION=$(VERSION) -t $(IMAGE) .

clean: ## Remove what was built
	rm -rf bin dist
