package workspacetemplateapply

import (
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/terraform"
)

func key(name string) client.ObjectKey { return client.ObjectKey{Namespace: "n", Name: name} }

func TestRunExit_refersToTheWorkspaceOfTheRun(t *testing.T) {
	g := NewWithT(t)
	event := RunExit(terraform.Run{Namespace: "n", Workspace: "hello", ID: "hello-r1"})
	g.Expect(client.ObjectKeyFromObject(event.Object)).To(Equal(key("hello")))
}
