package cleanup

import (
	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// SurplusModules returns the Secrets of module content that no run uses any more. The
// artifact of a Flux source is used if the content is not stored.
func SurplusModules(workspace terraform.WorkspaceRef, secrets []corev1.Secret, module *infrav1.ModuleStatus) []corev1.Secret {
	used := ""
	if module != nil {
		used = module.Archive
	}
	if used == "" && module != nil && module.Artifact != "" {
		used = record.ModuleName(workspace, module.Artifact)
	}
	var surplus []corev1.Secret
	for _, secret := range secrets {
		if used == "" || !record.IsChunk(secret.Name, used) {
			surplus = append(surplus, secret)
		}
	}
	return surplus
}
