# Everything that is done to this repo. `make` alone lists it.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

export CARGO_TARGET_DIR ?= $(CURDIR)/target
# One setting for building and vetting: with two, Go would compile all of Kubernetes twice.
export CGO_ENABLED := 0
DROVER := $(CARGO_TARGET_DIR)/release/drover
SANDBOX := sandbox/bin/sandbox
SANDBOX_SOURCES := $(shell find sandbox -name '*.go' -o -path 'sandbox/node/etc/*' -type f) sandbox/go.mod sandbox/go.sum

# kubectl and the API server tell the version of the module that they are built from.
KUBERNETES = $(shell sed -n 's/^\tk8s.io\/kubernetes v//p' sandbox/go.mod)
VERSION_VAR := -X k8s.io/component-base/version
SANDBOX_LDFLAGS = -s -w $(VERSION_VAR).gitVersion=v$(KUBERNETES) \
	$(VERSION_VAR).gitMajor=$(word 1,$(subst ., ,$(KUBERNETES))) $(VERSION_VAR).gitMinor=$(word 2,$(subst ., ,$(KUBERNETES)))
# What is not linked in is not made: nobody debugs the sandbox's parts.
export GO_FLAGS := -gcflags=all=-dwarf=false

# The sandbox is three binaries, of which one stands for all: it goes if another can't be made.
.DELETE_ON_ERROR:
.PHONY: help build demo test soak bench fuzz lint manifests

help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: $(SANDBOX) ## build drover (target/release/drover) and the sandbox
	@[ -e $(DROVER) ] || echo "make: building drover; the first time takes about 3 minutes"
	@cargo build --release --locked --package drover

$(SANDBOX): $(SANDBOX_SOURCES)
	@command -v go >/dev/null || { echo "make: Go is needed to build the sandbox: install the version that sandbox/go.mod names, or a later one" >&2; exit 2; }
	@echo "make: building the sandbox of real parts; the first time takes about 8 minutes, later ones half of one"
	@cd sandbox && GOGC=400 go build $(GO_FLAGS) -ldflags '$(SANDBOX_LDFLAGS)' -o bin/ . ./kubectl ./kubernetes

demo: build ## show the main job on a sandbox, until Ctrl-C
	@hack/demo.sh

# End-to-end tests wait more than they work.
test: export RUST_TEST_THREADS ?= 6
test: ## run all tests, the end-to-end ones on a sandbox
	@hack/node-packages.sh
	@hack/test.sh

# What `make test` does of it is a part that stands for the rest.
soak: $(SANDBOX) ## kill the operator at every distance between two kills, and write every border of every schema, for some minutes
	@cargo build --quiet --locked --package drover
	@SOAK=1 cargo test --locked --package drover-e2e --test neighbours -- --test-threads=1
	@SOAK=1 cargo test --locked --package drover-e2e --test bad_days -- killed

bench: build ## measure what is promised about speed
	@cargo bench --workspace --locked

fuzz: ## fuzz the vSphere parser for a minute
	@hack/fuzz.sh

lint: ## check format, lints, generated files, licences and unused dependencies
	@hack/lint.sh

manifests: ## generate the CRDs in config/crd/bases from the Rust types
	@cargo run --quiet --locked --package drover -- crds --output-dir config/crd/bases
