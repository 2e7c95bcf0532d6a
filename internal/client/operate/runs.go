package operate

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/terraform/record"
)

// RunIDs returns the IDs of the recorded runs, the newest first.
func RunIDs(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply) ([]string, error) {
	// The Secrets hold logs: read only their metadata.
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	err := c.List(ctx, list, client.InNamespace(apply.Namespace), client.MatchingLabels{
		infrav1.WorkspaceLabel: record.LabelValue(apply.Name), infrav1.ComponentLabel: record.ComponentRun,
	})
	if err != nil {
		return nil, fmt.Errorf("listing the runs of %s: %w", apply.Name, err)
	}
	var ids []string
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], apply) {
			ids = append(ids, record.RunID(&list.Items[i]))
		}
	}
	slices.SortFunc(ids, func(a, b string) int {
		// An ID without a number sorts last.
		x, _ := record.RunNumber(a)
		y, _ := record.RunNumber(b)
		return cmp.Compare(y, x)
	})
	return ids, nil
}

// maxHostedName is the limit for the name of a workspace.
const maxHostedName = 200

// HostOf returns the namespace and the name of the workspace that runs for this one in
// another namespace, or empty strings.
func HostOf(apply *infrav1.WorkspaceTemplateApply) (namespace, name string) {
	if namespace = apply.Annotations[infrav1.HostedInAnnotation]; namespace == "" {
		return "", ""
	}
	return namespace, record.Shorten(apply.Namespace+"."+apply.Name, maxHostedName)
}

// checkHosted returns an error that names the workspace that runs for this one in another
// namespace, if there is one.
func checkHosted(apply *infrav1.WorkspaceTemplateApply) error {
	host, name := HostOf(apply)
	if host == "" {
		return nil
	}
	return fmt.Errorf("%s runs in namespace %s, which has its logs and its state: use -n %s %s, if you may", apply.Name, host, host, name)
}

// RunSecret returns the record of a run, or of the newest run if id is empty.
func RunSecret(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply, id string) (*corev1.Secret, error) {
	ids, err := RunIDs(ctx, c, apply)
	if err != nil {
		return nil, err
	}
	switch err := checkHosted(apply); {
	case err != nil && len(ids) == 0:
		return nil, err
	case len(ids) == 0:
		return nil, fmt.Errorf("%s has no runs yet: see kubectl describe wsta %s", apply.Name, apply.Name)
	case id == "":
		id = ids[0]
	case !slices.Contains(ids, id):
		return nil, notFoundOf("run", id, ids, "captctl history "+apply.Name)
	}
	secret := &corev1.Secret{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: apply.Namespace, Name: record.SecretName(id)}, secret); err != nil {
		return nil, fmt.Errorf("reading run %s: %w", id, err)
	}
	return secret, nil
}

// NewLog returns the part of a log that was added since it was last read. The
// record keeps only the last part of a log, so the current log starts at any line
// of the previous one.
func NewLog(previous, current []byte) []byte {
	for len(previous) > 0 {
		if added, found := bytes.CutPrefix(current, previous); found {
			return added
		}
		end := bytes.IndexByte(previous, '\n')
		if end < 0 {
			break
		}
		previous = previous[end+1:]
	}
	return current
}
