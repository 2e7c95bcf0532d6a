package cli_test

import (
	"context"
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/appthrust/capt/internal/testenv"
)

func TestDoctor_exitCode(t *testing.T) {
	g := NewWithT(t)
	env := testenv.New(t)

	out, problem, code := captctl(t, "", "doctor", "--kubeconfig", env.Kubeconfig)
	g.Expect(code).To(Equal(0), out+problem)
	g.Expect(out).To(MatchRegexp(`(?m)^ok    crds +\d+ CRDs are installed and served$`))
	g.Expect(out).To(MatchRegexp(`(?m)^warn  webhooks +no webhooks are configured`))

	g.Expect(env.Client.Create(context.Background(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "lock-tfstate-default-demo-ws", Labels: map[string]string{"capt.appthrust.io/workspace": "demo"},
			Annotations: map[string]string{"app.terraform.io/lock-info": `{"Who": "capt/default/demo-1@host"}`},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: new("demo-1")},
	})).To(Succeed())
	out, problem, code = captctl(t, "", "doctor", "--kubeconfig", env.Kubeconfig, "-o", "json")
	g.Expect(code).To(Equal(1))
	g.Expect(problem).To(Equal("1 problem found; see the fix below it"))
	var report struct {
		Healthy bool
		Results []struct{ Check, Status, Fix string }
	}
	g.Expect(json.Unmarshal([]byte(out), &report)).To(Succeed())
	g.Expect(report.Healthy).To(BeFalse())
	g.Expect(report.Results).To(ContainElement(And(HaveField("Check", "locks"), HaveField("Status", "fail"), HaveField("Fix", Equal("captctl --kubeconfig "+env.Kubeconfig+" unlock -n default demo")))))

	_, problem, code = captctl(t, "", "doctor", "--kubeconfig", "/does/not/exist")
	g.Expect(code).To(Equal(1))
	g.Expect(problem).To(ContainSubstring("loading the kubeconfig"))
}
