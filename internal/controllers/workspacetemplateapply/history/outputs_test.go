package history

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/sources"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/template"
)

func newResolved() *sources.Resolved {
	return &sources.Resolved{Workspace: &runs.Workspace{Apply: &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "hello", UID: "u"}}}}
}

func output(value string) terraform.Output { return terraform.Output{Value: json.RawMessage(value)} }

func secretOutput(value string) terraform.Output {
	return terraform.Output{Value: json.RawMessage(value), Sensitive: true}
}

func TestSecretData(t *testing.T) {
	g := NewWithT(t)
	data, invalid := SecretData(map[string]terraform.Output{
		"text": output(`"a \"quoted\"\nline, {braces} and <angles>"`), "empty": output(`""`), "number": output(`1.50`), "bool": output(`true`),
		"list": output(`["a",1]`), "object": output(`{"a":{"b":null}}`), "null": output(`null`), "token": secretOutput(`"s3cr3t"`),
		"dotted.name-1": output(`1`), "grüße": output(`1`), "a/b": output(`1`),
	})
	text := map[string]string{}
	for key, value := range data {
		text[key] = string(value)
	}
	g.Expect(text).To(Equal(map[string]string{
		"text": "a \"quoted\"\nline, {braces} and <angles>", "empty": "", "number": "1.50", "bool": "true",
		"list": `["a",1]`, "object": `{"a":{"b":null}}`, "token": "s3cr3t", "dotted.name-1": "1",
	}))
	g.Expect(invalid).To(Equal([]string{"a/b", "grüße"}), "sorted")
}

func TestStatusOutputs_limitsAndSensitiveValues(t *testing.T) {
	g := NewWithT(t)
	shown := StatusOutputs(map[string]terraform.Output{
		"id": output(`"vpc-1"`), "token": secretOutput(`"s3cr3t"`), "none": {}, "large": output(`"` + strings.Repeat("x", 5000) + `"`),
	})
	g.Expect(shown).To(HaveLen(1))
	g.Expect(shown["id"].String()).To(Equal("vpc-1"))
	g.Expect(StatusOutputs(nil)).To(BeNil())
	g.Expect(StatusOutputs(map[string]terraform.Output{"token": secretOutput(`1`)})).To(BeNil())

	sized := func(bytes int) terraform.Output { return output(`"` + strings.Repeat("x", bytes-2) + `"`) }
	g.Expect(StatusOutputs(map[string]terraform.Output{"fits": sized(4 << 10), "large": sized(4<<10 + 1)})).To(And(HaveLen(1), HaveKey("fits")))
	full := map[string]terraform.Output{}
	for i := range 16 {
		full[fmt.Sprintf("o%03d", i)] = sized(4 << 10)
	}
	full["z"] = output(`1`)
	g.Expect(StatusOutputs(full)).To(And(HaveLen(16), Not(HaveKey("z"))), "64 KiB in total fit")

	many := map[string]terraform.Output{}
	for i := range 300 {
		many[fmt.Sprintf("o%03d", i)] = output(`1`)
	}
	g.Expect(StatusOutputs(many)).To(HaveLen(256))
	heavy := map[string]terraform.Output{}
	for i := range 100 {
		heavy[fmt.Sprintf("o%03d", i)] = output(`"` + strings.Repeat("x", 4000) + `"`)
	}
	size := 0
	for _, value := range StatusOutputs(heavy) {
		size += len(value.Raw)
	}
	g.Expect(size).To(And(BeNumerically("<=", 64<<10), BeNumerically(">", 50<<10)))
}

func TestEqualSecrets(t *testing.T) {
	g := NewWithT(t)
	secret := func(change func(*corev1.Secret)) *corev1.Secret {
		s := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}, OwnerReferences: []metav1.OwnerReference{{UID: "u"}}},
			Data:       map[string][]byte{"k": []byte("v"), "empty": {}},
		}
		change(s)
		return s
	}
	same := secret(func(*corev1.Secret) {})
	g.Expect(equalSecrets(same, secret(func(s *corev1.Secret) { s.Data["empty"] = nil; s.Annotations = map[string]string{"x": "y"} }))).To(BeTrue())
	for name, change := range map[string]func(*corev1.Secret){
		"a value": func(s *corev1.Secret) { s.Data["k"] = []byte("w") }, "an added key": func(s *corev1.Secret) { s.Data["l"] = nil },
		"a removed key": func(s *corev1.Secret) { delete(s.Data, "k") }, "a label": func(s *corev1.Secret) { s.Labels["a"] = "c" },
		"the owner": func(s *corev1.Secret) { s.OwnerReferences[0].UID = "other" },
	} {
		g.Expect(equalSecrets(same, secret(change))).To(BeFalse(), name)
	}
}

