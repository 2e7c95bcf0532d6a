package history

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/runs"
	"github.com/appthrust/capt/internal/controllers/workspacetemplateapply/sources"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

var secretKey = regexp.MustCompile(`^[-._a-zA-Z0-9]+$`)

// Publisher writes the outputs of workspaces.
type Publisher struct{ *runs.Store }

// Outputs writes the Outputs of the latest successful run: all of them into the
// connection Secret, the ones that are not sensitive into the status.
func (r *Publisher) Outputs(ctx context.Context, s *sources.Resolved) error {
	run := s.LatestOutputs()
	var result *terraform.Result
	if run != nil {
		var err error
		if result, err = r.Whole(ctx, run); err != nil {
			return err
		}
	}
	if result == nil || !runs.HasOutputs(run.Operation(), result.Outcome) {
		// The run was deleted. A new plan changes nothing and returns the outputs.
		s.Apply.Status.AppliedInputs = ""
		return fault.WaitFor(1, infrav1.WaitingForWorkspaceReason, "The run with the outputs does not exist any more: planning again to read them")
	}
	s.Apply.Status.Outputs = StatusOutputs(result.Outputs)
	s.Apply.Status.OutputsSource = SourceOf(s, run)
	if s.Apply.Status.AppliedInputs == s.Inputs.Hash {
		s.Apply.Status.TemplateRevision = s.Revision
	}
	data, invalid := SecretData(result.Outputs)
	s.Apply.Status.ConnectionSecretName = s.Inputs.ConnectionSecret
	if s.Inputs.ConnectionSecret != "" {
		if err := r.WriteConnection(ctx, s, data); err != nil {
			return err
		}
	}
	if len(invalid) > 0 {
		return fault.Stall(infrav1.InvalidOutputNameReason, "Outputs %s are not valid keys of a Secret: use only letters, digits, '-', '_' and '.' in their names", strings.Join(invalid, ", "))
	}
	return nil
}

// SourceOf returns what a run used. It is not recorded if the run was sealed again, see
// sealEnded: then it is what the status has, or what the next run would use with the same
// inputs.
func SourceOf(s *sources.Resolved, run *runs.Run) *infrav1.OutputsSource {
	source := &infrav1.OutputsSource{}
	if text, recorded := run.Secret.Annotations[record.ObjectsAnnotation]; recorded {
		if err := json.Unmarshal([]byte(text), source); err != nil {
			return nil
		}
		return source
	}
	if known := s.Apply.Status.OutputsSource; known != nil || run.Inputs() != s.Inputs.Hash {
		return known
	}
	return s.OutputsSource()
}

// SecretData returns outputs for a Secret: strings unquoted, other values as JSON.
// A null output is omitted, as OpenTofu omits it from the state. It also returns the
// outputs whose names are not valid keys.
func SecretData(outputs map[string]terraform.Output) (data map[string][]byte, invalid []string) {
	data = map[string][]byte{}
	for _, name := range slices.Sorted(maps.Keys(outputs)) {
		if !secretKey.MatchString(name) {
			invalid = append(invalid, name)
			continue
		}
		var text *string
		switch err := json.Unmarshal(outputs[name].Value, &text); {
		case err != nil:
			data[name] = outputs[name].Value
		case text != nil:
			data[name] = []byte(*text)
		}
	}
	return data, invalid
}

// Limits of the outputs in the status. The Secret has all outputs.
const (
	maxOutputName       = 256
	maxOutputBytes      = 4 << 10
	maxTotalOutputBytes = 64 << 10
	maxOutputs          = 256
)

// StatusOutputs returns the outputs that are not sensitive, up to the limits of
// the status.
func StatusOutputs(outputs map[string]terraform.Output) map[string]infrav1.Value {
	shown, size := map[string]infrav1.Value{}, 0
	for _, name := range slices.Sorted(maps.Keys(outputs)) {
		o := outputs[name]
		if o.Sensitive || len(name) > maxOutputName || len(o.Value) == 0 || len(o.Value) > maxOutputBytes || size+len(o.Value) > maxTotalOutputBytes || len(shown) == maxOutputs {
			continue
		}
		size += len(o.Value)
		shown[name] = infrav1.Value{Raw: o.Value}
	}
	if len(shown) == 0 {
		return nil
	}
	return shown
}

