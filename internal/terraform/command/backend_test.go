package command

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/appthrust/capt/internal/terraform"
)

func TestLocalPath(t *testing.T) {
	g := NewWithT(t)
	w := &Workdir{Dir: "/work"}
	for backend, want := range map[string]string{"": "/work/terraform.tfstate", terraform.BackendKubernetes: "zz_capt_state.tfstate"} {
		path, isLocal := w.localPath(terraform.Backend{Type: backend})
		g.Expect(isLocal).To(BeTrue())
		g.Expect(path).To(Equal(want))
		g.Expect(string(localConfig(path))).To(Equal("terraform {\n  backend \"local\" {\n    path = \"" + want + "\"\n  }\n}\n"))
		g.Expect(localRecord(path)).To(MatchJSON(`{"version":3,"backend":{"type":"local","config":{"path":"` + want + `"},"hash":0}}`))
	}
	for _, backend := range []string{"local", "s3", "remote"} {
		_, isLocal := w.localPath(terraform.Backend{Type: backend})
		g.Expect(isLocal).To(BeFalse(), backend)
	}
}
