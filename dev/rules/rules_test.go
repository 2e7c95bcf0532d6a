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
- {apiGroups: [""], resources: [secrets, secrets/capt, pods], verbs: [get, list, manage]}
- {apiGroups: [a.example.com], resources: [things, things/status, things/finalizers], verbs: [update]}
`), 0o600)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(dir, "audit-1.log"), []byte(
		`{"verb":"get","user":{"username":"manager"},"objectRef":{"resource":"secrets"}}
{"verb":"list","user":{"username":"admin"},"objectRef":{"resource":"secrets"}}
{"verb":"update","user":{"username":"manager"},"objectRef":{"apiGroup":"a.example.com","resource":"things","subresource":"status"}}
{"verb":"create","user":{"username":"manager"},"objectRef":{"apiGroup":"rbac.authorization.k8s.io","resource":"roles"},"requestObject":{"rules":[{"apiGroups":[""],"resources":["leases"],"verbs":["get"]}]}}
{"verb":"get","user":{"username":"manager"}}
{"verb":"li`), 0o600)).To(Succeed())
	granted, err := readRole(role)
	g.Expect(err).NotTo(HaveOccurred())
	used, err := readLogs(dir, "manager")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(used).To(HaveLen(4))
	unused, needless := compare(granted, used, map[permission]string{
		{"", "secrets", "manage"}:              "for a reason",
		{"", "leases", "get"}:                  "is used: runs have it",
		{"a.example.com", "others", "updates"}: "is not granted",
	})
	g.Expect(texts(unused)).To(Equal([]string{"update things.a.example.com", "get pods", "list pods", "manage pods"}))
	g.Expect(texts(needless)).To(Equal([]string{"updates others.a.example.com", "get leases"}))

	_, err = readRole(filepath.Join(dir, "audit-1.log"))
	g.Expect(err).To(HaveOccurred())
	g.Expect(run(role, "another", dir)).To(MatchError(ContainSubstring("no request of another")))
	g.Expect(run(role, "manager", dir)).To(MatchError(ContainSubstring("5 of 8 permissions")))
}

func texts(permissions []permission) []string {
	var all []string
	for _, p := range permissions {
		all = append(all, p.String())
	}
	return all
}

func TestExceptions_haveReasons(t *testing.T) {
	for p, reason := range exceptions {
		NewWithT(t).Expect(reason).NotTo(BeEmpty(), p.String())
	}
}
