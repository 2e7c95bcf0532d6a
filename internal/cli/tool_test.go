package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/command/binary"
	"github.com/appthrust/capt/internal/terraform/record"
)

func TestSelectTool_refusesATool(t *testing.T) {
	apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "net", UID: "u"}}
	backend := terraform.Backend{Type: terraform.BackendKubernetes, Namespace: "team", SecretSuffix: "net"}
	ran := func(product, version string) client.Object {
		content, err := json.Marshal(terraform.Result{RunID: "net-r1", Tool: terraform.Tool{Product: product, Version: version}})
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		content, err = record.Compress(content)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		ref := terraform.WorkspaceRef{Namespace: "team", Name: "net", UID: "u"}
		secret := &corev1.Secret{ObjectMeta: record.LocalMeta(ref, record.ComponentRun, "net-r1"), Data: map[string][]byte{"result": content}}
		secret.Namespace, secret.Name = "team", record.SecretName("net-r1")
		return secret
	}
	state := func(version, registry string) client.Object {
		content, err := record.Compress([]byte(`{"version":4,"terraform_version":"` + version + `","resources":[{"provider":"provider[\"` + registry + `/hashicorp/aws\"]"}]}`))
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: backend.StateSecretName()}, Data: map[string][]byte{"tfstate": content}}
	}
	const tofu, terraform11 = "tofu OpenTofu v1.10.1", "terraform Terraform v1.11.4"
	for name, tc := range map[string]struct {
		tools   []string
		objects []client.Object
		binary  string
		require *terraform.ToolRequirement
		want    string
		err     string
	}{
		"no state":              {tools: []string{terraform11}, want: "terraform"},
		"the tool of runs":      {tools: []string{tofu, terraform11}, objects: []client.Object{ran("Terraform", "1.11.0")}, want: "terraform"},
		"another product":       {tools: []string{terraform11}, objects: []client.Object{ran("OpenTofu", "1.10.1")}, err: "net uses OpenTofu 1.10.1, and another product or an older version could damage its state; found only Terraform 1.11.4 ("},
		"an older version":      {tools: []string{tofu}, objects: []client.Object{ran("OpenTofu", "1.12.6")}, err: "net uses OpenTofu 1.12.6"},
		"the given binary":      {tools: []string{terraform11}, objects: []client.Object{ran("OpenTofu", "1.10.1")}, binary: "terraform", want: "terraform"},
		"a run without a tool":  {tools: []string{terraform11}, objects: []client.Object{ran("", ""), state("1.10.1", "registry.opentofu.org")}, err: "net uses OpenTofu 1.10.1"},
		"a state of that tool":  {tools: []string{terraform11}, objects: []client.Object{state("1.11.4", "registry.terraform.io")}, want: "terraform"},
		"an older state":        {tools: []string{terraform11}, objects: []client.Object{state("1.12.6", "example.com")}, err: "net uses OpenTofu or Terraform 1.12.6"},
		"the template decides":  {tools: []string{tofu}, objects: []client.Object{ran("OpenTofu", "1.12.6")}, require: &terraform.ToolRequirement{Version: "~> 1.10"}, want: "tofu"},
		"not even the template": {tools: []string{terraform11}, objects: []client.Object{ran("OpenTofu", "1.12.6")}, require: &terraform.ToolRequirement{Version: "~> 1.11"}, err: "net uses OpenTofu, and its template requires version ~> 1.11; found only Terraform 1.11.4 ("},
		"a product is required": {tools: []string{tofu}, require: &terraform.ToolRequirement{Product: "Terraform", Version: "~> 1.11"}, err: "the template of net requires Terraform ~> 1.11; found only OpenTofu 1.10.1 ("},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			dir := t.TempDir()
			for _, tool := range tc.tools {
				program, version, _ := strings.Cut(tool, " ")
				g.Expect(os.WriteFile(filepath.Join(dir, program), []byte("#!/bin/sh\necho '"+version+"'\n"), 0o700)).To(Succeed())
			}
			t.Setenv("PATH", dir)
			t.Setenv(binary.Env, "")
			c := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(tc.objects...).Build()
			path, err := selectTool(t.Context(), c, apply, &terraform.Request{Backend: backend, Tool: tc.require}, tc.binary)
			if tc.err != "" {
				g.Expect(err).To(MatchError(ContainSubstring(tc.err)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(filepath.Base(path)).To(Equal(tc.want))
		})
	}
}
