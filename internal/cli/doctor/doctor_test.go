package doctor

import (
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var now = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "team", Name: name} }

func TestCheckError_missingPermissionIsAWarning(t *testing.T) {
	resource := schema.GroupResource{Resource: "secrets"}
	for name, tc := range map[string]struct {
		err  error
		want Status
	}{
		"forbidden":    {apierrors.NewForbidden(resource, "a", errors.New("no")), Warn},
		"unauthorized": {apierrors.NewUnauthorized("no"), Warn},
		"other":        {apierrors.NewInternalError(errors.New("no")), Fail},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(checkError(tc.err).Status).To(Equal(tc.want))
		})
	}
}
