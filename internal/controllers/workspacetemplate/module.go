package workspacetemplate

import (
	"context"
	"errors"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform/template"
)

// module sets the declarations of an inline module in the template's status. Another
// module is inspected by the run that fetches it.
func module(_ context.Context, s *scope) error {
	err := template.SetDeclarations(s.template)
	if p, ok := errors.AsType[*template.Problem](err); ok {
		return fault.Stall(p.Reason, "%s", p.Message)
	}
	return err
}

func moduleReason(s *scope) string { return template.ModuleValidReason(s.template) }

func moduleMessage(s *scope) string {
	if moduleReason(s) == infrav1.ModuleNotInspectedReason {
		return "A module that is not inline is inspected by the run that fetches it"
	}
	return ""
}
