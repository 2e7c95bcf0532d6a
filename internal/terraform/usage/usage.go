// Package usage finds the workspaces that use a template or a provider config.
// Neither may be deleted before the workspaces whose resources it can destroy.
package usage

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// templateIndex is the index of workspaces by template, over all namespaces.
const templateIndex = "capt.template"

// Index adds the index that Finder needs to the cache. Call it once, before the
// manager starts.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, &infrav1.WorkspaceTemplateApply{}, templateIndex, func(obj client.Object) []string {
		apply, ok := obj.(*infrav1.WorkspaceTemplateApply)
		if !ok {
			return nil
		}
		return []string{apply.Spec.TemplateRef.Key(apply.Namespace).String()}
	})
	if err != nil {
		return fmt.Errorf("indexing workspaces by template: %w", err)
	}
	return nil
}

// Finder finds workspaces. It reads the cache first. If the cache has no
// matching workspace, it reads from the API server, because the cache may be
// stale and a deletion cannot be undone.
type Finder struct {
	// Cache is a cache with the index of Index.
	Cache client.Reader
	// Live reads from the API server.
	Live client.Reader
	// Namespace is the namespace that the manager is restricted to; empty means
	// all namespaces.
	Namespace string
	// Granted reports whether a template is granted to a namespace. Nil grants none.
	Granted func(ctx context.Context, namespace string, template client.ObjectKey) (bool, error)
}

// OfTemplate returns the workspaces that use a template, in all namespaces. A workspace of
// another namespace that only names the template, without a grant, does not use it: each
// user could keep the templates of others.
func (f Finder) OfTemplate(ctx context.Context, template client.ObjectKey) ([]client.ObjectKey, error) {
	uses := func(apply *infrav1.WorkspaceTemplateApply) (bool, error) {
		if apply.Spec.TemplateRef.Key(apply.Namespace) != template {
			return false, nil
		}
		if apply.Namespace == template.Namespace || hasApplied(apply, template) {
			return true, nil
		}
		if f.Granted == nil {
			return false, nil
		}
		return f.Granted(ctx, apply.Namespace, template)
	}
	found, err := list(ctx, f.Cache, uses, client.MatchingFields{templateIndex: template.String()}, client.UnsafeDisableDeepCopy)
	if err != nil || len(found) > 0 {
		return found, err
	}
	return list(ctx, f.Live, uses, client.InNamespace(f.Namespace))
}

// hasApplied reports whether a run of a workspace has applied a template, or has started to and
// may have created resources. Only the manager writes the status, and starts no run without a grant.
func hasApplied(apply *infrav1.WorkspaceTemplateApply, template client.ObjectKey) bool {
	if source := apply.Status.OutputsSource; source != nil && keyOf(source.TemplateRef) == template {
		return true
	}
	state := apply.Status.State
	return state != nil && state.TemplateRef != nil && keyOf(*state.TemplateRef) == template &&
		(state.Resources > 0 || state.Confirmation == infrav1.StateUnconfirmed)
}

func keyOf(ref infrav1.ObjectReference) client.ObjectKey {
	return client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
}

// OfProviderConfig returns the workspaces that use a provider config: those in
// its namespace that refer to it, whose template refers to it, or whose state moves away from
// its backend. The template may be in another namespace.
func (f Finder) OfProviderConfig(ctx context.Context, config client.ObjectKey) ([]client.ObjectKey, error) {
	found, err := f.ofProviderConfig(ctx, f.Cache, config, client.UnsafeDisableDeepCopy)
	if err != nil || len(found) > 0 {
		return found, err
	}
	return f.ofProviderConfig(ctx, f.Live, config)
}

func (f Finder) ofProviderConfig(ctx context.Context, reader client.Reader, config client.ObjectKey, options ...client.ListOption) ([]client.ObjectKey, error) {
	options = append(options, client.InNamespace(config.Namespace))
	var operations infrav1.WorkspaceOperationList
	if err := reader.List(ctx, &operations, options...); err != nil {
		return nil, fmt.Errorf("listing operations: %w", err)
	}
	var moves []string
	for i := range operations.Items {
		if o := &operations.Items[i]; MovesFrom(o, config.Name) {
			moves = append(moves, o.Spec.Workspace)
		}
	}
	uses := f.usesConfig(ctx, reader, config.Name)
	return list(ctx, reader, func(apply *infrav1.WorkspaceTemplateApply) (bool, error) {
		if slices.Contains(moves, apply.Name) {
			return true, nil
		}
		return uses(apply)
	}, options...)
}

