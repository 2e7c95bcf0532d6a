package controlplane

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/kubernetes/kubeversion"
)

func TestParseVersions_readsTheHelpOfTheProgram(t *testing.T) {
	g := NewWithT(t)
	r, err := parseVersions("… Options are: kube=1.34..1.37(default:1.37)\n --min… Options are: kube=1.34..1.37(default:1.36)", "kube-apiserver")
	g.Expect(err).NotTo(HaveOccurred())
	for version, contained := range map[kubeversion.Minor]bool{
		{Major: 1, Minor: 33}: false, {Major: 1, Minor: 34}: true, {Major: 1, Minor: 37}: true, {Major: 1, Minor: 38}: false, {Major: 2, Minor: 35}: false,
	} {
		g.Expect(r.contains(version)).To(Equal(contained), version.String())
	}
	g.Expect(parseVersions("no such flag", "kube-apiserver")).Error().To(MatchError(ContainSubstring("1.34 or later")))
}

func TestSpec_normalize(t *testing.T) {
	g := NewWithT(t)
	file := filepath.Join(t.TempDir(), "webhook")
	g.Expect(os.WriteFile(file, nil, 0o600)).To(Succeed())
	ok := Spec{Name: "demo", KubernetesVersion: "v1.36.1", With: []string{"scheduler", "controller-manager", "scheduler"}, TokenWebhook: file}
	g.Expect(ok.normalize()).To(Equal(Spec{Name: "demo", KubernetesVersion: "1.36", With: []string{"controller-manager", "scheduler"}, TokenWebhook: file}))

	for message, change := range map[string]func(*Spec){
		"is not a valid cluster name":             func(s *Spec) { s.Name = "" },
		`"a b" is not a valid cluster name`:       func(s *Spec) { s.Name = "a b" },
		"up to 100 letters":                       func(s *Spec) { s.Name = strings.Repeat("a", 101) },
		"write one such as 1.36":                  func(s *Spec) { s.KubernetesVersion = "newest" },
		"use controller-manager, scheduler, kwok": func(s *Spec) { s.With = []string{"kubelet"} },
		"configuration of the token webhook":      func(s *Spec) { s.TokenWebhook = file + "x" },
		"is not a valid program name":             func(s *Spec) { s.Programs = []Program{{Name: "../x", Path: "/bin/x"}} },
		"program name etcd is already in use":     func(s *Spec) { s.Programs = []Program{{Name: "etcd", Path: "/bin/x"}} },
		"program name a is already in use":        func(s *Spec) { s.Programs = []Program{{Name: "a", Path: "/x"}, {Name: "a", Path: "/x"}} },
		`path "x" of program a is not absolute`:   func(s *Spec) { s.Programs = []Program{{Name: "a", Path: "x"}} },
		"which is not listed before it": func(s *Spec) {
			s.Programs = []Program{{Name: "a", Path: "/x", After: []string{"b"}}, {Name: "b", Path: "/x"}}
		},
	} {
		bad := ok
		change(&bad)
		_, err := bad.normalize()
		g.Expect(err).To(MatchError(ContainSubstring(message)), message)
	}
}

func TestSpec_requestReportsAMissingProgram(t *testing.T) {
	g := NewWithT(t)
	empty := t.TempDir()
	t.Setenv("PATH", empty)
	g.Expect(Spec{Name: "demo", KubernetesVersion: "1.36", BinDir: empty}.request()).Error().To(MatchError(And(ContainSubstring("program etcd not found in "+empty), ContainSubstring("--bin-dir"))))

	// A file that is not executable is ignored. PATH is searched after the directory.
	g.Expect(os.WriteFile(filepath.Join(empty, Etcd), nil, 0o644)).To(Succeed())
	g.Expect(findProgram(Etcd, empty)).Error().To(HaveOccurred())
	t.Setenv("PATH", assets)
	g.Expect(findProgram(Etcd, empty)).To(Equal(filepath.Join(assets, Etcd)))
}

func TestRequest_idDependsOnTheContentOfFiles(t *testing.T) {
	g := NewWithT(t)
	file := filepath.Join(t.TempDir(), "webhook")
	id := func(content string) string {
		g.Expect(os.WriteFile(file, []byte(content), 0o600)).To(Succeed())
		r, err := spec(func(s *Spec) { s.TokenWebhook = file }).request()
		g.Expect(err).NotTo(HaveOccurred())
		return r.ID
	}
	g.Expect(id("a")).To(Equal(id("a")))
	g.Expect(id("a")).NotTo(Equal(id("b")))
}
