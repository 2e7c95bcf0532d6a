package command

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
)

func TestKnownBackend(t *testing.T) {
	g := NewWithT(t)
	w := &Workdir{Dir: "/work"}
	local := w.knownBackend(terraform.Backend{})
	g.Expect(string(local.hcl())).To(Equal("terraform {\n  backend \"local\" {\n    path = \"/work/terraform.tfstate\"\n  }\n}\n"))
	for _, backend := range []string{"local", "s3", "remote"} {
		g.Expect(w.knownBackend(terraform.Backend{Type: backend})).To(BeNil(), backend)
	}
}

func TestKubernetesBackend_recordsWhatItConfigures(t *testing.T) {
	backend := terraform.Backend{Type: terraform.BackendKubernetes, Namespace: "n", SecretSuffix: "s", Labels: map[string]string{"a": "b"}}
	for name, tc := range map[string]struct {
		kubeconfig []byte
		product    Product
		want       map[string]string
	}{
		"in a cluster":  {nil, OpenTofu, map[string]string{"in_cluster_config": "true", "load_config_file": "false", "config_path": `""`, "exec": "[]"}},
		"by kubeconfig": {[]byte("x"), OpenTofu, map[string]string{"in_cluster_config": "false", "load_config_file": "true", "config_path": `"zz_capt_kubeconfig"`, "exec": "[]"}},
		"by Terraform":  {nil, Terraform, map[string]string{"in_cluster_config": "true", "exec": "null"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			config := (&Workdir{Kubeconfig: tc.kubeconfig}).knownBackend(backend)
			record, err := config.record(tc.product)
			g.Expect(err).NotTo(HaveOccurred())
			var parsed struct {
				Version int
				Backend struct {
					Type   string
					Config map[string]json.RawMessage
				}
			}
			g.Expect(json.Unmarshal(record, &parsed)).To(Succeed())
			g.Expect(parsed.Version).To(Equal(3))
			g.Expect(parsed.Backend.Type).To(Equal("kubernetes"))
			for attribute, want := range tc.want {
				g.Expect(string(parsed.Backend.Config[attribute])).To(Equal(want), attribute)
			}
			for attribute, want := range map[string]string{"namespace": `"n"`, "secret_suffix": `"s"`, "labels": `{"a":"b"}`, "host": `""`, "token": `""`} {
				g.Expect(string(parsed.Backend.Config[attribute])).To(Equal(want), attribute)
			}
			for attribute := range parsed.Backend.Config {
				if attribute != "exec" {
					g.Expect(string(config.hcl())).To(ContainSubstring("    " + attribute))
				}
			}
		})
	}
}

func TestCheckEnvironment(t *testing.T) {
	kubernetes := terraform.Backend{Type: terraform.BackendKubernetes}
	for name, tc := range map[string]struct {
		backend  terraform.Backend
		product  Product
		env      map[string]string
		rejected bool
	}{
		"a variable of the backend":         {kubernetes, Terraform, map[string]string{"KUBE_HOST": "x"}, true},
		"an empty variable of the backend":  {kubernetes, Terraform, map[string]string{"KUBE_HOST": ""}, false},
		"a variable that the backend sets":  {kubernetes, Terraform, map[string]string{"KUBE_NAMESPACE": "x"}, false},
		"OpenTofu ignores it":               {kubernetes, OpenTofu, map[string]string{"KUBE_HOST": "x"}, false},
		"another backend":                   {terraform.Backend{Type: "s3"}, Terraform, map[string]string{"KUBE_HOST": "x"}, false},
		"a request without other variables": {kubernetes, Terraform, nil, false},
	} {
		err := checkEnvironment(&terraform.Request{Backend: tc.backend, Env: tc.env}, tc.product)
		g := NewWithT(t)
		if !tc.rejected {
			g.Expect(err).NotTo(HaveOccurred(), name)
			continue
		}
		g.Expect(AsFailure(err).Class).To(Equal(terraform.ClassTerminal), name)
		g.Expect(err).To(MatchError(ContainSubstring("also reads KUBE_HOST")), name)
	}
}
