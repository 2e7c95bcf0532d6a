package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// The account of the manager in config/default.
const (
	managerNamespace = "capt-system"
	managerAccount   = "capt-controller-manager"
	// ManagerUser is the name of the account for the API server.
	ManagerUser = "system:serviceaccount:" + managerNamespace + ":" + managerAccount
)

// AdminUser is the name of the administrator. Without the webhooks, which set the author of a
// WorkspaceOperation or WorkspaceApproval, the policies expect the name there.
const AdminUser = "admin"

// ManagerGroups are the groups of the account of the manager.
var ManagerGroups = []string{"system:serviceaccounts", "system:serviceaccounts:" + managerNamespace}

// Account is a user of the API server.
type Account struct {
	Config *rest.Config
	// Kubeconfig is the path of a kubeconfig with the same content.
	Kubeconfig string
	// Client is an uncached client.
	Client client.Client
}

// ManagerAccount returns the account of the manager, which has the roles of config/default and no
// others. The admission policies of config/default are in force as soon as it exists, unless
// WithoutPolicies is set. Stop fails
// if one of its requests was denied, or if a policy has denied one of a run.
func (e *Environment) ManagerAccount() (*Account, error) {
	e.managerOnce.Do(func() { e.manager, e.managerErr = e.newManagerAccount() })
	return e.manager, e.managerErr
}

func (e *Environment) newManagerAccount() (*Account, error) {
	user, err := e.api.AddUser(envtest.User{Name: ManagerUser, Groups: ManagerGroups}, &rest.Config{QPS: -1})
	if err != nil {
		return nil, fmt.Errorf("creating the account of the manager: %w", err)
	}
	text, err := user.KubeConfig()
	if err != nil {
		return nil, fmt.Errorf("creating the kubeconfig of the manager: %w", err)
	}
	account := &Account{Config: user.Config(), Kubeconfig: filepath.Join(e.Dir, "manager.kubeconfig")}
	if err := os.WriteFile(account.Kubeconfig, text, 0o600); err != nil {
		return nil, fmt.Errorf("writing the kubeconfig of the manager: %w", err)
	}
	if account.Client, err = client.New(account.Config, client.Options{Scheme: e.Scheme}); err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	return account, e.InstallRules(context.Background())
}

// rules are the kinds that decide what the manager, its runs and users may do.
var rules = []string{
	"Namespace", "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding",
	"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
}

// Rules returns the shipped roles and admission policies, of config/default.
func Rules() ([]*unstructured.Unstructured, error) {
	objects, err := Kustomize("config/default")
	return slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return !slices.Contains(rules, o.GetKind()) }), err
}

// InstallRules installs the Rules, and waits until they are in force.
func (e *Environment) InstallRules(ctx context.Context) error {
	objects, err := Rules()
	if err != nil {
		return err
	}
	if e.rolesOnly {
		objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return strings.HasPrefix(o.GetKind(), policyDenial) })
	}
	if _, err := e.Install(ctx, objects); err != nil {
		return err
	}
	err = waitUntil(ctx, "the roles of the manager", func() error {
		for _, attributes := range []authorizationv1.ResourceAttributes{
			{Verb: "list", Resource: "secrets"},
			{Verb: "create", Group: "authentication.k8s.io", Resource: "tokenreviews"},
		} {
			if err := e.Allows(ctx, ManagerUser, attributes); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || e.rolesOnly {
		return err
	}
	return e.waitForPolicies(ctx)
}

// waitForPolicies waits until all policies that exist are in force. The API server learns about
// policies and bindings in the order of their changes: once it has a last one, it has all.
func (e *Environment) waitForPolicies(ctx context.Context) error {
	const marker = "capt-testenv-marker"
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{GenerateName: marker + "-"},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
				},
			}}},
			MatchConditions: []admissionv1.MatchCondition{{Name: "marker", Expression: "object.metadata.name == '" + marker + "'"}},
			Validations:     []admissionv1.Validation{{Expression: "false", Message: "policies are in force"}},
		},
	}
	if err := e.Client.Create(ctx, policy); err != nil {
		return fmt.Errorf("creating a policy: %w", err)
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: marker + "-"},
		Spec:       admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: policy.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
	}
	if err := e.Client.Create(ctx, binding); err != nil {
		return fmt.Errorf("creating a binding: %w", err)
	}
	err := waitUntil(ctx, "the admission policies", func() error {
		probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: marker}}
		if err := e.Client.Create(ctx, probe, client.DryRunAll); err == nil || !strings.Contains(err.Error(), policy.Name) {
			return errors.Join(errors.New("no policy refuses the marker"), err)
		}
		return nil
	})
	return errors.Join(err, e.Client.Delete(ctx, binding), e.Client.Delete(ctx, policy))
}

// Allows returns an error if a user has no permission. The API server learns about a new role a
// moment after it was created.
func (e *Environment) Allows(ctx context.Context, user string, attributes authorizationv1.ResourceAttributes) error {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &attributes}}
	if err := e.Client.Create(ctx, review); err != nil {
		return err
	}
	if !review.Status.Allowed {
		return fmt.Errorf("%s may not %s %s", user, attributes.Verb, attributes.Resource)
	}
	return nil
}
