include versions.mk

# One build mode everywhere, so that every target shares the build cache.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath -buildvcs=false

PARTS       := bin/parts
CRD_OPTS    := crd:generateEmbeddedObjectMeta=true,maxDescLen=100000
RBAC_OPTS   := rbac:roleName=manager-role
RBAC_SHARED := ./internal/manager/...
RBAC_INFRA  := $(foreach dir,$(wildcard internal/controllers/captmachine* internal/controllers/workspace*),./$(dir);)
PROGRAMS    := dev/bin/alerts dev/bin/charts dev/bin/fluxgen
MODULES     := . api dev $(PROGRAMS)
.DEFAULT_GOAL := help

##@ General

.PHONY: help
help: ## Show this help.
	@awk 'BEGIN {FS = ":.*## "} \
	  /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-zA-Z0-9_-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Parts

.PHONY: parts
parts: ## Provide the third-party programs that the tests need: installed, cached, downloaded or built; CAPT_PARTS=build downloads nothing.
	@cd dev && go run ./parts -link ../$(PARTS) test e2e

.PHONY: parts-test
parts-test:
	@cd dev && go run ./parts -link ../$(PARTS) test

.PHONY: parts-quickstart
parts-quickstart:
	@cd dev && go run ./parts -link ../$(PARTS) quickstart

.PHONY: parts-lint
parts-lint:
	@cd dev && go run ./parts -link ../$(PARTS) lint

.PHONY: parts-pin
parts-pin: ## Write the checksums of the published programs to dev/parts/releases.sum; downloads all of them.
	@cd dev && go run ./parts -pin parts/releases.sum

.PHONY: parts-list
parts-list: ## Show each third-party program, its version and where it comes from.
	@cd dev && go run ./parts -list

##@ Development

.PHONY: build
build: ## Build the manager, the runner, the page's server, the local cluster and captctl into bin/.
	go build -o bin/ ./cmd/...
	@ln -sf captctl bin/kubectl-capt
	@ln -sf captctl bin/kubectl_complete-capt

.PHONY: generate
generate: parts-lint ## Generate deepcopy code, CRDs, RBAC, webhook configurations and templates.
	cd api && ../$(PARTS)/controller-gen object $(CRD_OPTS) paths=./... output:crd:dir=../config/crd/bases
	$(PARTS)/controller-gen webhook paths=./internal/webhooks/... output:webhook:dir=config/webhook
	cd dev && go run ./manifests webhooks
	$(PARTS)/controller-gen $(RBAC_OPTS) paths="./internal/controllers/...;$(RBAC_SHARED);./internal/terraform/job" output:rbac:dir=config/rbac
	$(PARTS)/controller-gen $(RBAC_OPTS) paths="$(subst ; ,;,$(RBAC_INFRA))./internal/controllers/captcluster;./internal/terraform/job;$(RBAC_SHARED)" output:rbac:dir=config/providers/infrastructure
	$(PARTS)/controller-gen $(RBAC_OPTS) paths="./internal/controllers/captcontrolplane;$(RBAC_SHARED)" output:rbac:dir=config/providers/control-plane
	$(PARTS)/controller-gen $(RBAC_OPTS) paths="./internal/controllers/captbootstrapconfig;$(RBAC_SHARED)" output:rbac:dir=config/providers/bootstrap
	$(PARTS)/controller-gen $(RBAC_OPTS) paths="./internal/controllers/captaddon;$(RBAC_SHARED)" output:rbac:dir=config/providers/addon
	cd dev && go run ./manifests chart
	cd dev && go run ./modules -write-readmes
	cd dev && go run ./templates
	cd dev && go run ./docs reference
	@mkdir -p docs/reference
	go build -o bin/ ./cmd/captctl
	bin/captctl reference > docs/reference/captctl.md.new && mv docs/reference/captctl.md.new docs/reference/captctl.md

