# Everything that is done to this repo. `make` alone lists it.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

export CARGO_TARGET_DIR ?= $(CURDIR)/target
# One setting for building and vetting: with two, Go would compile all of Kubernetes twice.
export CGO_ENABLED := 0
# How drover is compiled: release, or dev, which takes a fraction of the time.
PROFILE ?= release
DROVER = $(CARGO_TARGET_DIR)/$(if $(filter dev,$(PROFILE)),debug,$(PROFILE))/drover
SANDBOX := sandbox/bin/sandbox
SANDBOX_SOURCES := $(shell find sandbox -name '*.go' -o -path 'sandbox/node/etc/*' -type f) sandbox/go.mod sandbox/go.sum

# kubectl and the API server tell the version of the module that they are built from.
KUBERNETES = $(shell sed -n 's/^\tk8s.io\/kubernetes v//p' sandbox/go.mod)
VERSION_VAR := -X k8s.io/component-base/version
SANDBOX_LDFLAGS = -s -w $(VERSION_VAR).gitVersion=v$(KUBERNETES) \
	$(VERSION_VAR).gitMajor=$(word 1,$(subst ., ,$(KUBERNETES))) $(VERSION_VAR).gitMinor=$(word 2,$(subst ., ,$(KUBERNETES)))
# What is not linked in is not made: nobody debugs the sandbox's parts.
export GO_FLAGS := -gcflags=all=-dwarf=false

# The operator's image, and the namespace that it is deployed to.
IMG ?= controller:latest
NAMESPACE ?= drover-system
# Those of the PATH, or those that the sandbox is built with.
KUBECTL ?= $(or $(shell command -v kubectl),$(CURDIR)/bin/kubectl)
KUSTOMIZE ?= $(or $(shell command -v kustomize),$(CURDIR)/bin/kustomize)
CLUSTER = IMG='$(IMG)' NAMESPACE='$(NAMESPACE)' KUBECTL='$(KUBECTL)' KUSTOMIZE='$(KUSTOMIZE)' hack/cluster.sh

# The sandbox is three binaries, of which one stands for all: it goes if another can't be made.
.DELETE_ON_ERROR:
.PHONY: help build manager run demo test histories simulate mutants test-install soak soak-kills sequences bench bench-full terraform bench-smoke bench-core fuzz lint generate manifests build-installer \
	docker-build docker-push image install uninstall deploy undeploy chart bundle sbom test-packages

help: ## list what can be made
	@awk -F ':.*## ' '/^##@ / { printf "\n%s\n", substr($$0, 5) } /^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ Build

build: $(SANDBOX) ## build drover (target/release/drover) and the sandbox
	@[ -e $(DROVER) ] || echo "make: building drover; the first time takes about 3 minutes"
	@cargo build --profile $(PROFILE) --locked --package drover

manager: ## build the operator as bin/manager
	@[ -e $(DROVER) ] || echo "make: building drover; the first time takes about 3 minutes"
	@cargo build --profile $(PROFILE) --locked --package drover
	@mkdir -p bin && ln -sf $(DROVER) bin/manager

run: ## run the operator here, against the cluster of the current kubeconfig; ARGS are its flags, such as -insecure
	@cargo run --quiet --profile $(PROFILE) --locked --package drover -- run $(ARGS)

docker-build: ## build the image IMG, with docker, podman or buildah
	@hack/image-packages.sh
	@PROFILE=$(PROFILE) hack/image.sh build '$(IMG)'

docker-push: ## push the image IMG to its registry
	@hack/image.sh push '$(IMG)'

image: docker-build ## build the image IMG, and check that it is as small as promised
	@hack/image.sh check '$(IMG)'

$(SANDBOX): $(SANDBOX_SOURCES)
	@command -v go >/dev/null || { echo "make: Go is needed to build the sandbox: install the version that sandbox/go.mod names, or a later one" >&2; exit 2; }
	@echo "make: building the sandbox of real parts; the first time takes about 8 minutes, later ones half of one"
	@cd sandbox && GOGC=400 go build $(GO_FLAGS) -ldflags '$(SANDBOX_LDFLAGS)' -o bin/ . ./kubectl ./kubernetes

