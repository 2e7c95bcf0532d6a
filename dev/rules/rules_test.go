package main

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

func TestRules_listsWhatNothingUsed(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	role := filepath.Join(dir, "role.yaml")
	g.Expect(os.WriteFile(role, []byte(`
kind: ClusterRole
rules:
- {apiGroups: [""], resources: [secrets, secrets/capt], verbs: [get, list, manage]}
- {apiGroups: [a.example.com], resources: [things, things/status, things/finalizers], verbs: [update]}
`), 0o600)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(dir, "audit-1.log"), []byte(
		`{"verb":"get","userAgent":"manager/v0 (linux)","objectRef":{"resource":"secrets"}}
{"verb":"list","userAgent":"engine.test/v0","objectRef":{"resource":"secrets"}}
{"verb":"update","userAgent":"manager/v0","objectRef":{"apiGroup":"a.example.com","resource":"things","subresource":"status"}}
{"verb":"get","userAgent":"manager/v0"}
{"verb":"li`), 0o600)).To(Succeed())
	granted, err := readRole(role)
	g.Expect(err).NotTo(HaveOccurred())
	used, err := readLogs(dir, "manager/")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(used).To(HaveLen(2))
	var unused []string
	for _, p := range subtract(granted, used) {
		unused = append(unused, p.String())
	}
	g.Expect(unused).To(Equal([]string{"update things.a.example.com", "list secrets", "manage secrets"}))

	_, err = readRole(filepath.Join(dir, "audit-1.log"))
	g.Expect(err).To(HaveOccurred())
	g.Expect(run(role, "another/", dir)).To(MatchError(ContainSubstring("no request of another/")))
}