.PHONY: fmt
fmt: parts-lint ## Format the code.
	@for m in $(MODULES); do (cd $$m && $(CURDIR)/$(PARTS)/golangci-lint fmt -c $(CURDIR)/.golangci.yml) || exit 1; done

.PHONY: lint
lint: parts-lint ## Run the linters over every module with code of CAPT.
	@for m in $(MODULES); do echo "lint $$m"; (cd $$m && $(CURDIR)/$(PARTS)/golangci-lint run -c $(CURDIR)/.golangci.yml ./...) || exit 1; done

.PHONY: verify
verify: generate ## Check that generated files, modules and versions are current.
	@for m in $(MODULES); do (cd $$m && go mod tidy -diff) || { echo "go.mod of $$m is not tidy: run 'go mod tidy' there"; exit 1; }; done
	@cd dev && go run ./verify -root .. && go run ./docs check
	@git diff --exit-code -- api config charts templates modules docs/reference || { echo "generated files are not current: run 'make generate' and commit"; exit 1; }
	@test -z "$$(git ls-files --others --exclude-standard -- api config charts templates modules docs/reference)" || { git ls-files --others --exclude-standard -- api config charts templates modules docs/reference; echo "generated files are not committed"; exit 1; }

.PHONY: scan
scan: build ## Search the programs of CAPT and OpenTofu for known vulnerabilities; needs https://vuln.go.dev.
	@cd dev && go run ./parts -link ../$(PARTS) scan tofu
	@for program in bin/manager bin/runner bin/ui bin/captctl $(PARTS)/tofu; do echo "scan $$program"; $(PARTS)/govulncheck -mode=binary $$program || exit 1; done

.PHONY: addons
addons: ## Write the built-in add-ons with the manifests they install to bin/addons, and their charts to bin/charts.
	@cd dev && go run ./parts -link ../$(PARTS) charts fluxgen && go run ./addons -parts ../$(PARTS)

##@ Web page

# Whether this machine can build the page.
HAS_NODE_JS = type npm node >/dev/null 2>&1 && node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 22 || (a === 22 && b >= 12) || (a === 20 && b >= 19) ? 0 : 1)'
NPM         = npm --prefix ui --no-audit --no-fund

.PHONY: ui
ui: ui/node_modules/.package-lock.json ## Build the page of captctl ui, which make build then includes; needs npm with Node 20.19, 22.12 or later.
	@$(NPM) run --silent build

# npm ci would refuse a lock file without the compilers of other platforms, of which npm
# records only those that it could read.
ui/node_modules/.package-lock.json: ui/package.json ui/package-lock.json
	@echo "installing the packages of the page with npm"
	@$(NPM) install --no-save --ignore-scripts --silent
	@touch $@

.PHONY: ui-optional
ui-optional:
	@if $(HAS_NODE_JS); then $(MAKE) --no-print-directory ui || echo "captctl ui has no page: npm failed"; \
	  else echo "captctl ui has no page: it is built with npm and Node 20.19, 22.12 or later"; fi

.PHONY: test-page
test-page: ## Check the types of the page of captctl ui, test and build it, if this machine has npm with Node 20.19, 22.12 or later.
	@if $(HAS_NODE_JS); then $(MAKE) --no-print-directory ui && $(NPM) run --silent test; \
	  else echo "the page of captctl ui is not tested: it needs npm with Node 20.19, 22.12 or later"; fi

##@ Quickstart

.PHONY: quickstart
quickstart: parts-quickstart ui-optional build addons ## Start CAPT on this machine and create a cluster with Flux and Karpenter; needs neither Docker nor a cloud.
	@bin/captctl local up --demo

.PHONY: quickstart-down
quickstart-down: ## Stop and remove everything that quickstart started.
	@test ! -x bin/captctl || bin/captctl local down --yes

##@ Tests

