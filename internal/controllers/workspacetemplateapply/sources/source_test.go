package sources

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/template"
)

func TestKeptModule(t *testing.T) {
	module := terraform.Module{Source: terraform.SourceFlux, Artifact: &terraform.Artifact{Source: "Bucket/b"}}
	missing := errors.New("the source does not exist")
	for name, tc := range map[string]struct {
		module *infrav1.ModuleStatus
		want   error
	}{
		"nothing was planned":      {nil, missing},
		"what was planned":         {&infrav1.ModuleStatus{Artifact: "sha256:1", Source: runs.ModuleSource(module)}, nil},
		"another source":           {&infrav1.ModuleStatus{Artifact: "sha256:1", Source: "other"}, missing},
		"a module of another kind": {&infrav1.ModuleStatus{Source: "other"}, missing},
	} {
		s := &Resolved{Workspace: &runs.Workspace{Apply: &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Name: "w"}}}, sourceFault: missing, Inputs: &template.Inputs{Request: terraform.Request{Module: module}}}
		s.Apply.Status.Module = tc.module
		if tc.want == nil {
			NewWithT(t).Expect(s.KeptModule()).To(Succeed(), name)
			continue
		}
		NewWithT(t).Expect(s.KeptModule()).To(MatchError(tc.want), name)
	}
}
