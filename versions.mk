# Versions of everything CAPT is built from and tested with: the one place to
# change them. `make verify` checks that every go.mod agrees.

# The toolchain of releases: images and archives are reproducible with this Go only.
GO_VERSION                 := v1.26.8

CLUSTER_API_VERSION        := v1.14.2
CONTROLLER_RUNTIME_VERSION := v0.24.1
KUBERNETES_LIBRARY_VERSION := v0.36.3

KUBERNETES_VERSION         := v1.37.1
ETCD_VERSION               := v3.7.3
KWOK_VERSION               := v0.8.0
KARPENTER_VERSION          := v1.14.1
OPENTOFU_VERSION           := v1.12.6
AWS_PROVIDER_VERSION       := v1.60.1-0.20260602190131-5f2286d6d836
LOCAL_PROVIDER_VERSION     := v1.4.1-0.20260806152022-9068a4b7aa37
FLUX_VERSION               := v2.9.5
HELM_VERSION               := v4.2.4
HELM_CONTROLLER_VERSION    := v1.6.4
SOURCE_CONTROLLER_VERSION  := v1.9.5

GOLANGCI_LINT_VERSION      := v2.14.0
CONTROLLER_TOOLS_VERSION   := v0.23.0
GOVULNCHECK_VERSION        := v1.8.0