// WriteConnection creates or updates the connection Secret. It writes only if
// something differs.
func (r *Publisher) WriteConnection(ctx context.Context, s *sources.Resolved, data map[string][]byte) error {
	size := 0
	for _, value := range data {
		size += len(value)
	}
	if size > corev1.MaxSecretSize {
		// It would wait for the API server in memory.
		return outputsTooLarge(s.Inputs.ConnectionSecret)
	}
	desired := connectionSecret(s, data)
	var found corev1.Secret
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(desired), &found)
	if apierrors.IsNotFound(err) {
		err = r.Client.Create(ctx, desired)
		if err == nil {
			return nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return connectionFault("creating", desired.Name, err)
		}
		// The Secret exists but is not in the cache, which has only CAPT's own.
		err = r.Reader.Get(ctx, client.ObjectKeyFromObject(desired), &found)
	}
	if err != nil {
		return fmt.Errorf("reading the connection Secret: %w", err)
	}
	if !ownsConnection(s.Apply, &found) {
		return fault.Stall(infrav1.SecretConflictReason, "Secret %s exists and has another owner: delete it or choose another name in writeConnectionSecretToRef", found.Name)
	}
	updated := updatedConnection(&found, desired)
	if equalSecrets(&found, updated) {
		return nil
	}
	if err := r.Client.Update(ctx, updated); err != nil {
		return connectionFault("updating", desired.Name, err)
	}
	return nil
}

// connectionFault stalls if the outputs are too large for a Secret.
func connectionFault(action, name string, err error) error {
	if apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err) {
		return outputsTooLarge(name)
	}
	return fmt.Errorf("%s the connection Secret: %w", action, err)
}

func outputsTooLarge(name string) error {
	return fault.Stall(infrav1.OutputsTooLargeReason, "The outputs exceed the size of Secret %s (1 MiB): make them smaller, or remove writeConnectionSecretToRef", name)
}

// connectionSecret returns the desired connection Secret. It has the cluster
// label of the workspace.
func connectionSecret(s *sources.Resolved, data map[string][]byte) *corev1.Secret {
	meta := record.Meta(s.Inputs.Request.Workspace, runs.ComponentConnection, "")
	meta.Name = s.Inputs.ConnectionSecret
	if cluster := s.Apply.Labels[clusterv1.ClusterNameLabel]; cluster != "" {
		meta.Labels[clusterv1.ClusterNameLabel] = cluster
	}
	return &corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeOpaque, Data: data}
}

// ownsConnection reports whether a Secret is the connection Secret of the workspace: the
// workspace controls it, or it has no controller and the label of a workspace of this
// name, as a retained Secret does. The state, for example, has such a label too.
func ownsConnection(apply *infrav1.WorkspaceTemplateApply, secret *corev1.Secret) bool {
	if secret.Labels[infrav1.ComponentLabel] != runs.ComponentConnection || secret.Type != "" && secret.Type != corev1.SecretTypeOpaque {
		return false
	}
	if owner := metav1.GetControllerOf(secret); owner != nil {
		return owner.UID == apply.UID
	}
	return secret.Labels[infrav1.WorkspaceLabel] == record.LabelValue(apply.Name)
}

// updatedConnection returns a Secret with the data, labels and owner of the
// desired one. Other labels are kept.
func updatedConnection(found, desired *corev1.Secret) *corev1.Secret {
	updated := found.DeepCopy()
	updated.Data, updated.OwnerReferences = desired.Data, desired.OwnerReferences
	if updated.Labels == nil {
		updated.Labels = map[string]string{}
	}
	maps.Copy(updated.Labels, desired.Labels)
	return updated
}

// equalSecrets reports whether two Secrets have the same data, labels and owners.
func equalSecrets(a, b *corev1.Secret) bool {
	return maps.EqualFunc(a.Data, b.Data, slices.Equal[[]byte]) && maps.Equal(a.Labels, b.Labels) &&
		slices.EqualFunc(a.OwnerReferences, b.OwnerReferences, func(x, y metav1.OwnerReference) bool { return x.UID == y.UID })
}

// OutputsMessage describes where the outputs are.
func OutputsMessage(apply *infrav1.WorkspaceTemplateApply) string {
	if apply.Status.ConnectionSecretName == "" {
		return ""
	}
	return "Outputs are in Secret " + apply.Status.ConnectionSecretName
}