TEST_FLAGS ?=
# The packages whose tests take longest start first, and one more than there are cores run
# at once: the tests of clusters wait more than they compute. golangci-lint runs vet.
LONGEST      = ./test/cluster ./test/engine ./internal/terraform/command ./test/contract ./internal/cli ./internal/terraform/process
TEST_AT_ONCE = $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))
# Runs the tests of the module $(1), and shows what is running; fails if a test is skipped that the list does not have.
GO_TEST      = @cd dev && go run ./gotest -skips ../test/skips.txt -dir ../$(1) -- -vet=off -ldflags=-w

.PHONY: test
test: parts-test test-page build ## Run all unit and integration tests, building what they need.
	$(call GO_TEST,api) $(TEST_FLAGS) ./...
	$(call GO_TEST,.) -timeout 60m -p $(TEST_AT_ONCE) $(TEST_FLAGS) $(LONGEST) ./...
	$(call GO_TEST,dev) $(TEST_FLAGS) ./...
	$(call GO_TEST,dev/bin/alerts) $(TEST_FLAGS) ./...
	$(if $(TEST_FUZZTIME),@$(MAKE) --no-print-directory fuzz-briefly)

BUSY_LOOPS ?= 4
BUSY_TIMES ?= 3
.PHONY: test-busy
test-busy: parts-test build ## Run all tests BUSY_TIMES (3) times beside BUSY_LOOPS (4) busy loops, to find tests that depend on the speed of the machine.
	@for i in $$(seq $(BUSY_LOOPS)); do while :; do :; done & loops="$$loops $$!"; done; \
	  trap "kill $$loops" EXIT; trap "exit 1" INT TERM; \
	  for i in $$(seq $(BUSY_TIMES)); do echo "run $$i of $(BUSY_TIMES)"; $(MAKE) --no-print-directory test TEST_FLAGS="-count=1 $(TEST_FLAGS)" || exit 1; done

# How long make fuzz and make test run each fuzz target, as many at once as there are cores.
# Inputs that reach new code stay in Go's cache, and those of a failure in testdata/fuzz.
# make test uses the packages as they are compiled for the tests: it changes the inputs
# that are kept, without the guidance of coverage, if TEST_FUZZTIME is set. By default it runs
# them as they are, so that its result is always the same.
FUZZTIME      ?= 1m
TEST_FUZZTIME ?=
FUZZ_PACKAGES = $(sort $(dir $(shell git grep -l '^func Fuzz' -- '*_test.go')))
FUZZ_BIN      = out/fuzz
# run-fuzz runs the programs in FUZZ_BIN. $(1) is the time for each target.
# Go reports the end of the time as a failure if it comes at an unfavourable moment
# (golang/go#48591): a failure without an input is none.
define run-fuzz
	@git grep '^func Fuzz' -- $(foreach p,$(FUZZ_PACKAGES),':(glob)$(p)*_test.go') | sed -E 's|/[^/]*:func ([A-Za-z0-9_]+).*| \1|' | \
	  CACHE=$$(go env GOCACHE)/fuzz/$$(go list -m) BIN=$(CURDIR)/$(FUZZ_BIN) xargs -P $$(getconf _NPROCESSORS_ONLN) -n 2 sh -c ' \
	    cd $$1 && if $$BIN/$$(basename $$1).test -test.run "^$$" -test.fuzz "^$$2$$" -test.fuzztime $(1) -test.parallel 1 \
	      -test.fuzzcachedir $$CACHE/$$1 > $$BIN/$$2.log 2>&1; then echo "$$1 $$2: $$(grep -o "execs: [0-9]*" $$BIN/$$2.log | tail -n 1)"; \
	    elif grep -q "context deadline exceeded" $$BIN/$$2.log && ! grep -q "Failing input" $$BIN/$$2.log; then echo "$$1 $$2: ended"; \
	    else cat $$BIN/$$2.log; exit 255; fi' fuzz
endef

