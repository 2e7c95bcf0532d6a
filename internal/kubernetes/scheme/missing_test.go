package scheme_test

import (
	"errors"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/appthrust/capt/internal/kubernetes/scheme"
)

func TestNotInstalled_recognisesMissingKinds(t *testing.T) {
	version := schema.GroupVersion{Group: "g", Version: "v1"}
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"kind":          {&meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "g", Kind: "K"}}, "g"},
		"resource":      {fmt.Errorf("reading: %w", &meta.NoResourceMatchError{PartialResource: version.WithResource("r")}), "g"},
		"group":         {&apiutil.ErrResourceDiscoveryFailed{version: &meta.NoResourceMatchError{PartialResource: version.WithResource("")}}, "g"},
		"no group":      {&apiutil.ErrResourceDiscoveryFailed{}, ""},
		"no permission": {&apiutil.ErrResourceDiscoveryFailed{version: errors.New("forbidden")}, ""},
		"another":       {errors.New("no"), ""},
		"none":          {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			group, missing := scheme.NotInstalled(tc.err)
			NewWithT(t).Expect(group).To(Equal(tc.want))
			NewWithT(t).Expect(missing).To(Equal(tc.want != ""))
		})
	}
}
