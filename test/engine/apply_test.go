package engine

import (
	"testing"

	. "github.com/onsi/gomega"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

const greeting = `
variable "name" { type = string }
variable "secret" {
  type      = string
  default   = "hunter2hunter2"
  sensitive = true
}
resource "terraform_data" "greeting" { input = "hello ${var.name}" }
output "greeting" { value = terraform_data.greeting.output }
output "list" { value = [var.name, 1, true] }
output "secret" {
  value     = var.secret
  sensitive = true
}
`

func TestApply_appliesAndWritesOutputs(t *testing.T) {
	w := newHarness(t)
	w.template("greeting", greeting)
	w.apply("hello", "greeting", variables(map[string]string{"name": "world"}))

	a := w.waitReady("hello")

	w.Expect(a.Status.Outputs).To(HaveKey("greeting"))
	w.Expect(a.Status.Outputs["greeting"].String()).To(Equal("hello world"))
	w.Expect(a.Status.Outputs).NotTo(HaveKey("secret"), "a sensitive output is in the Secret only")
	w.Expect(a.Status.State.Resources).To(BeEquivalentTo(1))
	w.Expect(a.Status.Plan.Add).To(BeEquivalentTo(1))
	w.Expect(a.Status.History).To(HaveLen(1))
	w.Expect(a.Status.History[0].Outcome).To(BeEquivalentTo("Succeeded"))
	data := w.secret("hello-connection").Data
	w.Expect(string(data["greeting"])).To(Equal("hello world"))
	w.Expect(string(data["list"])).To(Equal(`["world",1,true]`))
	w.Expect(string(data["secret"])).To(Equal("hunter2hunter2"))
	w.Expect(w.log(a.Status.History[0].ID)).To(ContainSubstring("terraform_data.greeting: Creation complete"))
	w.Expect(statusFields(a)).To(MatchJSON(`{"f:status": {}}`), "each write would need time for each field")

	w.change("hello", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Variables["name"] = infrav1.StringValue("again") })
	a = w.waitReady("hello")
	w.Expect(a.Status.Outputs["greeting"].String()).To(Equal("hello again"))
	w.Expect(a.Status.History).To(HaveLen(2))

	w.changeTemplate("greeting", func(s *infrav1.WorkspaceSpec) {
		s.Outputs = []infrav1.SelectedOutput{{Name: "greeting", As: "welcome"}, {Name: "secret"}}
	})
	w.Eventually(func() map[string]infrav1.Value { return w.get("hello").Status.Outputs }, testTimeout).Should(
		And(HaveLen(1), HaveKeyWithValue("welcome", infrav1.StringValue("hello again"))))
	w.waitReady("hello")
	w.Expect(w.secret("hello-connection").Data).To(And(HaveLen(2), HaveKey("welcome"), HaveKey("secret")))

	w.destroy("hello")
	w.Expect(w.secrets()).To(BeEmpty(), "state, runs and outputs are deleted with the workspace")
}

// statusFields returns the fields of the status as the API server tracks them.
func statusFields(a *infrav1.WorkspaceTemplateApply) []byte {
	for _, entry := range a.ManagedFields {
		if entry.Subresource == "status" {
			return entry.FieldsV1.GetRawBytes()
		}
	}
	return nil
}