.PHONY: fuzz
fuzz: ## Fuzz everything that parses what users, modules and servers write, FUZZTIME (1m) each; FUZZ_PACKAGES=DIR/ selects packages.
	@rm -rf $(FUZZ_BIN) && mkdir -p $(FUZZ_BIN)
	@for p in $(FUZZ_PACKAGES); do go test -c -fuzz . -o $(FUZZ_BIN)/ ./$$p || exit 1; done
	$(call run-fuzz,$(FUZZTIME))

.PHONY: fuzz-briefly
fuzz-briefly:
	@rm -rf $(FUZZ_BIN) && mkdir -p $(FUZZ_BIN)
	@go test -c -o $(FUZZ_BIN)/ $(addprefix ./,$(FUZZ_PACKAGES))
	$(call run-fuzz,$(TEST_FUZZTIME))

.PHONY: test-charts
test-charts: parts addons ## Install the charts of the built-in add-ons with Flux and with Terraform, and test the programs of dev/bin that are written here.
	@for m in $(PROGRAMS); do (cd $$m && go test -count=1 $(TEST_FLAGS) ./...) || exit 1; done
	CAPT_TEST_CHARTS=1 go test -count=1 -timeout 20m $(TEST_FLAGS) ./test/charts

.PHONY: modules
modules: ## Check the Terraform modules: fmt, validate and tofu test, with the real AWS provider.
	@cd dev && go run ./parts -link ../$(PARTS) modules && go run ./modules -parts ../$(PARTS)

# How many clusters make e2e-aws creates at once. They spend much time waiting for the
# provider.
AWS_PARALLEL ?= 4

# REAL=1 needs the account, the region and what it may cost, in USD. The programs read them
# from the environment: neither make nor a shell expands their text.
REAL    ?=
ACCOUNT ?=
REGION  ?=
BUDGET  ?=
RUN     ?=
e2e-aws e2e-aws-real e2e-aws-sweep: override export CAPT_E2E_ACCOUNT := $(value ACCOUNT)
e2e-aws e2e-aws-real e2e-aws-sweep: override export CAPT_E2E_REGION := $(value REGION)
e2e-aws e2e-aws-real e2e-aws-sweep: override export CAPT_E2E_BUDGET := $(value BUDGET)
e2e-aws-sweep: override export CAPT_E2E_RUN := $(value RUN)

.PHONY: e2e-aws
e2e-aws: $(if $(filter 1,$(REAL)),e2e-aws-real,e2e-aws-emulator) ## Apply, change and destroy the modules with the real AWS provider on an emulator, alone and through CAPT; needs Python 3, PyPI, the AWS CLI and jq. REAL=1 ACCOUNT=… REGION=… BUDGET=… runs the commands of docs/aws.md in that AWS account instead, with your credentials, for up to BUDGET USD.

# Whatever happens to the test, what it created is swept.
.PHONY: e2e-aws-real
e2e-aws-real:
	@go build -o bin/ ./test/aws/real
	@trap : INT TERM; run=$$(bin/real check) || exit 1; code=0; \
	  { $(MAKE) --no-print-directory parts-test build addons && (cd dev && go run ./parts -link ../$(PARTS) modules) && \
	    CAPT_TEST_AWS_REAL=1 CAPT_E2E_RUN=$$run go test $(TEST_FLAGS) -count=1 -v -timeout 60h -run '^TestReal_' ./test/aws; } || code=1; \
	  bin/real sweep $$run || code=1; exit $$code

.PHONY: e2e-aws-sweep
e2e-aws-sweep: ## Delete everything that a run of e2e-aws REAL=1 left in an AWS account; needs RUN=…, ACCOUNT=… and REGION=….
	@go run ./test/aws/real sweep "$$CAPT_E2E_RUN"

.PHONY: e2e-aws-emulator
e2e-aws-emulator: parts-test build addons
	@cd dev && go run ./parts -link ../$(PARTS) modules
	@rm -f out/e2e-aws.json
	CAPT_TEST_AWS=1 go test $(TEST_FLAGS) -count=1 -v -parallel $(AWS_PARALLEL) -timeout 120m ./test/aws
	@if $(HAS_NODE); then \
	  $(MAKE) --no-print-directory test-identities; else echo "test-identities is skipped: it needs root, containerd, runc and the CNI plugins"; fi

