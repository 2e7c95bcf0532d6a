package workspacetemplateapply

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
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// componentConnection marks the Secret that holds the outputs.
const componentConnection = "connection"

var secretKey = regexp.MustCompile(`^[-._a-zA-Z0-9]+$`)

// outputs writes the outputs of the latest applied run: all into the connection
// Secret, those that are not sensitive into the status.
func (r *Reconciler) outputs(ctx context.Context, s *scope) error {
	run, result, err := s.latestOutputs()
	if err != nil {
		return err
	}
	if run == nil {
		// The record is gone: plan again, which changes nothing and finds them.
		s.apply.Status.AppliedInputs = ""
		return fault.WaitFor(1, infrav1.WaitingForWorkspaceReason, "The outputs are no longer on record; planning again to find them")
	}
	s.apply.Status.Outputs = visible(result.Outputs)
	s.apply.Status.State = s.stateStatus(result)
	data, invalid := secretData(result.Outputs)
	s.apply.Status.ConnectionSecretName = s.inputs.ConnectionSecret
	if s.inputs.ConnectionSecret != "" {
		if err := r.writeConnection(ctx, s, data); err != nil {
			return err
		}
	}
	if len(invalid) > 0 {
		return fault.Stall(infrav1.InvalidOutputNameReason, "Outputs %s cannot be keys of a Secret: rename them to letters, digits, '-', '_' and '.'", strings.Join(invalid, ", "))
	}
	return nil
}

// latestOutputs finds the newest run that left outputs.
func (s *scope) latestOutputs() (*runRecord, *terraform.Result, error) {
	for _, run := range s.runs {
		if !record.Finished(run.secret) {
			continue
		}
		switch run.operation() {
		case terraform.OperationCheckDrift, terraform.OperationDestroy:
			continue
		}
		result, err := record.Result(run.secret)
		if err != nil {
			return nil, nil, err
		}
		if result.Outcome == terraform.OutcomeSucceeded || result.Outcome == terraform.OutcomeNoChanges {
			return run, result, nil
		}
	}
	return nil, nil, nil
}

func (s *scope) stateStatus(result *terraform.Result) *infrav1.StateStatus {
	backend := s.inputs.Request.Backend
	_, configuration, _ := strings.Cut(backendName(backend), "-")
	status := &infrav1.StateStatus{Backend: backend.Type, Configuration: configuration, Serial: int64(result.State.Serial), Resources: int32(result.State.Resources)}
	if backend.Type == terraform.BackendKubernetes {
		status.SecretName = backend.StateSecretName()
	}
	return status
}

// secretData renders outputs for a Secret: strings as they are, others as JSON.
func secretData(outputs map[string]terraform.Output) (data map[string][]byte, invalid []string) {
	data = map[string][]byte{}
	for _, name := range slices.Sorted(maps.Keys(outputs)) {
		if !secretKey.MatchString(name) {
			invalid = append(invalid, name)
			continue
		}
		var text string
		if err := json.Unmarshal(outputs[name].Value, &text); err == nil {
			data[name] = []byte(text)
		} else {
			data[name] = outputs[name].Value
		}
	}
	return data, invalid
}

// What a status holds of the outputs; the Secret has all of them.
const (
	longestOutput  = 4 << 10
	longestOutputs = 64 << 10
	mostOutputs    = 256
)

func visible(outputs map[string]terraform.Output) map[string]infrav1.Value {
	shown, size := map[string]infrav1.Value{}, 0
	for _, name := range slices.Sorted(maps.Keys(outputs)) {
		o := outputs[name]
		if o.Sensitive || len(o.Value) == 0 || len(o.Value) > longestOutput || size+len(o.Value) > longestOutputs || len(shown) == mostOutputs {
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

// writeConnection makes the connection Secret what it is to be, and writes only
// what differs.
func (r *Reconciler) writeConnection(ctx context.Context, s *scope, data map[string][]byte) error {
	meta := record.Meta(s.inputs.Request.Workspace, componentConnection, "")
	meta.Name = s.inputs.ConnectionSecret
	if cluster := s.apply.Labels[clusterv1.ClusterNameLabel]; cluster != "" {
		meta.Labels[clusterv1.ClusterNameLabel] = cluster
	}
	wanted := &corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeOpaque, Data: data}
	var found corev1.Secret
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(wanted), &found)
	if apierrors.IsNotFound(err) {
		err = r.Client.Create(ctx, wanted)
		if !apierrors.IsAlreadyExists(err) {
			return wrap("creating the connection Secret", err)
		}
		// It is not in the cache, which holds only what is CAPT's own.
		err = r.Reader.Get(ctx, client.ObjectKeyFromObject(wanted), &found)
	}
	if err != nil {
		return fmt.Errorf("reading the connection Secret: %w", err)
	}
	if owner := metav1.GetControllerOf(&found); owner != nil && owner.UID != s.apply.UID || owner == nil && found.Labels[infrav1.WorkspaceLabel] != meta.Labels[infrav1.WorkspaceLabel] {
		return fault.Stall(infrav1.SecretConflictReason, "Secret %s exists and belongs to somebody else: delete it, or choose another name in writeConnectionSecretToRef", found.Name)
	}
	changed := found.DeepCopy()
	changed.Data, changed.OwnerReferences = data, meta.OwnerReferences
	if changed.Labels == nil {
		changed.Labels = map[string]string{}
	}
	maps.Copy(changed.Labels, meta.Labels)
	if equalSecrets(&found, changed) {
		return nil
	}
	return wrap("updating the connection Secret", r.Client.Update(ctx, changed))
}

func equalSecrets(a, b *corev1.Secret) bool {
	return maps.EqualFunc(a.Data, b.Data, slices.Equal[[]byte]) && maps.Equal(a.Labels, b.Labels) &&
		slices.EqualFunc(a.OwnerReferences, b.OwnerReferences, func(x, y metav1.OwnerReference) bool { return x.UID == y.UID })
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

func outputsMessage(s *scope) string {
	if s.apply.Status.ConnectionSecretName == "" {
		return ""
	}
	return "Outputs are in Secret " + s.apply.Status.ConnectionSecretName
}
