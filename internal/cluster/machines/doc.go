// Package machines decides what sets and deployments of CAPTMachines do: which
// machine belongs to whom, which one goes first, how large each set of a
// deployment is to be, and whether a rollout advances. It talks to nobody: state
// goes in, actions come out, and the controllers carry them out.
//
// # What a change of the template does
//
// A field that the Terraform module changes on a running node is changed in
// place: the current set takes it over and hands it to its machines. A change of
// any other field needs a new machine, and so a new set.
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
//	spec.nodeGroupRef             new machine
//	spec.failureDomain            new machine
//	spec.variables                new machine
//
// A set that stands alone changes its machines in place too; its other fields
// are for the machines it makes from then on.
//
// # What is counted
//
// A machine is ready when its condition Ready is True, and available when it has
// been so for minReadySeconds. One that is being deleted is neither, and is no
// replica any more.
//
// The arithmetic of a rollout is that of a Deployment of Kubernetes. It differs
// where that would break a promise:
//
//   - A set grows only after every set has acted on its latest size, and what
//     still exists counts; so the machines themselves, not only the wanted
//     numbers, stay within maxSurge.
//   - What a set will lose is foreseen machine by machine, because a machine that
//     a person marked goes first even if it is available; so a rollout keeps
//     availability whatever is marked. Only who wants fewer machines, and marks
//     available ones, gets what he asks for.
//   - A set does not shrink while a deployment is scaled up, and while it is
//     scaled down proportions give way to availability.
package machines
