package workspacetemplateapply

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
	"github.com/appthrust/capt/internal/terraform/template"
)

// scope is what was read for one look at a workspace.
type scope struct {
	apply *infrav1.WorkspaceTemplateApply
	now   time.Time
	// runs are the runs on record, the newest first.
	runs []*runRecord
	// sources and inputs are filled by the first steps.
	sources template.Sources
	inputs  *template.Inputs
	// policy is how runs are made, as far as the template is known.
	policy template.Policy
}

// runRecord is a run's Secret with its number.
type runRecord struct {
	id     string
	number int64
	secret *corev1.Secret
}

func (s *scope) key() client.ObjectKey { return client.ObjectKeyFromObject(s.apply) }

func (r *Reconciler) scope(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, _ *clusterv1.Cluster) (*scope, error) {
	s := &scope{apply: apply, now: r.Now()}
	secrets, err := r.secrets(ctx, s, record.ComponentRun)
	if err != nil {
		return nil, err
	}
	for i := range secrets {
		// A run may create Secrets; only those that the workspace made count.
		if !metav1.IsControlledBy(&secrets[i], apply) {
			continue
		}
		id := secrets[i].Labels[infrav1.RunLabel]
		number, err := runNumber(id)
		if err != nil {
			return nil, err
		}
		s.runs = append(s.runs, &runRecord{id: id, number: number, secret: &secrets[i]})
	}
	slices.SortFunc(s.runs, func(a, b *runRecord) int { return int(b.number - a.number) })
	// A template that is not there yet is waited for by the first step.
	known := template.Sources{Apply: apply, Template: &infrav1.WorkspaceTemplate{}}
	if err := r.Client.Get(ctx, apply.Spec.TemplateRef.Key(apply.Namespace), known.Template); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the template: %w", err)
	}
	s.policy = template.PolicyOf(known)
	return s, nil
}

// secrets lists the Secrets of a component kept beside the workspace.
func (r *Reconciler) secrets(ctx context.Context, s *scope, component string) ([]corev1.Secret, error) {
	var list corev1.SecretList
	err := r.Client.List(ctx, &list, client.InNamespace(s.apply.Namespace), client.MatchingFields{workspaceIndex: record.LabelValue(s.apply.Name)})
	if err != nil {
		return nil, fmt.Errorf("listing the Secrets of the workspace: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(secret corev1.Secret) bool {
		return secret.Labels[infrav1.ComponentLabel] != component
	}), nil
}

// current returns the run that has not ended, or nil.
func (s *scope) current() *runRecord {
	for _, run := range s.runs {
		if !record.Finished(run.secret) {
			return run
		}
	}
	return nil
}

// nextNumber numbers the next run. The same look at the world gives the same
// number, so that a run is never started twice by mistake.
func (s *scope) nextNumber() int64 {
	last := s.apply.Status.Runs
	if len(s.runs) > 0 {
		last = max(last, s.runs[0].number)
	}
	return last + 1
}

const runNumberMark = "-r"

// runID names a run after its workspace and its number.
func runID(workspace string, number int64) string {
	return record.Shorten(workspace, 45) + runNumberMark + strconv.FormatInt(number, 10)
}

func runNumber(id string) (int64, error) {
	i := strings.LastIndex(id, runNumberMark)
	if i < 0 {
		return 0, fmt.Errorf("run %q has no number", id)
	}
	number, err := strconv.ParseInt(id[i+len(runNumberMark):], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("run %q has no number: %w", id, err)
	}
	return number, nil
}

// runner returns who carries out runs of the executor.
func (r *Reconciler) runner(executor infrav1.Executor) (terraform.Runner, error) {
	runner, found := r.Runners[executor]
	if !found {
		return nil, fault.Stall(infrav1.RunFailedReason, "The executor %s is not set up in this manager: change runner.executor of the WorkspaceProviderConfig", executor)
	}
	return runner, nil
}

// executor returns who is to carry out the workspace's next run.
func (r *Reconciler) executor(s *scope) infrav1.Executor {
	if s.inputs != nil && s.inputs.Policy.Executor != "" {
		return s.inputs.Policy.Executor
	}
	return r.Default
}

// ref names the run to an executor.
func (run *runRecord) ref() terraform.Run {
	ref := terraform.Run{Namespace: run.secret.Namespace, ID: run.id}
	if owner := metav1.GetControllerOf(run.secret); owner != nil {
		ref.Workspace = owner.Name
	}
	return ref
}

// executor returns who carries out the run.
func (run *runRecord) executor() infrav1.Executor {
	return infrav1.Executor(run.secret.Annotations[record.ExecutorAnnotation])
}

func (run *runRecord) operation() terraform.Operation {
	return terraform.Operation(run.secret.Annotations[record.OperationAnnotation])
}

func (run *runRecord) inputs() string { return run.secret.Annotations[record.InputsAnnotation] }
