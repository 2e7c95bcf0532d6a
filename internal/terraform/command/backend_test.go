package command

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
)

func TestKnownBackend(t *testing.T) {
	g := NewWithT(t)
	w := &Workdir{Dir: "/work"}
	local := w.knownBackend(terraform.Backend{})
	g.Expect(string(local.hcl())).To(Equal("terraform {\n  backend \"local\" {\n    path = \"/work/terraform.tfstate\"\n  }\n}\n"))
	file := w.knownBackend(terraform.Backend{Type: terraform.BackendKubernetes})
	g.Expect(string(file.hcl())).To(Equal("terraform {\n  backend \"local\" {\n    path = \"zz_capt_state.tfstate\"\n  }\n}\n"))
	record, err := file.record()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(record).To(MatchJSON(`{"version":3,"backend":{"type":"local","config":{"path":"zz_capt_state.tfstate"},"hash":0}}`))
	for _, backend := range []string{"local", "s3", "remote"} {
		g.Expect(w.knownBackend(terraform.Backend{Type: backend})).To(BeNil(), backend)
	}
}