# kubectl and kustomize for those who have none. They are one binary, which goes by its name.
sandbox/bin/kubectl:
	@command -v go >/dev/null || { echo "make: kustomize and kubectl are needed, or Go to build them" >&2; exit 2; }
	@echo "make: building kubectl and kustomize; the first time takes about 2 minutes"
	@cd sandbox && GOGC=400 go build $(GO_FLAGS) -ldflags '$(SANDBOX_LDFLAGS)' -o bin/ ./kubectl

$(CURDIR)/bin/kubectl $(CURDIR)/bin/kustomize: | sandbox/bin/kubectl
	@mkdir -p bin && ln -sf ../sandbox/bin/kubectl $@

##@ Cluster of the current kubeconfig

install: $(KUBECTL) $(KUSTOMIZE) ## install the kinds
	@$(CLUSTER) install

uninstall: $(KUBECTL) $(KUSTOMIZE) ## remove the kinds; refused while there are VmGroups or MyOwnShells
	@$(CLUSTER) uninstall

deploy: $(KUBECTL) $(KUSTOMIZE) ## install the kinds and the operator, from the image IMG, in NAMESPACE
	@$(CLUSTER) deploy

undeploy: $(KUBECTL) $(KUSTOMIZE) ## remove the operator from NAMESPACE; VmGroups, kinds, Secrets and VMs are kept
	@$(CLUSTER) undeploy

##@ Test

demo: build ## show the main job on a sandbox, until Ctrl-C
	@hack/demo.sh

# End-to-end tests wait more than they work.
test: export RUST_TEST_THREADS ?= 6
test: ## run all tests, the end-to-end ones on a sandbox
	@hack/node-packages.sh
	@hack/prometheus.sh
	@hack/test.sh

N ?= 100000
histories: ## play N histories of a VmGroup on a model of vCenter, a tenth of them new (SEED=..., HISTORY=... for one)
	@HISTORIES=$(N) cargo test --locked --package drover-core --test histories -- --nocapture

simulate: export VMS ?= 100000
simulate: export VMGROUPS ?= 5000
simulate: export VCENTERS ?= 50
simulate: export HOSTS ?= 16
simulate: ## simulate 100,000 VMs on 50 vCenters in virtual time (VMS, VMGROUPS, VCENTERS, HOSTS, REPLICAS, CLONE_SECONDS; CALM=1)
	@cargo test --quiet --release --locked --package drover-core --test simulation -- --nocapture

mutants: ## put deliberate bugs into the decisions, one by one, and see the histories find each
	@hack/mutants.sh

test-install: $(SANDBOX) $(CURDIR)/bin/kustomize bin/helm ## install, use and remove Drover on a real node, in each documented way (Linux, as root)
	@hack/test-install.sh

test-packages: $(CURDIR)/bin/kustomize bin/helm bin/operator-verify ## check the Helm chart and the OLM bundle, against kustomize's objects
	@hack/test-packages.sh

soak: $(SANDBOX) ## have a storm of edits, drift, faults and crashes on a sandbox for an hour, or T=10m, from a SEED, and compare the world with what is declared
	@cargo build --quiet --locked --package drover
	@cargo test --quiet --locked --package drover-e2e --test soak

sequences: $(SANDBOX) ## declare N sequences of edits from the schemas, valid and not, from a SEED (SEQUENCE=... for one), and see each reached or refused in words
	@cargo build --quiet --locked --package drover
	@N=$(if $(filter file,$(origin N)),500,$(N)) cargo test --quiet --locked --package drover-e2e --test sequences -- --nocapture

# What `make test` does of it is a part that stands for the rest.
soak-kills: $(SANDBOX) ## kill the operator at every distance between two kills, and write every border of every schema, for some minutes
	@cargo build --quiet --locked --package drover
	@SOAK=1 cargo test --locked --package drover-e2e --test neighbours -- --test-threads=1
	@SOAK=1 cargo test --locked --package drover-e2e --test bad_days -- killed

# Always the released program, built first, whatever PROFILE says. CASE names some of what is measured.
BENCH = cargo build --quiet --release --locked --package drover && cargo bench --quiet --locked --package drover-e2e --bench promises --

bench: $(SANDBOX) terraform ## measure what is promised about speed, calls and memory, in less than 20 minutes (CASE=drift for one part)
	@$(BENCH) $(CASE)

