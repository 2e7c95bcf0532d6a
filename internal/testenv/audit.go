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

// auditPolicy records which requests the manager makes, without their content, and which
// permissions it grants to runs.
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

// checkDenied returns an error if the API server denied a request of ManagerAccount.
func (e *Environment) checkDenied() error {
	if e.manager == nil {
		return nil
	}
	denied, err := readDenied(e.auditLog)
	if err != nil || len(denied) == 0 {
		return err
	}
	const limit = 10
	rest := ""
	if len(denied) > limit {
		rest = fmt.Sprintf("\nand %d others", len(denied)-limit)
	}
	return fmt.Errorf("the API server denied requests of the manager, which has the roles of config/rbac:\n%s%s",
		strings.Join(denied[:min(limit, len(denied))], "\n"), rest)
}

// readDenied returns the different messages of denied requests in an audit log.
func readDenied(path string) ([]string, error) {
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
			Verb           string `json:"verb"`
			RequestURI     string `json:"requestURI"`
			ResponseStatus struct {
				Code    int    `json:"code"`
				Message string `json:"message"`
			} `json:"responseStatus"`
		}
		// The API server may have been killed while it wrote the last line.
		if json.Unmarshal(line, &event) == nil && event.ResponseStatus.Code == http.StatusForbidden && !isTermination(event.ResponseStatus.Message) {
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

// isTermination reports whether a request was denied because its namespace is deleted.
func isTermination(message string) bool {
	return strings.Contains(message, "because it is being terminated")
}
