package webhooks

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// offline are the rules of every kind; each answers for its own objects only.
var offline = []func(client.Object) field.ErrorList{
	checking(captClusterRules),
	checking(captClusterTemplateRules),
	checking(captMachineRules),
	checking(captMachineTemplateRules),
	checking(captMachineSetRules),
	checking(captMachineDeploymentRules),
	checking(captMachinePoolRules),
	checking(captMachinePoolTemplateRules),
	checking(workspaceTemplateRules),
	checking(workspaceTemplateApplyRules),
	checking(workspaceProviderConfigRules),
	checking(captControlPlaneRules),
	checking(captControlPlaneTemplateRules),
	checking(captBootstrapConfigTemplateRules),
	checking(captAddonRules),
}

func checking[T client.Object](r rules[T]) func(client.Object) field.ErrorList {
	return func(obj client.Object) field.ErrorList {
		if typed, ok := obj.(T); ok && r.object != nil {
			return r.object(typed)
		}
		return nil
	}
}

// Check returns what the webhooks would refuse in a new object, without a
// cluster.
func Check(obj client.Object) field.ErrorList {
	var errs field.ErrorList
	for _, check := range offline {
		errs = append(errs, check(obj)...)
	}
	return errs
}

// FillDefaults fills in what the webhooks would fill in, without a cluster.
func FillDefaults(obj client.Object) {
	for _, fill := range []func(client.Object){
		filling(defaultMachineSet), filling(defaultMachineDeployment), filling(defaultControlPlane),
	} {
		fill(obj)
	}
}

func filling[T client.Object](d defaulter[T]) func(client.Object) {
	return func(obj client.Object) {
		if typed, ok := obj.(T); ok {
			d(typed)
		}
	}
}