# Whether this machine can run pods.
HAS_NODE = test "$$(id -u)" = 0 -a -e /usr/lib/cni/bridge && type containerd ctr runc ip >/dev/null 2>&1

.PHONY: e2e
e2e: parts build addons ## Run the end-to-end tests: the lifecycle of a cluster with Flux and Karpenter, and faults; then test-migration, test-charts, test-flux, test-state, test-clusterctl and test-upgrade. Needs no cloud. As root with containerd, runc and the CNI plugins, test-job too.
	CAPT_E2E=1 go test $(TEST_FLAGS) -count=1 -v -timeout 40m ./test/e2e
	CAPT_E2E=1 go test $(TEST_FLAGS) -count=1 -v -timeout 10m -run TestInterrupt ./test/chaos
	@$(MAKE) --no-print-directory test-migration
	@$(MAKE) --no-print-directory test-charts
	@$(MAKE) --no-print-directory test-flux
	@$(MAKE) --no-print-directory test-state
	@$(MAKE) --no-print-directory test-clusterctl
	@$(MAKE) --no-print-directory test-upgrade
	@if $(HAS_NODE); then \
	  $(MAKE) --no-print-directory test-job; else echo "test-job is skipped: it needs root, containerd, runc and the CNI plugins"; fi

.PHONY: test-quickstart
test-quickstart: parts-quickstart ui-optional build addons ## Run the steps of quickstart as a test, twice, with crashes in between, and check that nothing is left.
	CAPT_TEST_QUICKSTART=1 go test $(TEST_FLAGS) -count=1 -v -timeout 20m ./test/quickstart

.PHONY: test-migration
test-migration: parts build addons ## Move a running Karpenter from Terraform to Flux and back, with crashes in between; the Helm provider is a stand-in.
	CAPT_E2E=1 go test $(TEST_FLAGS) -count=1 -v -timeout 20m ./test/migration

.PHONY: test-state
test-state: parts-test build ## Test that no state is lost, with the S3 backend on an emulator too; needs Python 3 and PyPI.
	@cd dev && go run ./awsemulator sh -c 'cd .. && CAPT_TEST_S3=$$AWS_ENDPOINT_URL go test $(TEST_FLAGS) -count=1 -timeout 30m ./internal/terraform/process ./internal/testenv/statetest'

.PHONY: test-flux
test-flux: parts-test build ## Take modules from Git, an OCI registry and a bucket with Flux's source-controller; the bucket is on an emulator, which needs Python 3 and PyPI.
	@cd dev && go run ./parts -link ../$(PARTS) source-controller
	@cd dev && go run ./awsemulator sh -c 'cd .. && CAPT_TEST_S3=$$AWS_ENDPOINT_URL CAPT_TEST_FLUX=1 go test $(TEST_FLAGS) -count=1 -v -timeout 20m -run TestFlux ./test/engine'

.PHONY: test-clusterctl
test-clusterctl: parts build ## Install, upgrade, move and delete CAPT with the real clusterctl, from a repository on disk, and restore a lost management cluster from etcd and from clusterctl; needs jq.
	CAPT_TEST_CLUSTERCTL=1 go test $(TEST_FLAGS) -count=1 -v -timeout 20m ./test/clusterctl

.PHONY: test-upgrade
test-upgrade: parts-test build ## Replace the previous version of CAPT by this one, with living workspaces, an interrupted run and a waiting plan; needs the history of the repository.
	CAPT_TEST_UPGRADE=1 go test $(TEST_FLAGS) -count=1 -v -timeout 20m ./test/upgrade

