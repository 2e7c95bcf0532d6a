package main

// exceptions are permissions that the manager needs although no request in the logs shows
// them, with the reason.
var exceptions = map[permission]string{
	{"addons.cluster.x-k8s.io", "clusterresourcesets", "create"}:              "a server-side apply, which the log has as a patch, creates the object",
	{"infrastructure.cluster.x-k8s.io", "workspacetemplateapplies", "create"}: "a server-side apply, which the log has as a patch, creates the object",
	{"infrastructure.cluster.x-k8s.io", "workspaceapprovals", "create"}:       askedByApproval,
	{"infrastructure.cluster.x-k8s.io", "workspaceapprovals", "approve-own"}:  askedByApproval,
	{"infrastructure.cluster.x-k8s.io", "captmachinepools", "delete"}:         "a deleted control plane deletes pools without a MachinePool, which no integration test has",
	{"", "events", "patch"}:                                  "an event of a leader's election that is repeated, in a namespace that --leader-elect-namespace chooses",
	{"events.k8s.io", "events", "patch"}:                     "an event that is repeated within minutes becomes a series, and those of the tests differ",
	{"source.toolkit.fluxcd.io", "ocirepositories", "get"}:   testFlux,
	{"source.toolkit.fluxcd.io", "ocirepositories", "list"}:  testFlux,
	{"source.toolkit.fluxcd.io", "ocirepositories", "watch"}: testFlux,
	{"source.toolkit.fluxcd.io", "buckets", "get"}:           testFlux,
	{"source.toolkit.fluxcd.io", "buckets", "list"}:          testFlux,
	{"source.toolkit.fluxcd.io", "buckets", "watch"}:         testFlux,
}

const (
	testFlux        = "only make test-flux has this kind of Flux"
	askedByApproval = "config/policy/approval.yaml asks for it when the manager passes an approval on to another namespace"
)
