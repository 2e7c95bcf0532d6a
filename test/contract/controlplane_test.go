package contract

import (
	"testing"
)

func TestControlPlane_keepsTheContract(t *testing.T) {
	const managed = "a managed control plane: the cloud runs its instances, and no Machine stands for one"
	noMachines := notApplicable(managed, hasNoMachines)
	noCertificates := notApplicable("a managed control plane: the cloud keeps its certificates", hasNoCertificates)
	walk(t, contract{page: "control-plane.md", sum: "03107bcf453aa205", subject: captControlPlane, sections: sections{
		"Contract rules for ControlPlane": {
			"MUST implement a ControlPlane resource using Kubernetes'": isCRD,
			"should be left to users to apply":                         leavesNetworkToUsers,
			"MUST be done to ensure security around":                   keepsKeysSecret,
		},
		"All resources: APIVersion field value": {
			"MUST applies to both API group and": groupAndVersion,
		},
		"ControlPlane, ControlPlaneList resource definition": {
			"MUST define a ControlPlane resource": all(isDefined, hasFields("spec", "status")),
		},
		"ControlPlane: endpoint": {
			"MUST surface on spec.controlPlaneEndpoint in the ControlPlane": all(hasFields(endpointFields...), givesEndpoint),
			"should exit reconciliation until it sees Cluster's":            notApplicable("CAPTControlPlane is responsible for the endpoint", givesEndpoint),
		},
		"ControlPlane: replicas": {
			"MUST be implemented in the ControlPlane spec":   notApplicable(managed, lacks("spec.replicas")),
			"MUST be implemented in the ControlPlane status": notApplicable(managed, lacks("status.selector", "status.replicas", "status.readyReplicas", "status.availableReplicas", "status.upToDateReplicas")),
			"MUST support the scale subresource with the":    notApplicable(managed, lacks("spec.replicas"), hasNoScale),
		},
		"ControlPlane: version": {
			"MUST be implemented in the ControlPlane spec":        all(hasFields("spec.version"), versionReachesTemplate),
			"must be a valid semantic version also":               requiresSemanticVersion,
			"MUST report version information in the ControlPlane": reportsVersion,
			"MUST be ordered from the older to":                   all(hasFields("status.versions", "status.version"), ordersVersions),
			"MUST include a valid semantic version and":           all(hasFields("status.versions", "status.version"), reportsSemanticVersions, lacks("spec.replicas")),
			"should be of type string it was":                     all(hasType("status.version", "string"), hasType("spec.version", "string")),
		},
		"ControlPlane: machines": {
			"MUST set the cluster.x-k8s.io/control-plane label with an":               noMachines,
			"MUST be implemented in the ControlPlane spec":                            notApplicable(managed, hasNoMachines, lacks("spec.machineTemplate")),
			"should be shaped when creating or updating":                              noMachines,
			"must be propagated to machines without triggering":                       noMachines,
			"SHOULD also implement the following spec.machineTemplate.spec field":     notApplicable(managed, hasNoMachines, lacks("spec.machineTemplate")),
			"SHOULD also implement the following spec.machineTemplate.spec field (2)": notApplicable(managed, hasNoMachines, lacks("spec.machineTemplate")),
			"SHOULD also implement the following status field":                        all(hasFields("status.externalManagedControlPlane"), isExternallyManaged),
			"should be set to true if the":                                            isExternallyManaged,
			"should be of type *bool it was":                                          all(hasType("status.externalManagedControlPlane", "boolean"), isExternallyManaged),
		},
		"ControlPlane: rolloutAfter": {
			"MUST be implemented in the ControlPlane spec": notApplicable(managed, lacks("spec.rollout", "spec.rolloutAfter")),
			"should be performed after the specified time": notApplicable(managed, lacks("spec.rollout", "spec.rolloutAfter")),
		},
		"ControlPlane: initialization completed": {
			"MUST report when the Kubernetes control plane": all(hasFields("status.initialization", "status.initialization.controlPlaneInitialized"), controlPlaneIsInitialized, controlPlaneStaysInitialized),
		},
		"ControlPlane: in-place updates": {
			"must be updated to the desired state": noMachines,
			"must be set":                          noMachines,
			"must be set as pending on the":        noMachines,
		},
		"ControlPlane: conditions": {
			"SHOULD implement status.conditions for their ControlPlane resource": controlPlaneHasConditions,
			"is expected to properly represents the fact":                        availableIsNotReady,
		},
		"ControlPlane: terminal failures": {
			"should be surfaced using conditions with a": controlPlaneShowsFailure,
		},
		"ControlPlaneTemplate, ControlPlaneTemplateList resource definition": {
			"should also add a corresponding ControlPlaneTemplate resources": all(templateIsDefined, templateHasFields("spec", "spec.template", "spec.template.metadata", "spec.template.spec")),
			"MUST be named as <ControlPlane>Template":                        templateIsNamed,
			"MUST also add the corresponding list resource":                  listIsServed(subject.template),
			"MUST be named as <ControlPlaneTemplate>List":                    listIsNamed(subject.template),
		},
		"Cluster kubeconfig management": {
			"are expected to create and maintain a":                                            all(kubeconfigConnects, kubeconfigIsRestored),
			"MUST not be shared with other users":                                              usersHaveTheirOwnKubeconfig,
			"MUST Be created in the same namespace":                                            kubeconfigIsNamed,
			"MUST Be named <cluster>-kubeconfig":                                               kubeconfigIsNamed,
			"MUST Have type cluster.x-k8s.io/secret":                                           kubeconfigIsTyped,
			"MUST Be labelled with the key-pair cluster.x-k8s.io/cluster-name=${CLUSTER_NAME}": kubeconfigIsLabelled,
			"MUST Have the base64 encoded kubeconfig in":                                       kubeconfigConnects,
			"MUST be kept with a reasonably short":                                             notApplicable("CAPT makes kubeconfigs with tokens; one that a template gives out is renewed by the template, and when it ends is reported", makesTokens, reportsExpiry, kubeconfigFollowsOutput),
		},
		"Cluster certificate management": {
			"are expected to create and maintain all":                                          noCertificates,
			"MUST In the same namespace where the":                                             noCertificates,
			"MUST Following a naming convention <cluster>-<certificate> common":                noCertificates,
			"MUST Have type cluster.x-k8s.io/secret":                                           noCertificates,
			"MUST Be labelled with the key-pair cluster.x-k8s.io/cluster-name=${CLUSTER_NAME}": noCertificates,
		},
		"Machine placement": {
			"are expected to place machines in failure":            noMachines,
			"should be spread across failure domains specifically": noMachines,
		},
		"Metadata propagation": {
			"are expected to implement similar propagation rules": noMachines,
			"should be propagated across the hierarchy of":        noMachines,
			"MUST be propagated to control plane instances":       noMachines,
		},
		"MinReadySeconds and UpToDate propagation": {
			"are expected to align to this effort":                          noMachines,
			"be expected to continuously set Machines spec.minReadySeconds": noMachines,
			"MUST be treated like other fields propagated":                  noMachines,
		},
		"Support for running multiple instances": {
			"SHOULD support the --namespace flag":    supportsNamespace,
			"SHOULD support the --watch-filter flag": supportsWatchFilter,
		},
		"ControlPlane: pausing": {
			"SHOULD implement the pause behaviour for every": pausesByBoth,
			"SHOULD surface the paused status of an":         showsPause,
		},
		"Typical ControlPlane reconciliation workflow": {
			"must respond to changes to its ControlPlane": controlPlaneFollowsChanges,
			"must watch for new updated and deleted":      all(controlPlaneIsInitialized, controlPlaneFollowsChanges, controlPlaneReportsReadyAlways),
		},
	}})
}