.PHONY: test-job
test-job: build ## Run the tests that need pods, on a real node, with the S3 backend on an emulator too; needs root, containerd, runc, the CNI plugins, Python 3 and PyPI.
	@cd dev && go run ./parts -link ../$(PARTS) test kube-scheduler kubelet terraform-provider-aws
	@$(IMAGE) -images capt,capt-runner -o ../bin/images -archives
	@cd dev && go run ./awsemulator sh -c 'cd .. && CAPT_TEST_S3=$$AWS_ENDPOINT_URL CAPT_TEST_NODE=1 go test $(TEST_FLAGS) -count=1 -p 1 -timeout 40m ./internal/testenv ./internal/terraform/job ./test/job'

.PHONY: test-identities
test-identities: build ## Give runs in pods an identity in AWS by IRSA, Pod Identity and the keys of a session; needs root, containerd, runc and the CNI plugins.
	@cd dev && go run ./parts -link ../$(PARTS) test kube-scheduler kubelet terraform-provider-aws
	@$(IMAGE) -images capt-runner -o ../bin/images -archives
	CAPT_TEST_NODE=1 go test $(TEST_FLAGS) -count=1 -v -timeout 20m -run IdentitiesOfAWS ./test/job

.PHONY: test-ui
test-ui: parts-test ui build ## Test the page of captctl ui in a browser, with the environment of quickstart too; needs npm and Chromium (apt-get install chromium fonts-noto-cjk). Screenshots go to out/ui.
	CAPT_TEST_UI=1 go test $(TEST_FLAGS) -count=1 -v -timeout 20m ./test/ui

.PHONY: docs-images
docs-images: parts-test ui ## Write the images of the page to docs/images, for README and docs; needs npm and Chromium.
	CAPT_TEST_UI=1 CAPT_DOCS_IMAGES=1 go test -count=1 -v -timeout 10m -run TestPages_areInTheDocumentation ./test/ui

# The packages that decide and touch nothing: no API server, no process, no clock.
PURE    := ./internal/message ./internal/kubernetes/... ./internal/addon/render ./internal/addon/targetpath ./internal/addon/versions \
           ./internal/cluster/desired ./internal/cluster/machines ./internal/cluster/ownership ./internal/terraform ./internal/terraform/placeholder ./internal/terraform/queue
MUTANTS ?= 40

# The packages whose tests run the manager, or parts of it.
MANAGED := ./test/config ./test/engine ./test/cluster ./test/contract ./test/manager ./test/tenancy \
           ./internal/controllers/... ./internal/manager ./internal/terraform/job ./internal/terraform/process

.PHONY: unused-rules
unused-rules: parts-test build ## Run the integration tests with the shipped roles of the manager, and fail if a request is denied, or if nothing used a rule of its ClusterRole.
	@rm -rf out/audit && mkdir -p out/audit
	CAPT_AUDIT_DIR=$(CURDIR)/out/audit go test $(TEST_FLAGS) -count=1 -timeout 40m $(MANAGED)
	@cd dev && go run ./rules -role ../config/rbac/role.yaml ../out/audit

.PHONY: mutate
mutate: ## Change operators in the pure packages, and check that their tests notice; MUTANTS=… for each package, SEED=… chooses which.
	@cd dev && go run ./mutate -dir .. -mutants $(MUTANTS) $(if $(filter command line,$(origin SEED)),-seed $(SEED)) $$(cd .. && go list $(PURE))

SEED      ?= 1
SCHEDULES ?= 12
BACKEND   ?= kubernetes
EXECUTOR  ?= process
LOAD      ?= 0
CHAOS      = bin/chaos -seed $(SEED) -schedules $(SCHEDULES) -executor $(EXECUTOR) -backend $(BACKEND) -load $(LOAD) -out out/chaos.json