// MovesFrom reports whether an operation moves a state away from the backend of a provider config.
func MovesFrom(o *infrav1.WorkspaceOperation, config string) bool {
	return o.Spec.Type == infrav1.OperationMove && o.Spec.Move.From == config && !o.Ended()
}

// usesConfig returns a function that reports whether a workspace or its template
// refers to the provider config. A template that does not exist refers to none.
func (f Finder) usesConfig(ctx context.Context, reader client.Reader, config string) func(*infrav1.WorkspaceTemplateApply) (bool, error) {
	known := map[client.ObjectKey]bool{}
	return func(apply *infrav1.WorkspaceTemplateApply) (bool, error) {
		if ref := apply.Spec.ProviderConfigRef; ref != nil {
			return ref.Name == config, nil
		}
		key := apply.Spec.TemplateRef.Key(apply.Namespace)
		if f.Namespace != "" && key.Namespace != f.Namespace {
			return false, nil
		}
		if uses, found := known[key]; found {
			return uses, nil
		}
		var template infrav1.WorkspaceTemplate
		if err := reader.Get(ctx, key, &template); client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("reading template %s: %w", key, err)
		} else if apierrors.IsNotFound(err) {
			return false, nil
		}
		ref := template.Spec.Template.Spec.ProviderConfigRef
		known[key] = ref != nil && ref.Name == config
		return known[key], nil
	}
}

// list returns the matching workspaces, sorted.
func list(ctx context.Context, reader client.Reader, match func(*infrav1.WorkspaceTemplateApply) (bool, error), options ...client.ListOption) ([]client.ObjectKey, error) {
	var applies infrav1.WorkspaceTemplateApplyList
	if err := reader.List(ctx, &applies, options...); err != nil {
		return nil, fmt.Errorf("listing workspaces: %w", err)
	}
	var found []client.ObjectKey
	for i := range applies.Items {
		uses, err := match(&applies.Items[i])
		if err != nil {
			return nil, err
		}
		if uses {
			found = append(found, client.ObjectKeyFromObject(&applies.Items[i]))
		}
	}
	slices.SortFunc(found, func(a, b client.ObjectKey) int { return strings.Compare(a.String(), b.String()) })
	return found, nil
}

// maxListed is how many workspaces a message lists.
const maxListed = 5

// Wait returns a wait if there are users, and nil otherwise. The caller's watch
// of the workspaces must end the wait.
func Wait(users []client.ObjectKey) error {
	if len(users) == 0 {
		return nil
	}
	var names []string
	for _, key := range users {
		names = append(names, key.String())
	}
	return fault.Wait(infrav1.InUseReason, "Required to destroy the resources of these WorkspaceTemplateApplies; delete them first: %s", message.List(names, maxListed))
}

// TemplateChanged reports whether a workspace changed to another template.
func TemplateChanged(previous, current *infrav1.WorkspaceTemplateApply) bool {
	return previous.Spec.TemplateRef.Key(previous.Namespace) != current.Spec.TemplateRef.Key(current.Namespace)
}

// StopsUsing reports whether a workspace changed to another template, or has no resources any more
// that a run without outputs may have created with its template.
func StopsUsing(previous, current *infrav1.WorkspaceTemplateApply) bool {
	template := previous.Spec.TemplateRef.Key(previous.Namespace)
	return TemplateChanged(previous, current) || hasApplied(previous, template) && !hasApplied(current, template)
}

// ConfigChanged reports whether a workspace may have changed to another provider
// config.
func ConfigChanged(previous, current *infrav1.WorkspaceTemplateApply) bool {
	return TemplateChanged(previous, current) || configName(previous) != configName(current)
}

func configName(apply *infrav1.WorkspaceTemplateApply) string {
	if ref := apply.Spec.ProviderConfigRef; ref != nil {
		return ref.Name
	}
	return ""
}
