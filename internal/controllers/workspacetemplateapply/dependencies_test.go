package workspacetemplateapply

import (
	"context"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform/template"
)

func TestReconcile_reportsNamesThatAreTooLong(t *testing.T) {
	c := newTestController(t, newApply(func(a *infrav1.WorkspaceTemplateApply) {
		a.Spec.Variables = map[string]infrav1.Value{"V": infrav1.StringValue(strings.Repeat("x", 100))}
		a.Spec.WaitForSecrets = []infrav1.ObjectReference{{Name: "${V}${V}${V}"}}
	}))
	c.reconcile()
	c.Expect(c.expect(infrav1.DependenciesReadyCondition, "False InvalidVariable")).To(ContainSubstring("shorten the value of ${V}"))
}

// The manager reads no more objects than a run can use.
func TestReadValues_limitsWhatItReads(t *testing.T) {
	sources := template.Sources{Apply: newApply(), Template: newTemplate()}
	p := &sources.Template.Spec.Template.Spec.ForProvider
	p.VarFiles, p.Vars, p.Env = nil, nil, nil
	var objects []client.Object
	for i := range 32 {
		name := fmt.Sprintf("large-%02d", i)
		p.VarFiles = append(p.VarFiles, infrav1.VarFile{Source: infrav1.VarFileSourceConfigMapKey, ConfigMapKeyReference: &infrav1.KeyReference{Name: name, Key: "k"}})
		objects = append(objects, &corev1.ConfigMap{ObjectMeta: objectMeta(name), Data: map[string]string{"k": strings.Repeat("x", 1<<20)}})
	}
	c := newTestController(t, append(objects, newApply())...)
	read := 0
	reader := interceptor.NewClient(c.server, interceptor.Funcs{Get: func(ctx context.Context, inner client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
		read++
		return inner.Get(ctx, key, obj, opts...)
	}})
	r := &Reconciler{Client: c.server, Reader: reader}
	err := r.build().resolver.ReadValues(t.Context(), &sources, template.ReferencesOf(sources))
	stalled, ok := fault.AsStalled(err)
	c.Expect(ok).To(BeTrue(), "%v", err)
	c.Expect(stalled.Reason).To(Equal(infrav1.InvalidVariableReason))
	c.Expect(stalled.Message()).To(HavePrefix("ConfigMap large-04: "))
	c.Expect(read).To(Equal(5))
}