# The last command replaces the shell, so that it receives the signals that make does, and can clean up.
.PHONY: chaos
chaos: parts-test build ## Kill everything at random while workspaces change, and check that nothing is lost; SEED=… SCHEDULES=… choose the faults, EXECUTOR=process|job the executor (job needs what test-job needs), BACKEND=kubernetes|http|s3 the backend (s3 needs Python 3 and PyPI), LOAD=… busy loops; numbers go to out/chaos.json.
	$(if $(filter job,$(EXECUTOR)),@cd dev && go run ./parts -link ../$(PARTS) kube-scheduler kubelet)
	@go build -o bin/chaos ./test/chaos
	$(if $(filter s3,$(BACKEND)),@cd dev && go build -o ../bin/awsemulator ./awsemulator)
	$(if $(filter s3,$(BACKEND)),exec bin/awsemulator $(CHAOS),exec $(CHAOS))

##@ Documentation

.PHONY: docs
docs: ## Check the documentation and build it as a site to out/site; needs Python 3 and PyPI.
	@cd dev && go run ./docs build

.PHONY: test-docs
test-docs: parts-test build ## Run the commands of the documentation that are marked as run, in local management clusters; needs jq.
	CAPT_TEST_DOCS=1 go test $(TEST_FLAGS) -count=1 -v -timeout 20m ./test/docs

##@ Benchmarks

CLUSTERS ?= 200
WORKSPACES ?= 1000
.PHONY: scale
scale: parts-test build ## Create 200 clusters and 1,000 workspaces at once, count the writes of the idle manager, restart it, and check that its working set stays below the memory limit of the manifests; CLUSTERS and WORKSPACES change the numbers; results go to out/scale.json.
	CAPT_FLEET=$(CLUSTERS) CAPT_FLEET_WORKSPACES=$(WORKSPACES) CAPT_LARGE_OBJECTS=500 CAPT_SCALE_OUT=$(CURDIR)/out/scale.json go test $(TEST_FLAGS) -count=1 -v -timeout 90m ./test/fleet

.PHONY: bench
bench: parts-test build ## Compare the engine with running the binary directly, with small modules and, if there is Python 3, with the AWS provider on an emulator; numbers go to out/bench.json. As root with containerd, runc and the CNI plugins, a run as a Job too.
	@cd dev && go run ./parts -link ../$(PARTS) modules
	@if $(HAS_NODE); then cd dev && go run ./parts -link ../$(PARTS) kube-scheduler kubelet; fi
	go run ./test/bench -out out/bench.json

##@ Release

VERSION ?=
DRY_RUN ?=

# Programs read VERSION from the environment: neither make nor a shell expands its text.
RELEASE_TARGETS := update-version update-changelog check-release docker-buildx push-images build-installer push-chart create-github-release
$(RELEASE_TARGETS): override export VERSION := $(value VERSION)

# Each target takes VERSION=X.Y.Z and can be repeated. DRY_RUN=1 shows what it would do.
DRY     := $(filter-out 0,$(DRY_RUN))
RELEASE := cd dev && go run ./release -root .. $(if $(DRY),-dry-run)

.PHONY: update-version
update-version: ## Write VERSION=X.Y.Z into the files that contain it.
	@$(RELEASE) version

.PHONY: update-changelog
update-changelog: ## Move the unreleased changes of CHANGELOG.md to VERSION=X.Y.Z.
	@$(RELEASE) changelog

# The images of a release have all platforms, those of "make images" this machine's.
PUBLIC_REGISTRY   := ghcr.io/appthrust
REGISTRY          ?= $(PUBLIC_REGISTRY)
PLATFORMS         ?=
RELEASE_PLATFORMS := linux/amd64,linux/arm64,linux/s390x,linux/ppc64le
IMAGE              = cd dev && go run ./image build -registry $(REGISTRY)
IMAGE_PUSH         = cd dev && go run ./image push $(if $(filter-out 0,$(ALLOW_OUTDATED)),-allow-outdated)

# Only a tagged commit of the main branch is pushed to the public registry.
.PHONY: check-release
check-release: ## Check that the committed tree is that of VERSION=X.Y.Z.
	@$(RELEASE) $(if $(DRY),,$(if $(filter docker-buildx push-images push-chart,$(MAKECMDGOALS)),$(if $(filter $(PUBLIC_REGISTRY),$(REGISTRY)),-tagged))) check

