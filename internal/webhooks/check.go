package webhooks

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// offline are the checks of all kinds. Each ignores objects of other kinds.
var offline = []func(client.Object) field.ErrorList{
	checkOf(captClusterRules),
	checkOf(captClusterTemplateRules),
	checkOf(captMachineRules),
	checkOf(captMachineTemplateRules),
	checkOf(captMachineSetRules),
	checkOf(captMachineDeploymentRules),
	checkOf(captMachinePoolRules),
	checkOf(captMachinePoolTemplateRules),
	checkOf(workspaceTemplateRules),
	checkOf(workspaceTemplateApplyRules),
	checkOf(workspaceProviderConfigRules),
	checkOf(workspacePolicyRules),
	checkOf(clusterWorkspacePolicyRules),
	checkOf(workspaceNotificationRules),
	checkOf(captControlPlaneRules),
	checkOf(captControlPlaneTemplateRules),
	checkOf(captBootstrapConfigTemplateRules),
	checkOf(captAddonRules),
}

func checkOf[T client.Object](r rules[T]) func(client.Object) field.ErrorList {
	return func(obj client.Object) field.ErrorList {
		if typed, ok := obj.(T); ok && r.object != nil {
			return r.object(typed)
		}
		return nil
	}
}

// Check returns the errors that the webhooks would return for a new object. It
// needs no cluster.
func Check(obj client.Object) field.ErrorList {
	var errs field.ErrorList
	for _, check := range offline {
		errs = append(errs, check(obj)...)
	}
	return errs
}

// SetDefaults sets the defaults that the webhooks would set. It needs no cluster.
func SetDefaults(obj client.Object) {
	for _, set := range []func(client.Object){
		defaultsOf(defaultMachineSet), defaultsOf(defaultMachineDeployment), defaultsOf(defaultControlPlane),
	} {
		set(obj)
	}
}

func defaultsOf[T client.Object](d defaulter[T]) func(client.Object) {
	return func(obj client.Object) {
		if typed, ok := obj.(T); ok {
			d(typed)
		}
	}
}
