package main

// exceptions are permissions that the manager needs although no request in the logs shows
// them, with the reason.
var exceptions = map[permission]string{
	{"addons.cluster.x-k8s.io", "clusterresourcesets", "create"}:              "a server-side apply, which the log has as a patch, creates the object",
	{"infrastructure.cluster.x-k8s.io", "workspacetemplateapplies", "create"}: "a server-side apply, which the log has as a patch, creates the object",
}