.PHONY: docker-buildx
docker-buildx: check-release ui-optional ## Build the container images of VERSION=X.Y.Z to dist/images, and push them unless DRY_RUN=1; REGISTRY=… pushes to another registry, PLATFORMS=linux/amd64,… builds fewer.
	@$(IMAGE) -platforms $(or $(PLATFORMS),$(RELEASE_PLATFORMS))
	$(if $(DRY),,@$(IMAGE_PUSH))

.PHONY: push-images
push-images: check-release ## Push the images in dist/images, unless DRY_RUN=1; ALLOW_OUTDATED=1 accepts packages without their updates.
	@$(IMAGE_PUSH) $(if $(DRY),-dry-run)

.PHONY: images
images: ui-optional ## Build the container images of this commit to dist/images, as an OCI layout and as archives; PLATFORMS=linux/amd64,… (default: this machine's).
	@$(IMAGE) $(if $(PLATFORMS),-platforms $(PLATFORMS)) -archives

# The packages of PyPI that the checks use. Known versions are kept: change requirements.in,
# or delete requirements.txt to update all.
PYTHON_PACKAGES := dev/awsemulator dev/docs
UV              ?= uv

.PHONY: python-lock
python-lock: ## Pin the PyPI packages of requirements.in, and all that they need, with the hashes of their files; needs uv and PyPI.
	@for dir in $(PYTHON_PACKAGES); do \
	  $(UV) pip compile --quiet --universal --generate-hashes --python-version 3.11 --no-header --no-annotate --no-emit-index-url \
	    --output-file $$dir/requirements.txt $$dir/requirements.in || exit 1; done

.PHONY: debian-lock
debian-lock: ## Pin the current versions of the Debian packages in the images, in dev/image/debian.lock.
	@cd dev && go run ./image lock

.PHONY: build-captctl
build-captctl: ui-optional ## Build captctl, with its page, to dist/captctl_OS_ARCHITECTURE.tar.gz; PLATFORMS=linux/amd64,… (default: all of a release, this machine's of a development version).
	@cd dev && go run ./captctl $(if $(PLATFORMS),-platforms $(PLATFORMS))

# The files of an earlier build are removed, so that a release has none of them.
.PHONY: build-installer
build-installer: ## Write the files of release VERSION=X.Y.Z (default: that of the tree) to dist/: install.yaml, the files of clusterctl, templates, the chart, captctl, checksums.
	@if test -d dist; then find dist -maxdepth 1 -type f -delete; fi
	@cd dev && go run ./manifests build -version "$$VERSION"
	@cd dev/bin/charts && go run . package -chart ../../../charts/capt -version "$$VERSION" -out ../../../dist -images ../../../dist/images/release.json -commit "$$(git rev-parse HEAD)"
	@$(MAKE) --no-print-directory build-captctl
	@$(RELEASE) seal

.PHONY: dist-sums
dist-sums: ## Print the checksums of all files in dist/, with those of the images, to compare builds of a release.
	@cd dist && find . -type f ! -name '*.sigstore.json' -exec sha256sum {} + | LC_ALL=C sort -k 2

.PHONY: push-chart
push-chart: check-release ## Push the chart of VERSION=X.Y.Z in dist/ to oci://$(REGISTRY)/charts, unless DRY_RUN=1.
	@test -f "dist/capt-$$VERSION.tgz" || { echo "dist/capt-$$VERSION.tgz is missing: run make build-installer VERSION=$$VERSION"; exit 1; }
	@mkdir -p dist/images
	@cd dev/bin/charts && $(if $(DRY),echo would run:) go run . push -package "../../../dist/capt-$$VERSION.tgz" -registry $(REGISTRY) -digest-file ../../../dist/images/chart.txt

.PHONY: create-github-release
create-github-release: ## Publish dist/ as release VERSION=X.Y.Z on GitHub; needs GITHUB_TOKEN.
	@$(RELEASE) github
