package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is the group and version of the kinds in this package.
	GroupVersion = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1"}

	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme registers the kinds in a scheme.
	AddToScheme = schemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&CAPTCluster{}, &CAPTClusterList{},
		&CAPTClusterTemplate{}, &CAPTClusterTemplateList{},
		&CAPTMachine{}, &CAPTMachineList{},
		&CAPTMachineTemplate{}, &CAPTMachineTemplateList{},
		&CAPTMachineSet{}, &CAPTMachineSetList{},
		&CAPTMachineDeployment{}, &CAPTMachineDeploymentList{},
		&CAPTMachinePool{}, &CAPTMachinePoolList{},
		&CAPTMachinePoolTemplate{}, &CAPTMachinePoolTemplateList{},
		&WorkspaceTemplate{}, &WorkspaceTemplateList{},
		&WorkspaceTemplateApply{}, &WorkspaceTemplateApplyList{},
		&WorkspaceProviderConfig{}, &WorkspaceProviderConfigList{},
		&CAPTReferenceGrant{}, &CAPTReferenceGrantList{},
		&WorkspacePolicy{}, &WorkspacePolicyList{},
		&ClusterWorkspacePolicy{}, &ClusterWorkspacePolicyList{},
		&WorkspaceNotification{}, &WorkspaceNotificationList{},
		&WorkspaceApproval{}, &WorkspaceApprovalList{},
		&WorkspaceOperation{}, &WorkspaceOperationList{},
		&WorkspacePlan{}, &WorkspacePlanList{},
		&WorkspaceRun{}, &WorkspaceRunList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