# What has failed to the end says so on the page. What was broken off is not written.
bench-full: $(SANDBOX) terraform ## measure it at all sizes, in up to two hours, and write docs/benchmarks.md
	@rm -rf bin/linux; PROFILE=release hack/image.sh stage || echo "make: the program of the image is not measured" >&2
	@code=0; $(BENCH) --full $(CASE) || code=$$?; [ $$code -gt 1 ] || cargo xtask benchmarks $(CARGO_TARGET_DIR)/bench/results.json; exit $$code

# Others that are measured beside Drover. Who can't build them measures without.
terraform:
	@$(MAKE) bin/terraform bin/terraform-provider-vsphere || echo "make: Terraform can't be built here, and is not measured"

# With the program that the tests run, so that it costs no further build: all of the workspace is asked for, or features would differ.
bench-smoke: $(SANDBOX) ## check in less than 3 minutes that no change costs calls, memory, rest or the repair of drift
	@cargo build --quiet --locked --workspace
	@cargo bench --quiet --locked --workspace --profile dev --bench promises -- --smoke

bench-core: ## measure decisions and the vSphere parser, in memory, at three sizes
	@hack/bench-core.sh

fuzz: ## fuzz all that reads what others have written, for a minute
	@hack/fuzz.sh

lint: $(CURDIR)/bin/kustomize ## check format, lints, generated files, licences and unused dependencies
	@hack/lint.sh

##@ Generated files

generate: ## generate the vSphere types in crates/vim25
	@cargo xtask codegen

manifests: ## generate the CRDs in config/crd/bases, docs/api.md and docs/reasons.md from the Rust code
	@cargo run --quiet --locked --package drover -- crds --output-dir config/crd/bases
	@cargo xtask docs

# One kustomize for all, because versions differ in how they write.
build-installer: $(CURDIR)/bin/kustomize ## generate dist/install.yaml from config; IMG is the image that it names
	@mkdir -p dist
	@IMG='$(IMG)' NAMESPACE='$(NAMESPACE)' KUSTOMIZE='$(CURDIR)/bin/kustomize' hack/cluster.sh manifests >dist/install.yaml

chart: $(CURDIR)/bin/kustomize ## generate those templates of charts/drover that config says already
	@hack/chart.sh

bundle: $(CURDIR)/bin/kustomize ## generate the bundle for the Operator Lifecycle Manager from config
	@cargo xtask bundle bin/kustomize

sbom: ## write what drover is made of to dist/drover.cdx.json
	@hack/sbom.sh

# Helm tells its version, and which Kubernetes it expects where no cluster is asked, as its linker is told.
HELM = $(shell sed -n 's/^\thelm.sh\/helm\/v3 \(v[^ ]*\).*/\1/p' hack/tools/helm/go.mod)
HELM_LDFLAGS = -s -w -X helm.sh/helm/v3/internal/version.version=$(HELM) \
	$(foreach package,chartutil lint/rules,-X helm.sh/helm/v3/pkg/$(package).k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/$(package).k8sVersionMinor=34)

bin/helm: hack/tools/helm/go.mod
	@echo "make: building Helm; the first time takes about 3 minutes"
	@mkdir -p bin && cd hack/tools/helm && GOGC=400 go build $(GO_FLAGS) -ldflags '$(HELM_LDFLAGS)' -o $(CURDIR)/bin/helm helm.sh/helm/v3/cmd/helm

# The last version under a free licence. Its provider is of another module, because what the two require clashes.
bin/terraform: hack/tools/terraform/go.mod
	@echo "make: building Terraform, to measure beside Drover; the first time takes about 3 minutes"
	@mkdir -p bin && cd hack/tools/terraform && GOGC=400 go build $(GO_FLAGS) -ldflags '-s -w' -o $(CURDIR)/bin/ github.com/hashicorp/terraform

bin/terraform-provider-vsphere: hack/tools/terraform-provider-vsphere/go.mod
	@echo "make: building Terraform's vSphere provider; the first time takes about half a minute"
	@mkdir -p bin && cd hack/tools/terraform-provider-vsphere && GOGC=400 go build $(GO_FLAGS) -ldflags '-s -w' -o $(CURDIR)/bin/ github.com/hashicorp/terraform-provider-vsphere

bin/operator-verify: hack/tools/olm/go.mod
	@echo "make: building operator-verify; the first time takes about 2 minutes"
	@mkdir -p bin && cd hack/tools/olm && GOGC=400 go build $(GO_FLAGS) -ldflags '-s -w' -o $(CURDIR)/bin/ github.com/operator-framework/api/cmd/operator-verify
