package sources

import (
	"errors"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform/template"
	"github.com/appthrust/capt/internal/testenv/memorytest"
)

func TestWaitsForOthers(t *testing.T) {
	now := metav1.Now()
	tests := []struct {
		name      string
		appliedAt metav1.Time
		deletedAt *metav1.Time
		want      bool
	}{
		{"new", metav1.Time{}, nil, true},
		{"applied", now, nil, false},
		{"being deleted", metav1.Time{}, &now, false},
		{"applied and being deleted", now, &now, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newResolved("hello")
			s.Apply.Status.AppliedAt, s.Apply.DeletionTimestamp = tt.appliedAt, tt.deletedAt
			NewWithT(t).Expect(WaitsForOthers(s.Apply)).To(Equal(tt.want))
		})
	}
}

func TestValueReferences(t *testing.T) {
	NewWithT(t).Expect(valueReferences("n", template.References{Secrets: []string{"a", "b"}, ConfigMaps: []string{"c"}})).To(Equal([]Reference{
		{Kind: "Secret", Key: key("a")}, {Kind: "Secret", Key: key("b")}, {Kind: "ConfigMap", Key: key("c")},
	}))
}

// Without the webhook, the conditions of a workspace would reveal which Secrets exist in
// other namespaces.
func TestReferences_waitForSecretsOfTheirOwnNamespaceOnly(t *testing.T) {
	s := newResolved("hello")
	s.Apply.Spec.WaitForSecrets = []infrav1.ObjectReference{{Name: "token", Namespace: "kube-system"}}
	NewWithT(t).Expect(References(s.Apply)).To(ContainElement(Reference{Kind: "Secret", Key: key("token")}))
}

func TestProviderConfigKey(t *testing.T) {
	g := NewWithT(t)
	s := newResolved("hello")
	s.Sources.Template = &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "library"}}
	g.Expect(s.providerConfigKey()).To(BeNil())

	s.Sources.Template.Spec.Template.Spec.ProviderConfigRef = &infrav1.LocalReference{Name: "aws"}
	g.Expect(s.providerConfigKey()).To(HaveValue(Equal(key("aws"))), "it is in the namespace of the workspace")
}

// An editor chooses names and values. The manager must not build what they expand to.
func TestReferences_needLittleMemory(t *testing.T) {
	g := NewWithT(t)
	s := newResolved("hello")
	s.Apply.Spec.Variables = map[string]infrav1.Value{"V": infrav1.StringValue(strings.Repeat("x", 1_400_000))}
	for range 64 {
		ref := infrav1.ObjectReference{Name: strings.Repeat("${V}", 63)}
		s.Apply.Spec.WaitForSecrets, s.Apply.Spec.WaitForWorkspaces = append(s.Apply.Spec.WaitForSecrets, ref), append(s.Apply.Spec.WaitForWorkspaces, ref)
	}
	var refs []Reference
	var err error
	g.Expect(memorytest.Allocated(func() {
		refs, err = References(s.Apply), checkNames(s.Apply)
	})).To(BeNumerically("<", 1<<20))
	g.Expect(refs).To(HaveLen(1 + 64 + 64))
	g.Expect(refs[1].Key.Name).To(Equal(strings.Repeat("${V}", 63)))
	stalled, ok := fault.AsStalled(InputsFault(err))
	g.Expect(ok).To(BeTrue(), "%v", err)
	g.Expect(stalled.Reason).To(Equal(infrav1.InvalidVariableReason))
	g.Expect(stalled.Message()).To(Equal("spec.waitForWorkspaces[0].name: has more than 253 bytes, the limit, with the values of its placeholders: shorten the value of ${V}"))
}

func TestCheckNames(t *testing.T) {
	g := NewWithT(t)
	s := newResolved("hello")
	s.Apply.Spec.WaitForSecrets = []infrav1.ObjectReference{{Name: "${WORKSPACE_NAME}-vpc"}, {Name: "${nmae}-vpc"}}
	g.Expect(checkNames(s.Apply)).To(MatchError(ContainSubstring("spec.waitForSecrets[1].name: ${nmae} has no value; set it in spec.variables")))
	s.Apply.Spec.WaitForWorkspaces, s.Apply.Spec.WaitForSecrets = s.Apply.Spec.WaitForSecrets, nil
	g.Expect(checkNames(s.Apply)).To(MatchError(ContainSubstring("spec.waitForWorkspaces[1].name: ${nmae} has no value")))
	s.Apply.Status.AppliedAt = metav1.Now()
	g.Expect(checkNames(s.Apply)).To(Succeed(), "it does not wait any more")
}

