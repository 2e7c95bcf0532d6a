// Package grant decides whether an object may refer to an object of another namespace.
package grant

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// retryInterval is the delay before a missing grant is looked for again. A watch of the
// grants is faster, but does not see the labels of namespaces.
const retryInterval = 30 * time.Second

// Checker decides which references to other namespaces are allowed. Nil allows none.
type Checker struct {
	// Client reads grants.
	Client client.Reader
	// Live reads namespaces, of which there is no cache.
	Live client.Reader
	// Denied refuses all references to other namespaces, granted or not.
	Denied bool
}

// Check returns a fault if an object in the namespace from must not refer to an object.
// References within a namespace need no grant.
func (c *Checker) Check(ctx context.Context, from string, kind infrav1.GrantedKind, to client.ObjectKey) error {
	if from == to.Namespace {
		return nil
	}
	if c == nil || c.Denied {
		return fault.Stall(infrav1.NotGrantedReason, "%s %s is in another namespace, and the manager allows no references to other namespaces: create it in namespace %s", kind, to, from)
	}
	if granted, err := c.granted(ctx, from, kind, to); err != nil || granted {
		return err
	}
	return fault.WaitFor(retryInterval, infrav1.NotGrantedReason, "%s %s is in another namespace and not granted to namespace %s: ask its owners for a CAPTReferenceGrant in namespace %s", kind, to, from, to.Namespace)
}

// CheckNamed returns a fault if a template must not name a Secret or a ConfigMap, which is in
// the namespace in which the template runs. A template of another namespace needs a grant
// there: a user who may create workspaces could otherwise read all Secrets of the namespace
// with a template of their own.
func (c *Checker) CheckNamed(ctx context.Context, template client.ObjectKey, kind infrav1.GrantedKind, to client.ObjectKey) error {
	if template.Namespace == to.Namespace {
		return nil
	}
	if c != nil && !c.Denied {
		if granted, err := c.granted(ctx, template.Namespace, kind, to); err != nil || granted {
			return err
		}
	}
	return fault.WaitFor(retryInterval, infrav1.NotGrantedReason,
		"%s %s is in another namespace and not granted to namespace %s: WorkspaceTemplate %s names it, so create a CAPTReferenceGrant in namespace %s for this %s, or use a template of namespace %s",
		kind, to, template.Namespace, template, to.Namespace, kind, to.Namespace)
}

// granted reports whether a grant lets objects in the namespace from refer to an object.
func (c *Checker) granted(ctx context.Context, from string, kind infrav1.GrantedKind, to client.ObjectKey) (bool, error) {
	var grants infrav1.CAPTReferenceGrantList
	if err := c.Client.List(ctx, &grants, client.InNamespace(to.Namespace)); err != nil {
		return false, fmt.Errorf("listing the grants of namespace %s: %w", to.Namespace, err)
	}
	for i := range grants.Items {
		spec := &grants.Items[i].Spec
		if !grants.Items[i].DeletionTimestamp.IsZero() || !covers(spec.To, kind, to.Name) {
			continue
		}
		if granted, err := c.selects(ctx, spec.From, from); err != nil || granted {
			return granted, err
		}
	}
	return false, nil
}

// Lends reports whether a namespace grants objects of a kind to any other one.
func (c *Checker) Lends(ctx context.Context, namespace string, kind infrav1.GrantedKind) (bool, error) {
	if c == nil || c.Denied {
		return false, nil
	}
	var grants infrav1.CAPTReferenceGrantList
	if err := c.Client.List(ctx, &grants, client.InNamespace(namespace)); err != nil {
		return false, fmt.Errorf("listing the grants of namespace %s: %w", namespace, err)
	}
	return slices.ContainsFunc(grants.Items, func(g infrav1.CAPTReferenceGrant) bool {
		return slices.ContainsFunc(g.Spec.To, func(t infrav1.ReferenceGrantTo) bool { return t.Kind == kind })
	}), nil
}

// covers reports whether a grant covers an object.
func covers(to []infrav1.ReferenceGrantTo, kind infrav1.GrantedKind, name string) bool {
	return slices.ContainsFunc(to, func(t infrav1.ReferenceGrantTo) bool {
		return t.Kind == kind && (t.Name == "" || t.Name == name)
	})
}

// selects reports whether a grant is for a namespace.
func (c *Checker) selects(ctx context.Context, from []infrav1.ReferenceGrantFrom, namespace string) (bool, error) {
	for _, f := range from {
		if slices.Contains(f.Namespaces, namespace) {
			return true, nil
		}
	}
	for _, f := range from {
		if f.NamespaceSelector == nil {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(f.NamespaceSelector)
		if err != nil {
			// The grant is invalid, which does not concern the others.
			continue
		}
		var ns corev1.Namespace
		if err := c.Live.Get(ctx, client.ObjectKey{Name: namespace}, &ns); apierrors.IsNotFound(err) {
			return false, nil
		} else if err != nil {
			return false, fmt.Errorf("reading namespace %s: %w", namespace, err)
		}
		if selector.Matches(labels.Set(ns.Labels)) {
			return true, nil
		}
	}
	return false, nil
}

// CheckTemplate returns a fault if a template must not be run with a provider config in the
// namespace of the config. Its module gets the credentials, so the owners of the config
// decide about templates of other namespaces.
func CheckTemplate(config *infrav1.WorkspaceProviderConfig, template client.ObjectKey) error {
	if config.AllowsTemplatesOf(template.Namespace) {
		return nil
	}
	return fault.WaitFor(retryInterval, infrav1.NotGrantedReason,
		"WorkspaceProviderConfig %s may not be used with WorkspaceTemplate %s, which is in another namespace: add %s to spec.templateNamespaces of the config, or use a template of namespace %s",
		client.ObjectKeyFromObject(config), template, template.Namespace, config.Namespace)
}

// ProviderConfig reads a provider config of another namespace for workspaces in the
// namespace from. It returns a fault if the config is not granted.
func (c *Checker) ProviderConfig(ctx context.Context, from string, key client.ObjectKey, config *infrav1.WorkspaceProviderConfig) error {
	if err := c.Check(ctx, from, infrav1.GrantedWorkspaceProviderConfig, key); err != nil {
		return err
	}
	return c.Client.Get(ctx, key, config) //nolint:wrapcheck // The caller distinguishes a config that does not exist.
}
