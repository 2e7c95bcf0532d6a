package workspaceproviderconfig

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
)

func TestConfigChanged(t *testing.T) {
	tests := []struct {
		name              string
		previous, current string
		want              bool
	}{
		{"none", "", "", false},
		{"same", "aws", "aws", false},
		{"another", "aws", "other", true},
		{"removed", "aws", "", true},
		{"added", "", "aws", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			NewWithT(t).Expect(configChanged(newTemplate("n", "t", tt.previous), newTemplate("n", "t", tt.current))).To(Equal(tt.want))
		})
	}
}

func TestIsDeleting(t *testing.T) {
	g := NewWithT(t)
	g.Expect(isDeleting(&infrav1.WorkspaceProviderConfig{})).To(BeFalse())
	g.Expect(isDeleting(&infrav1.WorkspaceProviderConfig{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: new(metav1.Now())}})).To(BeTrue())
}