func TestConnectionSecret(t *testing.T) {
	g := NewWithT(t)
	s := newResolved()
	s.Inputs = &template.Inputs{ConnectionSecret: "hello-connection"}
	s.Inputs.Request.Workspace = s.Ref()
	data := map[string][]byte{"k": []byte("v")}

	secret := connectionSecret(s, data)
	g.Expect(secret.Name).To(Equal("hello-connection"))
	g.Expect(secret.Data).To(Equal(data))
	g.Expect(secret.Labels).NotTo(HaveKey(clusterv1.ClusterNameLabel))
	g.Expect(ownsConnection(s.Apply, secret)).To(BeTrue())

	s.Apply.Labels = map[string]string{clusterv1.ClusterNameLabel: "demo"}
	g.Expect(connectionSecret(s, data).Labels).To(HaveKeyWithValue(clusterv1.ClusterNameLabel, "demo"))
}

func TestOwnsConnection(t *testing.T) {
	apply := newResolved().Apply
	owner := func(uid types.UID, controller bool) []metav1.OwnerReference {
		return []metav1.OwnerReference{{UID: uid, Controller: &controller}}
	}
	connection := map[string]string{infrav1.ComponentLabel: runs.ComponentConnection}
	component := func(name, component string) map[string]string {
		return map[string]string{infrav1.WorkspaceLabel: name, infrav1.ComponentLabel: component}
	}
	label := func(name string) map[string]string { return component(name, runs.ComponentConnection) }
	tests := []struct {
		name string
		meta metav1.ObjectMeta
		want bool
	}{
		{"controlled by the workspace", metav1.ObjectMeta{OwnerReferences: owner("u", true), Labels: connection}, true},
		{"another Secret of the workspace", metav1.ObjectMeta{OwnerReferences: owner("u", true), Labels: component("hello", record.ComponentRun)}, false},
		{"the state of the workspace", metav1.ObjectMeta{Labels: component("hello", record.ComponentState)}, false},
		{"controlled by another object", metav1.ObjectMeta{OwnerReferences: owner("other", true), Labels: connection}, false},
		{"controlled by another object, with the label", metav1.ObjectMeta{OwnerReferences: owner("other", true), Labels: label("hello")}, false},
		{"retained by an earlier workspace", metav1.ObjectMeta{Labels: label("hello")}, true},
		{"retained by another workspace", metav1.ObjectMeta{Labels: label("other")}, false},
		{"a user's Secret", metav1.ObjectMeta{}, false},
		{"owned, but not controlled", metav1.ObjectMeta{OwnerReferences: owner("u", false), Labels: connection}, false},
	}
	for _, tt := range tests {
		NewWithT(t).Expect(ownsConnection(apply, &corev1.Secret{ObjectMeta: tt.meta})).To(Equal(tt.want), tt.name)
	}
	token := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{OwnerReferences: owner("u", true), Labels: connection}}
	token.Type = corev1.SecretTypeServiceAccountToken
	NewWithT(t).Expect(ownsConnection(apply, token)).To(BeFalse(), "a token")
}

func TestUpdatedConnection(t *testing.T) {
	g := NewWithT(t)
	desired := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "new"}, OwnerReferences: []metav1.OwnerReference{{UID: "u"}}}}
	desired.Data = map[string][]byte{"k": []byte("v")}

	found := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1", Labels: map[string]string{"a": "old", "users": "kept"}}}
	found.Data = map[string][]byte{"removed": nil}
	updated := updatedConnection(found, desired)
	g.Expect(updated.Labels).To(Equal(map[string]string{"a": "new", "users": "kept"}))
	g.Expect(updated.Data).To(Equal(desired.Data))
	g.Expect(updated.OwnerReferences).To(Equal(desired.OwnerReferences))
	g.Expect(updated.ResourceVersion).To(Equal("1"))
	g.Expect(found.Labels).To(HaveKeyWithValue("a", "old"), "the cached object is unchanged")

	g.Expect(updatedConnection(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{}}, desired).Labels).To(Equal(map[string]string{"a": "new"}))
}

func TestOutputsMessage(t *testing.T) {
	g := NewWithT(t)
	s := newResolved()
	g.Expect(OutputsMessage(s.Apply)).To(BeEmpty())
	s.Apply.Status.ConnectionSecretName = "c"
	g.Expect(OutputsMessage(s.Apply)).To(Equal("Outputs are in Secret c"))
}
