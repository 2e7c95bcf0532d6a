package captcontrolplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/cluster/aws"
	"github.com/appthrust/capt/internal/cluster/desired"
	"github.com/appthrust/capt/internal/cluster/workspace"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// leftoversInterval is the delay between two lookups in the account. A load balancer
// releases its security group and network interfaces after minutes.
const leftoversInterval = 15 * time.Second

// deleteLeftovers deletes what controllers of the cluster left in the account, and waits
// until it is gone. Network interfaces and rules that stay would prevent the deletion of
// the security group of the nodes, and of the VPC. It runs when no machine is left.
func (r *Reconciler) deleteLeftovers(ctx context.Context, s *scope) error {
	if !s.hasLeftovers() || !isInitialized(s) && !workspace.Applied(s.apply) {
		// Without an API server, no controller has created anything.
		return nil
	}
	query, known := s.leftoverQuery()
	if !known {
		s.notes[controlplanev1.LeftoversGoneCondition] = note{
			controlplanev1.LeftoversUnknownReason,
			"What is left in the account was not looked up: the workspace has no output " + desired.ClusterNameOutput + ", or the endpoint or the VPC is not known",
		}
		return nil
	}
	var err error
	if query.Protected, err = r.protectedIDs(ctx, s); err != nil {
		return err
	}
	err = s.deletionStep(skipLeftovers, controlplanev1.LeftoversGoneCondition, func() ([]string, error) {
		found, err := r.sweep(ctx, s, query)
		if err != nil {
			return nil, lookupError{err}
		}
		s.notes[controlplanev1.LeftoversGoneCondition] = leftoversNote(found)
		if s.leftoverPolicy() == controlplanev1.LeftoversReport {
			return nil, nil
		}
		return found.Remaining, nil
	})
	if waiting, ok := fault.AsWaiting(err); ok {
		waiting.RetryAfter = leftoversInterval
	}
	return err
}

// sweepInterfaces deletes network interfaces that nodes release while the control plane is
// destroyed. The run would wait for them, and fail.
func (r *Reconciler) sweepInterfaces(ctx context.Context, s *scope) {
	query, known := s.leftoverQuery()
	if !known || !s.mayDeleteLeftovers() {
		return
	}
	query.InterfacesOnly = true
	if _, err := r.sweep(ctx, s, query); err != nil {
		ctrl.LoggerFrom(ctx).Info("Network interfaces could not be looked up", "cause", err.Error())
	}
}

// sweep calls the cloud with the credentials of the control plane's runs.
func (r *Reconciler) sweep(ctx context.Context, s *scope, query aws.LeftoverQuery) (aws.Leftovers, error) {
	credentials, err := r.outputCredentials(ctx, s)
	if err != nil {
		return aws.Leftovers{}, err
	}
	return r.Cloud.SweepLeftovers(ctx, credentials, s.region(), query)
}

// hasLeftovers reports whether the account of the cluster can be searched: it is one of
// AWS.
func (s *scope) hasLeftovers() bool {
	return s.kubeconfigConfig().Source == controlplanev1.KubeconfigSourceEKS
}

// mayDeleteLeftovers reports whether leftovers are deleted.
func (s *scope) mayDeleteLeftovers() bool {
	return s.hasLeftovers() && s.leftoverPolicy() == controlplanev1.LeftoversDelete && !slices.Contains(s.skippedSteps(), skipLeftovers)
}

// leftoverPolicy returns what happens to leftovers.
func (s *scope) leftoverPolicy() controlplanev1.LeftoverPolicy {
	if d := s.controlPlane.Spec.Deletion; d != nil && d.Leftovers != "" {
		return d.Leftovers
	}
	return controlplanev1.LeftoversDelete
}

