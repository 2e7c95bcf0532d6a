package web

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func TestTrim_keepsWhatViewsShow(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	meta := metav1.ObjectMeta{Namespace: "a", Name: "n", UID: "u", ResourceVersion: "1", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: "{}"}}
	apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: meta}
	apply.Spec.TemplateRef.Name, apply.Spec.RequiredOutputs = "vpc", []string{"x"}
	apply.Status.Runs = 3
	trim(apply)
	g.Expect(apply.Annotations).To(BeEmpty())
	g.Expect(apply.Labels).To(HaveLen(1))
	g.Expect(apply.Spec).To(Equal(infrav1.WorkspaceTemplateApplySpec{TemplateRef: apply.Spec.TemplateRef}))
	g.Expect(apply.Status.Runs).To(Equal(int64(3)))

	addon := &addonsv1.CAPTAddon{ObjectMeta: meta}
	addon.Spec.Manifests = []addonsv1.ManifestSource{{Name: "m", Inline: "large"}}
	addon.Spec.Helm = &addonsv1.HelmRelease{Namespace: "n"}
	addon.Spec.Helm.Chart.Name = "chart"
	trim(addon)
	g.Expect(addon.Spec.Manifests).To(BeEmpty())
	g.Expect(addon.Spec.Helm.Chart.Name).To(Equal("chart"))

	own := &corev1.Event{ObjectMeta: meta, InvolvedObject: corev1.ObjectReference{APIVersion: infrav1.GroupVersion.String(), Kind: "CAPTCluster", Name: "n", UID: "x"}, Reason: "R", Message: "M", Count: 2, Action: "Act"}
	want, found := newEvent(own.DeepCopy())
	g.Expect(found).To(BeTrue())
	trim(own)
	got, found := newEvent(own)
	g.Expect(found).To(BeTrue())
	g.Expect(got).To(Equal(want))
	g.Expect(own.Action).To(BeEmpty())
	foreign := &corev1.Event{ObjectMeta: meta, InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod"}, Message: "large"}
	trim(foreign)
	g.Expect(foreign.Message).To(BeEmpty())
	g.Expect(foreign.UID).To(Equal(types.UID("u")))
}
