package testenv

import (
	"fmt"
	"os"
	"path/filepath"
)

// auditDir is the environment variable with a directory for the audit logs of API servers.
// "make unused-rules" reads them.
const auditDir = "CAPT_AUDIT_DIR"

// auditPolicy records who makes which requests, without their content.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

// audit makes the API server write an audit log, if a directory for it is given.
func (e *Environment) audit() error {
	dir := os.Getenv(auditDir)
	if dir == "" {
		return nil
	}
	policy := filepath.Join(e.Dir, "audit.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return fmt.Errorf("writing the audit policy: %w", err)
	}
	e.api.ControlPlane.GetAPIServer().Configure().
		Set("audit-policy-file", policy).
		Set("audit-log-path", filepath.Join(dir, filepath.Base(e.Dir)+".log"))
	return nil
}
