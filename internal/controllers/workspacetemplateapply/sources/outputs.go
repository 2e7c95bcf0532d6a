package sources

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

// OutputsSource returns what the next run uses, or nil if it is not known.
func (s *Resolved) OutputsSource() *infrav1.OutputsSource {
	if s.Sources.Template == nil {
		return nil
	}
	source := &infrav1.OutputsSource{TemplateRef: ReferenceTo(s.Sources.Template)}
	if config := s.Sources.ProviderConfig; config != nil {
		source.ProviderConfigRef = new(ReferenceTo(config))
	}
	return source
}

func ReferenceTo(obj client.Object) infrav1.ObjectReference {
	return infrav1.ObjectReference{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}
