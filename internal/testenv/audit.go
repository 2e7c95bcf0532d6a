package testenv

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// auditDir is the environment variable with a directory for the audit logs of API servers.
// "make unused-rules" reads them.
const auditDir = "CAPT_AUDIT_DIR"

// policyDenial is part of the message of a request that an admission policy has denied.
const policyDenial = "ValidatingAdmissionPolicy"

// auditPolicy records which requests the manager makes, without their content, which
// permissions it grants to runs, and what runs change.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Request
  users: ["` + ManagerUser + `"]
  verbs: [create, update]
  resources: [{group: rbac.authorization.k8s.io, resources: [roles]}]
- level: Metadata
  users: ["` + ManagerUser + `"]
- level: Metadata
  userGroups: ["system:serviceaccounts"]
  verbs: [create, update, patch, delete]
- level: None
`

// audit makes the API server write an audit log of the manager.
func (e *Environment) audit() error {
	policy := filepath.Join(e.Dir, "audit.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return fmt.Errorf("writing the audit policy: %w", err)
	}
	dir := os.Getenv(auditDir)
	if dir == "" {
		dir = e.Dir
	}
	e.auditLog = filepath.Join(dir, filepath.Base(e.Dir)+".log")
	e.api.ControlPlane.GetAPIServer().Configure().
		Set("audit-policy-file", policy).
		Set("audit-log-path", e.auditLog)
	return nil
}

// checkDenied returns an error if the API server denied a request of ManagerAccount, or a policy
// one of a run.
func (e *Environment) checkDenied() error {
	if e.manager == nil {
		return nil
	}
	denied, err := e.readDenied(e.auditLog)
	if err != nil || len(denied) == 0 {
		return err
	}
	const limit = 10
	rest := ""
	if len(denied) > limit {
		rest = fmt.Sprintf("\nand %d others", len(denied)-limit)
	}
	return fmt.Errorf("the API server denied requests of the manager or its runs, with the roles and policies of config/default:\n%s%s",
		strings.Join(denied[:min(limit, len(denied))], "\n"), rest)
}

// readDenied returns the different messages of denied requests in an audit log.
func (e *Environment) readDenied(path string) ([]string, error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	defer file.Close()
	var denied []string
	for reader := bufio.NewReader(file); ; {
		line, err := reader.ReadBytes('\n')
		var event struct {
			User struct {
				Username string `json:"username"`
			} `json:"user"`
			Verb           string `json:"verb"`
			RequestURI     string `json:"requestURI"`
			ResponseStatus struct {
				Code    int    `json:"code"`
				Message string `json:"message"`
			} `json:"responseStatus"`
		}
		// The API server may have been killed while it wrote the last line.
		if json.Unmarshal(line, &event) == nil && event.ResponseStatus.Code == http.StatusForbidden &&
			e.isWrong(event.User.Username, event.ResponseStatus.Message) {
			text := fmt.Sprintf("%s %s: %s", event.Verb, event.RequestURI, event.ResponseStatus.Message)
			if !slices.Contains(denied, text) {
				denied = append(denied, text)
			}
		}
		if errors.Is(err, io.EOF) {
			return denied, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
	}
}

// isWrong reports whether a denied request should have been allowed. A namespace that is deleted
// accepts no objects, and the permissions of a run end with it, also while it still sends requests.
func (e *Environment) isWrong(user, message string) bool {
	if user == ManagerUser {
		return !strings.Contains(message, "because it is being terminated")
	}
	return !e.attacks && strings.Contains(message, policyDenial)
}
