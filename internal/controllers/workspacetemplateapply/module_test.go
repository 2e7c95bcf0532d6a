package workspacetemplateapply

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

func TestPinModule(t *testing.T) {
	module := terraform.Module{Source: terraform.SourceRemote, Address: "git::https://example.com/x.git?ref=main"}
	resolved := &infrav1.ModuleStatus{Digest: "d", Revision: "r", Archive: "a", Source: moduleSource(module), Inputs: "i"}
	other := resolved.DeepCopy()
	other.Source = "other"
	pin := &terraform.ModuleContent{Digest: "d", Revision: "r", Archive: "a"}
	for name, tc := range map[string]struct {
		operation terraform.Operation
		resolved  *infrav1.ModuleStatus
		inputs    string
		requested bool
		want      *terraform.ModuleContent
		refetch   bool
	}{
		"the first run":                      {terraform.OperationPlan, nil, "i", false, nil, false},
		"the same inputs":                    {terraform.OperationPlanAndApply, resolved, "i", false, pin, false},
		"other inputs":                       {terraform.OperationPlan, resolved, "j", false, nil, true},
		"the same inputs on request":         {terraform.OperationPlanAndApply, resolved, "i", true, nil, true},
		"a saved plan":                       {terraform.OperationApply, resolved, "i", false, pin, false},
		"a saved plan on request":            {terraform.OperationApply, resolved, "i", true, pin, false},
		"a drift check":                      {terraform.OperationCheckDrift, resolved, "j", false, pin, false},
		"a destroy after the inputs changed": {terraform.OperationDestroy, resolved, "j", false, pin, false},
		"a destroy after the module changed": {terraform.OperationDestroy, other, "i", false, nil, true},
		"a state command on request":         {terraform.OperationStateCommand, resolved, "i", true, pin, false},
		"a destroy on request":               {terraform.OperationDestroy, resolved, "i", true, nil, true},
	} {
		request := &terraform.Request{Operation: tc.operation, Module: module}
		pinModule(request, tc.resolved, tc.inputs, tc.requested)
		g := NewWithT(t)
		g.Expect(request.Module.Pin).To(Equal(tc.want), name)
		g.Expect(request.Module.Refetch).To(Equal(tc.refetch), name)
	}
}

func TestRecordModule(t *testing.T) {
	content := &terraform.ModuleContent{Digest: "d", Revision: "r", Archive: "a"}
	for name, tc := range map[string]struct {
		operation terraform.Operation
		content   *terraform.ModuleContent
		source    string
		want      *infrav1.ModuleStatus
	}{
		"a plan":                     {terraform.OperationPlan, content, "s", &infrav1.ModuleStatus{Digest: "d", Revision: "r", Archive: "a", Source: "s", Inputs: "i"}},
		"nothing fetched":            {terraform.OperationPlan, nil, "s", nil},
		"a run of an earlier CAPT":   {terraform.OperationPlan, content, "", nil},
		"a destroy resolves nothing": {terraform.OperationDestroy, content, "s", nil},
	} {
		s := &scope{apply: &infrav1.WorkspaceTemplateApply{}}
		run := &runRecord{secret: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
			record.SourceAnnotation: tc.source, record.InputsAnnotation: "i",
		}}}}
		s.recordModule(run, &terraform.Result{Operation: tc.operation, Module: tc.content})
		NewWithT(t).Expect(s.apply.Status.Module).To(Equal(tc.want), name)
	}
}

func TestSurplusModules(t *testing.T) {
	secret := func(name string) corev1.Secret { return corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	secrets := []corev1.Secret{secret("capt-module-w-1-0"), secret("capt-module-w-1-1"), secret("capt-module-w-2-0")}
	for name, tc := range map[string]struct {
		module *infrav1.ModuleStatus
		want   []corev1.Secret
	}{
		"nothing is used":        {nil, secrets},
		"nothing stored is used": {&infrav1.ModuleStatus{Digest: "d"}, secrets},
		"all parts of one":       {&infrav1.ModuleStatus{Archive: "module-w-1"}, secrets[2:]},
	} {
		NewWithT(t).Expect(surplusModules(secrets, tc.module)).To(Equal(tc.want), name)
	}
}