// leftoverQuery selects the leftovers of the cluster. It returns false unless the name of
// the EKS cluster and its VPC are known: another cluster may have the name of the Cluster.
func (s *scope) leftoverQuery() (aws.LeftoverQuery, bool) {
	query := aws.LeftoverQuery{
		Delete: s.leftoverPolicy() == controlplanev1.LeftoversDelete, RoleARN: s.kubeconfigConfig().RoleARN, Endpoint: s.controlPlane.Spec.ControlPlaneEndpoint.Host,
	}
	if s.infra != nil {
		query.VPC = s.infra.Status.VPCID
	}
	if s.apply != nil {
		query.Managed = managedIDs(s.apply)
		// A name or an endpoint that is not a string stalls the endpoint already.
		_ = workspace.Output(s.apply, desired.ClusterNameOutput, &query.Cluster)
		var address string
		_ = workspace.Output(s.apply, desired.EndpointOutput, &address)
		if endpoint, err := desired.ParseEndpoint(address); err == nil {
			query.Endpoint = endpoint.Host
		}
	}
	return query, query.Cluster != "" && query.VPC != "" && query.Endpoint != ""
}

// protectedIDs returns the ids of what other workspaces of the Cluster manage, such as
// that of the VPC.
func (r *Reconciler) protectedIDs(ctx context.Context, s *scope) ([]string, error) {
	if s.clusterName() == "" {
		return nil, nil
	}
	var list infrav1.WorkspaceTemplateApplyList
	err := r.Client.List(ctx, &list, client.InNamespace(s.controlPlane.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: s.clusterName()})
	if err != nil {
		return nil, fmt.Errorf("listing workspaces: %w", err)
	}
	var ids []string
	for i := range list.Items {
		if s.apply == nil || list.Items[i].Name != s.apply.Name {
			ids = append(ids, managedIDs(&list.Items[i])...)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// managedIDs returns the strings in the outputs of a workspace, among them the ids of what
// its runs manage.
func managedIDs(apply *infrav1.WorkspaceTemplateApply) []string {
	var ids []string
	var collect func(value any)
	collect = func(value any) {
		switch value := value.(type) {
		case string:
			ids = append(ids, value)
		case []any:
			for _, item := range value {
				collect(item)
			}
		case map[string]any:
			for _, item := range value {
				collect(item)
			}
		}
	}
	for _, output := range apply.Status.Outputs {
		var value any
		if err := json.Unmarshal(output.Raw, &value); err == nil {
			collect(value)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// leftoversNote describes what is left in the account after the step.
func leftoversNote(found aws.Leftovers) note {
	var sentences []string
	reason := ""
	if left := slices.Concat(found.Remaining, found.Retained); len(left) > 0 {
		reason = controlplanev1.LeftoversReportedReason
		sentences = append(sentences, "Left in the account: "+strings.Join(left, ", "))
	}
	if len(found.Unread) > 0 {
		reason = controlplanev1.LeftoversUnknownReason
		sentences = append(sentences, "Not looked up: "+strings.Join(found.Unread, ", "))
	}
	return note{reason, message.Truncate(strings.Join(sentences, ". "), maxNote)}
}

// maxNote limits the length of a message. The API server accepts 32 KiB.
const maxNote = 8 << 10

// causeOf returns the text of an error without the reason of a fault.
func causeOf(err error) string {
	if waiting, ok := fault.AsWaiting(err); ok {
		return waiting.Message()
	}
	return err.Error()
}

// note is the reason and the message of a deletion step that has passed.
type note struct{ reason, message string }

// noteOf returns what to report of a step that has passed: what this reconciliation found,
// or what an earlier one did.
func (s *scope) noteOf(condition string) note {
	if n, found := s.notes[condition]; found {
		return n
	}
	for _, c := range s.controlPlane.Status.Conditions {
		if c.Type == condition && c.Status == metav1.ConditionTrue {
			return note{c.Reason, c.Message}
		}
	}
	return note{}
}

// lookupError is an error of a lookup in the account.
type lookupError struct{ error }

func (e lookupError) Unwrap() error { return e.error }

// isUnreachable reports whether an error is that of another system, for which a deletion
// step waits until its deadline.
func isUnreachable(err error) (text, reason string, unreachable bool) {
	var cluster unreachableError
	var account lookupError
	switch {
	case errors.As(err, &cluster):
		return "Workload cluster is unreachable", controlplanev1.APIServerUnreachableReason, true
	case errors.As(err, &account):
		return "The account cannot be searched for what the cluster left", controlplanev1.LeftoversUnknownReason, true
	}
	return "", "", false
}
