package doctor

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/text"
)

// referenceFixes are the reasons of workspaces that use what does not exist, with the fix.
var referenceFixes = map[string]string{
	infrav1.WaitingForTemplateReason:       "create the template with kubectl apply, or change spec.templateRef",
	infrav1.WaitingForProviderConfigReason: "create the WorkspaceProviderConfig with kubectl apply; see examples/provider-config-aws.yaml",
}

// credentials reports provider configs that are not ready, and workspaces whose template or provider
// config does not exist, with what the manager found.
func (d *Doctor) credentials(ctx context.Context) ([]Result, error) {
	var configs infrav1.WorkspaceProviderConfigList
	if err := d.list(ctx, &configs); err != nil {
		return nil, err
	}
	var problems []Result
	for i := range configs.Items {
		config := &configs.Items[i]
		if ready := conditions.Get(config, infrav1.ReadyCondition); ready != nil && ready.Status == metav1.ConditionFalse {
			fix := fmt.Sprintf("kubectl edit -n %s workspaceproviderconfig/%s", config.Namespace, config.Name)
			if ready.Reason == infrav1.WaitingForSecretReason {
				fix = fmt.Sprintf("kubectl create secret generic -n %s NAME --from-file=KEY=FILE with the names in the message, or %s", config.Namespace, fix)
			}
			problems = append(problems, Result{Status: Fail, Object: objectName("WorkspaceProviderConfig", config), Message: ready.Reason + ": " + ready.Message, Fix: fix})
		}
	}
	applies, err := d.workspaces(ctx)
	if err != nil {
		return nil, err
	}
	for i := range applies {
		ready := conditions.Get(&applies[i], infrav1.ReadyCondition)
		if ready == nil || ready.Status == metav1.ConditionTrue || referenceFixes[ready.Reason] == "" {
			continue
		}
		problems = append(problems, Result{
			Status: Fail, Object: objectName("WorkspaceTemplateApply", &applies[i]), Message: ready.Reason + ": " + ready.Message, Fix: referenceFixes[ready.Reason],
		})
	}
	return orOK(problems, "%s, all references exist", text.Count(len(configs.Items), "provider config")), nil
}