func TestWorkspaceFault(t *testing.T) {
	written := func(status metav1.ConditionStatus) []metav1.Condition {
		return []metav1.Condition{{Type: infrav1.OutputsWrittenCondition, Status: status}}
	}
	now := metav1.Now()
	tests := []struct {
		name   string
		status *infrav1.WorkspaceTemplateApplyStatus
		want   string
	}{
		{"missing", nil, "WorkspaceTemplateApply n/vpc does not exist"},
		{"new", &infrav1.WorkspaceTemplateApplyStatus{}, "WorkspaceTemplateApply n/vpc is not applied yet"},
		{"applied, outputs not written", &infrav1.WorkspaceTemplateApplyStatus{AppliedAt: now}, "WorkspaceTemplateApply n/vpc is not applied yet"},
		{"applied, outputs failed", &infrav1.WorkspaceTemplateApplyStatus{AppliedAt: now, Conditions: written("False")}, "WorkspaceTemplateApply n/vpc is not applied yet"},
		{"outputs of an earlier object", &infrav1.WorkspaceTemplateApplyStatus{Conditions: written("True")}, "WorkspaceTemplateApply n/vpc is not applied yet"},
		{"applied and written", &infrav1.WorkspaceTemplateApplyStatus{AppliedAt: now, Conditions: written("True")}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			var other *infrav1.WorkspaceTemplateApply
			if tt.status != nil {
				other = &infrav1.WorkspaceTemplateApply{Status: *tt.status}
			}
			err := workspaceFault(key("vpc"), other)
			if tt.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			waiting, ok := fault.AsWaiting(err)
			g.Expect(ok).To(BeTrue())
			g.Expect(waiting.Reason).To(Equal(infrav1.WaitingForWorkspaceReason))
			g.Expect(waiting.Message()).To(Equal(tt.want))
		})
	}
}

func TestFindCycle(t *testing.T) {
	type waits = map[string][]string
	tests := []struct {
		name  string
		waits waits
		want  []string
	}{
		{"none", waits{"a": nil}, nil},
		{"itself", waits{"a": {"a"}}, []string{"a", "a"}},
		{"two", waits{"a": {"b"}, "b": {"a"}}, []string{"a", "b", "a"}},
		{"three, the second branch", waits{"a": {"x", "b"}, "x": nil, "b": {"x", "c"}, "c": {"a"}}, []string{"a", "b", "c", "a"}},
		{"a chain", waits{"a": {"b"}, "b": {"c"}, "c": nil}, nil},
		{"a diamond", waits{"a": {"b", "c"}, "b": {"d"}, "c": {"d"}, "d": nil}, nil},
		{"a missing workspace", waits{"a": {"missing", "b"}, "b": {"a"}}, []string{"a", "b", "a"}},
		{"a cycle of others", waits{"a": {"b"}, "b": {"c"}, "c": {"b"}}, nil},
		{"a placeholder", waits{"a": {"${WORKSPACE_NAME}-vpc"}, "a-vpc": {"a"}}, []string{"a", "a-vpc", "a"}},
		{"the same name in another namespace", waits{"a": {"other/a"}, "other/a": nil}, nil},
		{"through another namespace", waits{"a": {"other/b"}, "other/b": {"n/a"}}, []string{"a", "b", "a"}},
		{"names are relative to the namespace of the waiter", waits{"a": {"other/b"}, "other/b": {"a"}, "other/a": nil}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			workspaces := map[client.ObjectKey]*infrav1.WorkspaceTemplateApply{}
			for name, others := range tt.waits {
				apply := &infrav1.WorkspaceTemplateApply{}
				ref := objectReference(name)
				apply.Name, apply.Namespace = ref.Name, ref.Namespace
				if apply.Namespace == "" {
					apply.Namespace = "n"
				}
				for _, other := range others {
					apply.Spec.WaitForWorkspaces = append(apply.Spec.WaitForWorkspaces, objectReference(other))
				}
				workspaces[client.ObjectKeyFromObject(apply)] = apply
			}
			reads := 0
			cycle, err := findCycle(workspaces[key("a")], func(key client.ObjectKey) (*infrav1.WorkspaceTemplateApply, error) {
				reads++
				return workspaces[key], nil
			})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(cycle).To(Equal(tt.want))
			g.Expect(reads).To(BeNumerically("<=", len(tt.waits)), "each workspace is read once")
		})
	}
}

func TestFindCycle_returnsErrors(t *testing.T) {
	refused := errors.New("connection refused")
	s := newResolved("a")
	s.Apply.Spec.WaitForWorkspaces = []infrav1.ObjectReference{{Name: "b"}}
	_, err := findCycle(s.Apply, func(client.ObjectKey) (*infrav1.WorkspaceTemplateApply, error) { return nil, refused })
	NewWithT(t).Expect(err).To(MatchError(refused))
}

func objectReference(name string) infrav1.ObjectReference {
	for i := range name {
		if name[i] == '/' {
			return infrav1.ObjectReference{Namespace: name[:i], Name: name[i+1:]}
		}
	}
	return infrav1.ObjectReference{Name: name}
}

func TestInputsFault(t *testing.T) {
	g := NewWithT(t)

	stalled, ok := fault.AsStalled(InputsFault(&template.Problem{Reason: infrav1.MissingVariableReason, Message: "name is missing"}))
	g.Expect(ok).To(BeTrue())
	g.Expect(stalled.Reason).To(Equal(infrav1.MissingVariableReason))
	g.Expect(stalled.Message()).To(Equal("name is missing"))

	for secret, reason := range map[bool]string{true: infrav1.WaitingForSecretReason, false: infrav1.WaitingForConfigMapReason} {
		waiting, ok := fault.AsWaiting(InputsFault(&template.MissingKeyError{Secret: secret, Name: "s", Key: "k"}))
		g.Expect(ok).To(BeTrue())
		g.Expect(waiting.Reason).To(Equal(reason))
		g.Expect(waiting.RetryAfter).To(Equal(time.Duration(0)), "a watch ends the wait")
	}

	other := errors.New("boom")
	g.Expect(InputsFault(other)).To(BeIdenticalTo(other))
}
