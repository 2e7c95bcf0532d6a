package web

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/client/operate"
)

const (
	// viewerRole and the others are the roles that CAPT installs.
	viewerRole   = "capt-viewer"
	editorRole   = "capt-editor"
	approverRole = "capt-approver"
	platformRole = "capt-platform-editor"
	// viewRole is the role of Kubernetes that reads a namespace.
	viewRole = "view"
	// maxNamespaces limits the namespaces that are watched one by one, and maxCandidates
	// those in which the user's access is reviewed to find them.
	maxNamespaces = 100
	maxCandidates = 500
	// maxReviews limits the access reviews at a time.
	maxReviews = 10
)

// kinds returns an empty object of each kind that is watched.
func kinds() []client.Object {
	return []client.Object{
		&clusterv1.Cluster{}, &infrav1.CAPTCluster{}, &controlplanev1.CAPTControlPlane{}, &infrav1.WorkspaceTemplateApply{},
		&addonsv1.CAPTAddon{}, &infrav1.CAPTMachineDeployment{}, &infrav1.CAPTMachineSet{}, &infrav1.CAPTMachine{},
		&infrav1.CAPTMachinePool{}, &clusterv1.MachineDeployment{}, &clusterv1.MachineSet{}, &clusterv1.Machine{},
		&clusterv1.MachinePool{}, &corev1.Event{},
	}
}

// scope is where the user may list a kind.
type scope struct {
	object   client.Object
	kind     string
	resource schema.GroupResource
	// absent is set if the management cluster does not have the kind, err if it cannot
	// describe it.
	absent bool
	err    error
	// all is set if the user may list the objects of all namespaces. Otherwise
	// namespaces are those in which he may.
	all        bool
	namespaces []string
}

// known reports whether the management cluster has the kind.
func (s *scope) known() bool { return !s.absent && s.err == nil }

// equal reports whether the user may list the same objects.
func (s *scope) equal(other *scope) bool {
	return s.known() == other.known() && s.all == other.all && slices.Equal(s.namespaces, other.namespaces)
}

// role returns the role that lists the kind: one of Kubernetes for its own kinds, else that of
// CAPT.
func (s *scope) role() string {
	if s.resource.Group == corev1.GroupName {
		return viewRole
	}
	return viewerRole
}

// findScopes sets where the user may list each kind.
func (w *watch) findScopes(ctx context.Context, scopes []*scope) error {
	if !w.options.OnlyNamespace {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(maxReviews)
		for _, s := range scopes {
			if !s.known() {
				continue
			}
			group.Go(func() (err error) {
				for _, verb := range []string{"list", "watch"} {
					s.all, err = operate.Allowed(ctx, w.client, authorizationv1.ResourceAttributes{Verb: verb, Group: s.resource.Group, Resource: s.resource.Resource})
					if err != nil || !s.all {
						return err
					}
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
	if !slices.ContainsFunc(scopes, func(s *scope) bool { return !s.all && s.known() }) {
		return nil
	}
	return w.findNamespaces(ctx, scopes)
}

// findNamespaces sets the namespaces of the kinds that the user may not list in all
// of them.
func (w *watch) findNamespaces(ctx context.Context, scopes []*scope) error {
	candidates := []string{w.options.Namespace}
	if !w.options.OnlyNamespace {
		candidates = append(candidates, w.options.Namespaces...)
		var list corev1.NamespaceList
		// Without the permission to list namespaces, only those of the options are known.
		if err := w.client.List(ctx, &list, client.Limit(maxCandidates)); err == nil {
			for _, namespace := range list.Items {
				candidates = append(candidates, namespace.Name)
			}
		}
		slices.Sort(candidates)
		candidates = slices.Compact(candidates)
	}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxReviews)
	for _, namespace := range candidates {
		group.Go(func() error {
			// One review has all rules of a namespace.
			review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
			if err := w.client.Create(ctx, review); err != nil {
				return fmt.Errorf("reviewing the user's access to namespace %s: %w", namespace, err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, s := range scopes {
				if !s.all && s.known() && listAllowed(review.Status.ResourceRules, s.resource) {
					s.namespaces = append(s.namespaces, namespace)
				}
			}
			return nil
		})
	}
	err := group.Wait()
	for _, s := range scopes {
		slices.Sort(s.namespaces)
		s.namespaces = s.namespaces[:min(len(s.namespaces), maxNamespaces)]
	}
	return err
}

// listAllowed reports whether rules allow to list all objects of a resource.
func listAllowed(rules []authorizationv1.ResourceRule, resource schema.GroupResource) bool {
	has := func(list []string, value string) bool {
		return slices.Contains(list, value) || slices.Contains(list, "*")
	}
	return slices.ContainsFunc(rules, func(rule authorizationv1.ResourceRule) bool {
		return len(rule.ResourceNames) == 0 && has(rule.APIGroups, resource.Group) && has(rule.Resources, resource.Resource) &&
			has(rule.Verbs, "list") && has(rule.Verbs, "watch")
	})
}
