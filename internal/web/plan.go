package web

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/operate"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/terraform/change"
)

// workspace returns the workspace of a request. It returns nil after it answered the
// request.
func (s *Server) workspace(w http.ResponseWriter, r *http.Request) *infrav1.WorkspaceTemplateApply {
	apply := &infrav1.WorkspaceTemplateApply{}
	id := key{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	if err := identityOf(r).client.Get(r.Context(), id, apply); err != nil {
		failWith(w, err, "get workspacetemplateapplies in "+id.Namespace, viewerRole)
		return nil
	}
	return apply
}

// plan answers with the latest plan of a workspace, a JSON document per line.
func (s *Server) plan(w http.ResponseWriter, r *http.Request) {
	apply := s.workspace(w, r)
	if apply == nil {
		return
	}
	plan, err := operate.PlanOf(r.Context(), identityOf(r).client, apply)
	if err != nil {
		failWith(w, err, "", "")
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	control := http.NewResponseController(w)
	lines := json.NewEncoder(w)
	write := func(line PlanLine) error {
		_ = control.SetWriteDeadline(time.Now().Add(s.writeTimeout))
		return lines.Encode(line)
	}
	if write(PlanLine{Plan: plan}) != nil {
		return
	}
	end := &PlanEnd{}
	end.Details, err = operate.PlanChanges(r.Context(), identityOf(r).client, apply, plan.ID, func(entry change.Entry) error {
		return write(PlanLine{Entry: &entry})
	})
	if err != nil && !errors.Is(err, operate.ErrNoSecrets) {
		end.Error = message.OneLine(err.Error())
	}
	if !end.Details && end.Error == "" {
		end.Missing = s.missingSecrets(r, apply.Namespace)
	}
	_ = write(PlanLine{End: end})
}

// missingSecrets returns the permission that the user needs to read plans and logs,
// or an empty string if he has it.
func (s *Server) missingSecrets(r *http.Request, namespace string) string {
	ok, err := operate.Allowed(r.Context(), identityOf(r).client, authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "get", Resource: "secrets"})
	if err != nil || ok {
		return ""
	}
	return "get secrets in " + namespace
}
