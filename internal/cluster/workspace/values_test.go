package workspace

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

func template(reason string, declared ...string) *infrav1.WorkspaceTemplate {
	t := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Name: "network", Generation: 2}}
	for _, name := range declared {
		t.Status.Variables = append(t.Status.Variables, infrav1.DeclaredVariable{Name: name})
	}
	conditions.Set(t, metav1.Condition{Type: infrav1.ModuleValidCondition, Status: metav1.ConditionTrue, Reason: reason, ObservedGeneration: 2})
	return t
}

func TestValues_ofInspectedModule(t *testing.T) {
	g := NewWithT(t)
	inspected := template(infrav1.ModuleInspectedReason, "name", "cidr")
	inspected.Spec.Template.Spec.WriteConnectionSecretToRef = &infrav1.ObjectReference{Name: "${cluster_name}-outputs"}
	v, err := NewValues(inspected, "team")
	g.Expect(err).NotTo(HaveOccurred())

	v.Set("name", "a")
	v.Set("vpc_id", "left out")
	v.Offer("region", "left out")
	v.Offer("cluster_name", "a placeholder needs it")
	v.Require("spec.cidr", "cidr", "10.0.0.0/16")
	v.Override(map[string]infrav1.Value{"name": infrav1.StringValue("mine")})

	values, err := v.Result()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(values).To(Equal(map[string]infrav1.Value{
		"name": infrav1.StringValue("mine"), "cidr": infrav1.StringValue("10.0.0.0/16"), "cluster_name": infrav1.StringValue("a placeholder needs it"),
	}))

	v.Require("spec.tags", "tags", map[string]string{})
	v.Require("spec.natGateway", "nat_gateway", "Single")
	_, err = v.Result()
	stalled, ok := fault.AsStalled(err)
	g.Expect(ok).To(BeTrue())
	g.Expect(stalled.Reason).To(Equal(infrav1.FieldNotTakenReason))
	g.Expect(stalled.Message()).To(ContainSubstring("WorkspaceTemplate network has no variable for spec.natGateway (variable nat_gateway), spec.tags (variable tags)"))
}

func TestValues_ofModuleThatIsNotInspected(t *testing.T) {
	g := NewWithT(t)
	v, err := NewValues(template(infrav1.ModuleNotInspectedReason), "team")
	g.Expect(err).NotTo(HaveOccurred())
	v.Set("name", "a")
	v.Offer("region", "left out")
	v.Require("spec.tags", "tags", map[string]string{"a": "b"})
	values, err := v.Result()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(values).To(HaveLen(2))
	g.Expect(values["tags"].String()).To(MatchJSON(`{"a":"b"}`))
}

func TestValues_waitForTemplate(t *testing.T) {
	g := NewWithT(t)
	outdated := template(infrav1.ModuleInspectedReason)
	outdated.Generation = 3
	_, err := NewValues(outdated, "team")
	_, waits := fault.AsWaiting(err)
	g.Expect(waits).To(BeTrue())

	broken := template(infrav1.ModuleInspectedReason)
	conditions.Set(broken, metav1.Condition{Type: infrav1.ModuleValidCondition, Status: metav1.ConditionFalse, Reason: infrav1.ModuleInvalidReason, Message: "main.tf:3: no", ObservedGeneration: 2})
	_, err = NewValues(broken, "team")
	stalled, ok := fault.AsStalled(err)
	g.Expect(ok).To(BeTrue())
	g.Expect(stalled.Message()).To(ContainSubstring("main.tf:3: no"))
}

// A lent template may pin variables that CAPT, or its borrower, would set.
func TestValues_ofALentTemplate(t *testing.T) {
	for _, reason := range []string{infrav1.ModuleInspectedReason, infrav1.ModuleNotInspectedReason} {
		g := NewWithT(t)
		lent := template(reason, "name", "region", "role")
		lent.Namespace, lent.Spec.Lending = "platform", &infrav1.TemplateLending{Variables: []string{"name"}}
		v, err := NewValues(lent, "team")
		g.Expect(err).NotTo(HaveOccurred())
		v.Set("name", "a")
		v.Set("role", "pinned")
		v.Offer("region", "pinned")
		values, err := v.Result()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(values).To(Equal(map[string]infrav1.Value{"name": infrav1.StringValue("a")}))

		for _, set := range []func(v *Values){
			func(v *Values) { v.Require("spec.role", "role", "b") },
			func(v *Values) { v.Override(map[string]infrav1.Value{"role": infrav1.StringValue("b")}) },
		} {
			v, err := NewValues(lent, "team")
			g.Expect(err).NotTo(HaveOccurred())
			set(v)
			_, err = v.Result()
			stalled, ok := fault.AsStalled(err)
			g.Expect(ok).To(BeTrue())
			g.Expect(stalled.Reason).To(Equal(infrav1.NotAllowedReason))
			g.Expect(stalled.Message()).To(ContainSubstring("variable role"))
		}
		g.Expect(Accepts(lent, "team", "role")).To(BeFalse())
		g.Expect(Accepts(lent, "platform", "role")).To(Equal(reason == infrav1.ModuleInspectedReason))
	}
}
