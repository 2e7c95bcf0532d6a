package controlplane

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestParseVersion(t *testing.T) {
	for text, want := range map[string]string{
		"1.36": "1.36", "v1.36": "1.36", "1.36.4": "1.36", "v1.37.1": "1.37", "v1.36.2-eks-1a2b3c": "1.36", "v1.37.0-alpha.1+abc": "1.37",
		"": "", "1": "", "latest": "", "1.x": "", "1.36.x": "", " 1.36": "", "1.36 --help": "", "-1.36": "",
	} {
		g := NewWithT(t)
		version, err := ParseVersion(text)
		if want == "" {
			g.Expect(err).To(MatchError(ContainSubstring("write it like 1.36")), text)
			continue
		}
		g.Expect(err).NotTo(HaveOccurred(), text)
		g.Expect(version.String()).To(Equal(want), text)
	}
}

func TestParseVersions_readsWhatTheProgramSays(t *testing.T) {
	g := NewWithT(t)
	r, err := parseVersions("… Options are: kube=1.34..1.37(default:1.37)\n --min… Options are: kube=1.34..1.37(default:1.36)", "kube-apiserver")
	g.Expect(err).NotTo(HaveOccurred())
	for version, contained := range map[Version]bool{{1, 33}: false, {1, 34}: true, {1, 37}: true, {1, 38}: false, {2, 35}: false} {
		g.Expect(r.contains(version)).To(Equal(contained), version.String())
	}
	_, err = parseVersions("no such flag", "kube-apiserver")
	g.Expect(err).To(MatchError(ContainSubstring("1.34 or later")))
}

func TestSpec_normalize(t *testing.T) {
	g := NewWithT(t)
	file := filepath.Join(t.TempDir(), "webhook")
	g.Expect(os.WriteFile(file, nil, 0o600)).To(Succeed())
	ok := Spec{Name: "demo", KubernetesVersion: "v1.36.1", With: []string{"scheduler", "controller-manager", "scheduler"}, TokenWebhook: file}
	normal, err := ok.normalize()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(normal).To(Equal(Spec{Name: "demo", KubernetesVersion: "1.36", With: []string{"controller-manager", "scheduler"}, TokenWebhook: file}))

	for message, change := range map[string]func(*Spec){
		"cannot be the name of a cluster":         func(s *Spec) { s.Name = "" },
		`"a b" cannot be the name of a cluster`:   func(s *Spec) { s.Name = "a b" },
		"up to 100 letters":                       func(s *Spec) { s.Name = strings.Repeat("a", 101) },
		"write it like 1.36":                      func(s *Spec) { s.KubernetesVersion = "newest" },
		"use controller-manager, scheduler, kwok": func(s *Spec) { s.With = []string{"kubelet"} },
		"finding the token webhook":               func(s *Spec) { s.TokenWebhook = file + "x" },
		"cannot be the name of a program":         func(s *Spec) { s.Programs = []Program{{Name: "../x", Path: "/bin/x"}} },
		"the name etcd of a program is taken":     func(s *Spec) { s.Programs = []Program{{Name: "etcd", Path: "/bin/x"}} },
		"the name a of a program is taken":        func(s *Spec) { s.Programs = []Program{{Name: "a", Path: "/x"}, {Name: "a", Path: "/x"}} },
		"needs an absolute path":                  func(s *Spec) { s.Programs = []Program{{Name: "a", Path: "x"}} },
		"name one that stands before it": func(s *Spec) {
			s.Programs = []Program{{Name: "a", Path: "/x", After: []string{"b"}}, {Name: "b", Path: "/x"}}
		},
	} {
		bad := ok
		change(&bad)
		_, err := bad.normalize()
		g.Expect(err).To(MatchError(ContainSubstring(message)), message)
	}
}

func TestSpec_requestNamesMissingProgram(t *testing.T) {
	g := NewWithT(t)
	empty := t.TempDir()
	t.Setenv("PATH", empty)
	_, err := Spec{Name: "demo", KubernetesVersion: "1.36", BinDir: empty}.request()
	g.Expect(err).To(MatchError(And(ContainSubstring("no program etcd in "+empty), ContainSubstring("--bin-dir"))))

	// A file that cannot be executed is none; PATH comes after the directory.
	g.Expect(os.WriteFile(filepath.Join(empty, Etcd), nil, 0o644)).To(Succeed())
	_, err = findProgram(Etcd, empty)
	g.Expect(err).To(HaveOccurred())
	t.Setenv("PATH", assets)
	path, err := findProgram(Etcd, empty)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(path).To(Equal(filepath.Join(assets, Etcd)))
}

func TestRequest_idFollowsContentOfFiles(t *testing.T) {
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
