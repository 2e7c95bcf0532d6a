package webhooks

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta1-captmachine,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=captmachines,versions=v1beta1,name=validation.captmachine.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta1-captmachinetemplate,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=captmachinetemplates,versions=v1beta1,name=validation.captmachinetemplate.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/mutate-infrastructure-cluster-x-k8s-io-v1beta1-captmachinetemplate,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=captmachinetemplates,versions=v1beta1,name=default.captmachinetemplate.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta1-captmachineset,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=captmachinesets,versions=v1beta1,name=validation.captmachineset.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/mutate-infrastructure-cluster-x-k8s-io-v1beta1-captmachineset,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=captmachinesets,versions=v1beta1,name=default.captmachineset.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta1-captmachinedeployment,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=captmachinedeployments,versions=v1beta1,name=validation.captmachinedeployment.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/mutate-infrastructure-cluster-x-k8s-io-v1beta1-captmachinedeployment,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=captmachinedeployments,versions=v1beta1,name=default.captmachinedeployment.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta1-captmachinepool,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=captmachinepools,versions=v1beta1,name=validation.captmachinepool.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta1-captmachinepooltemplate,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=captmachinepooltemplates,versions=v1beta1,name=validation.captmachinepooltemplate.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/mutate-infrastructure-cluster-x-k8s-io-v1beta1-captmachinepooltemplate,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=captmachinepooltemplates,versions=v1beta1,name=default.captmachinepooltemplate.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

var captMachineRules = rules[*infrav1.CAPTMachine]{
	kind: &infrav1.CAPTMachine{},
	object: func(m *infrav1.CAPTMachine) field.ErrorList {
		return checkInstances(field.NewPath("spec"), m.Spec.Labels, m.Spec.Tags, m.Spec.Variables)
	},
	// CEL does not see values of any type.
	change: func(_ context.Context, before, after *infrav1.CAPTMachine) field.ErrorList {
		if equality.Semantic.DeepEqual(before.Spec.Variables, after.Spec.Variables) {
			return nil
		}
		return field.ErrorList{field.Forbidden(field.NewPath("spec", "variables"), "variables cannot be changed: create another machine and delete this one, which drains its node")}
	},
}

var captMachineTemplateRules = templateRules(&infrav1.CAPTMachineTemplate{}, func(t *infrav1.CAPTMachineTemplate) templated {
	m := &t.Spec.Template.Spec
	return templated{
		metadata: &t.Spec.Template.ObjectMeta, content: t.Spec.Template, ref: &m.WorkspaceTemplateRef,
		check: func(spec *field.Path) field.ErrorList { return checkInstances(spec, m.Labels, m.Tags, m.Variables) },
	}
})

var captMachineSetRules = rules[*infrav1.CAPTMachineSet]{
	kind: &infrav1.CAPTMachineSet{},
	object: func(s *infrav1.CAPTMachineSet) field.ErrorList {
		return checkMachines(s.Labels, s.Spec.ClusterName, &s.Spec.Selector, &s.Spec.Template)
	},
	defaulter: defaults[*infrav1.CAPTMachineSet](func(s *infrav1.CAPTMachineSet) {
		defaultClusterLabel(s.Spec.ClusterName, &s.ObjectMeta, &s.Spec.Template.ObjectMeta, &s.Spec.Selector)
	}),
}

var captMachineDeploymentRules = rules[*infrav1.CAPTMachineDeployment]{
	kind: &infrav1.CAPTMachineDeployment{},
	object: func(d *infrav1.CAPTMachineDeployment) field.ErrorList {
		return checkMachines(d.Labels, d.Spec.ClusterName, &d.Spec.Selector, &d.Spec.Template)
	},
	defaulter: defaults[*infrav1.CAPTMachineDeployment](func(d *infrav1.CAPTMachineDeployment) {
		defaultClusterLabel(d.Spec.ClusterName, &d.ObjectMeta, &d.Spec.Template.ObjectMeta, &d.Spec.Selector)
	}),
}

var captMachinePoolRules = rules[*infrav1.CAPTMachinePool]{
	kind: &infrav1.CAPTMachinePool{},
	object: func(p *infrav1.CAPTMachinePool) field.ErrorList {
		return checkInstances(field.NewPath("spec"), p.Spec.Labels, p.Spec.Tags, p.Spec.Variables)
	},
}

var captMachinePoolTemplateRules = templateRules(&infrav1.CAPTMachinePoolTemplate{}, func(t *infrav1.CAPTMachinePoolTemplate) templated {
	p := &t.Spec.Template.Spec
	return templated{
		metadata: &t.Spec.Template.ObjectMeta, content: t.Spec.Template, ref: &p.WorkspaceTemplateRef,
		check: func(spec *field.Path) field.ErrorList { return checkInstances(spec, p.Labels, p.Tags, p.Variables) },
	}
})

// checkMachines checks the machines of a set or deployment.
func checkMachines(labels map[string]string, clusterName string, selector *metav1.LabelSelector, template *infrav1.MachineTemplate) field.ErrorList {
	spec, m := field.NewPath("spec"), &template.Spec
	errs := checkClusterLabel(field.NewPath("metadata", "labels"), labels, clusterName)
	errs = append(errs, checkMachineLabels(spec, selector, &template.ObjectMeta, clusterName)...)
	return append(errs, checkInstances(spec.Child("template", "spec"), m.Labels, m.Tags, m.Variables)...)
}

// checkInstances checks what machines and pools have in common.
func checkInstances(spec *field.Path, labels, tags map[string]string, variables map[string]infrav1.Value) field.ErrorList {
	errs := metav1validation.ValidateLabels(labels, spec.Child("labels"))
	errs = append(errs, checkTags(spec.Child("tags"), tags)...)
	return append(errs, checkVariables(spec.Child("variables"), variables)...)
}
