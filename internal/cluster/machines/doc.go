// Package machines decides what sets and deployments of CAPTMachines do: which
// machines to create or delete, the size of each set of a deployment, and whether
// a rollout makes progress. It is pure: controllers pass the observed state in and
// carry out the returned actions.
//
// # Changes of the template
//
// A field that the Terraform module can change on a running node is updated in
// place: the current set takes it over and passes it on to its machines. A change
// of any other field requires a new machine, and therefore a new set.
//
//	field of spec.template        change
//	metadata.labels               in place
//	metadata.annotations          in place
//	spec.labels                   in place
//	spec.taints                   in place
//	spec.tags                     in place
//	spec.drain                    in place
//	spec.workspaceTemplateRef     new machine
//	spec.instanceType             new machine
//	spec.version                  new machine, if the minor version changes
//	spec.nodeGroupRef             new machine
//	spec.failureDomain            new machine
//	spec.variables                new machine
//
// A set without a deployment also updates its machines in place. Its other fields
// apply to machines that it creates later.
//
// # Counting machines
//
// A machine is ready when its Ready condition is True, and available when it has
// been ready for minReadySeconds. A machine that is being deleted is neither, and
// does not count as a replica.
//
// The arithmetic of a rollout is that of a Kubernetes Deployment, with these
// differences, which keep its guarantees:
//
//   - A set grows only after every set has observed its latest size, and machines
//     that still exist count. The machines, not only the desired numbers, stay
//     within maxSurge.
//   - The machines that a set will lose are computed one by one, because a marked
//     machine goes first even if it is available. A rollout keeps the availability
//     whatever is marked. Only scaling down deletes marked machines regardless of
//     availability.
//   - A set does not shrink while the deployment is scaled up. While it is scaled
//     down, availability takes precedence over proportions.
package machines
