package web

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

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
	end.Details, err = operate.PlanChanges(r.Context(), identityOf(r).client, apply, plan, func(entry change.Entry) error {
		return write(PlanLine{Entry: &entry})
	})
	if errors.Is(err, operate.ErrNoPlans) {
		end.Missing = "get workspaceplans in " + apply.Namespace
	} else if err != nil {
		end.Error = message.OneLine(err.Error())
	}
	_ = write(PlanLine{End: end})
}
