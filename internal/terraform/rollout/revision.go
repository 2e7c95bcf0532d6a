package rollout

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/record"
)

// TemplateLabel names the template of a ControllerRevision.
const TemplateLabel = "capt.appthrust.io/template"

// module is what a revision of a template contains.
type module struct {
	ForProvider infrav1.ModuleParameters `json:"forProvider"`
	Tool        *infrav1.ToolRequirement `json:"tool,omitempty"`
	Outputs     []infrav1.SelectedOutput `json:"outputs,omitempty"`
}

// NewRevision returns the revision with the module of a template. Its name depends on the
// module only.
func NewRevision(t *infrav1.WorkspaceTemplate) (*appsv1.ControllerRevision, error) {
	spec := &t.Spec.Template.Spec
	data, err := json.Marshal(module{ForProvider: spec.ForProvider, Tool: spec.Tool, Outputs: spec.Outputs})
	if err != nil {
		return nil, fmt.Errorf("encoding the module: %w", err)
	}
	hash := sha256.Sum256(data)
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: t.Namespace, Name: namePrefix(t.Name) + hex.EncodeToString(hash[:hashBytes]),
			Labels: map[string]string{TemplateLabel: record.LabelValue(t.Name)},
		},
		Data:     runtime.RawExtension{Raw: data},
		Revision: t.Generation,
	}, nil
}

const (
	// hashBytes is the size of the hash in names.
	hashBytes = 5
	// maxPrefix leaves space for the hash in the name of a revision.
	maxPrefix = 240
)

func namePrefix(template string) string { return record.Shorten(template, maxPrefix) + "-" }

// IsRevisionOf reports whether a name is that of a revision of a template.
func IsRevisionOf(template, name string) bool {
	hash, found := strings.CutPrefix(name, namePrefix(template))
	return found && len(hash) == hex.EncodedLen(hashBytes)
}

// Use replaces the module of a template by that of a revision.
func Use(revision *appsv1.ControllerRevision, t *infrav1.WorkspaceTemplate) error {
	var m module
	if err := json.Unmarshal(revision.Data.Raw, &m); err != nil {
		return fmt.Errorf("decoding ControllerRevision %s/%s: %w", revision.Namespace, revision.Name, err)
	}
	spec := &t.Spec.Template.Spec
	spec.ForProvider, spec.Tool, spec.Outputs = m.ForProvider, m.Tool, m.Outputs
	return nil
}
