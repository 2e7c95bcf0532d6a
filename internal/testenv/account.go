package testenv

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/appthrust/capt/internal/kubernetes/manifest"
)

// The account of the manager in config/default.
const (
	managerNamespace = "capt-system"
	managerAccount   = "capt-controller-manager"
	// ManagerUser is the name of the account for the API server.
	ManagerUser = "system:serviceaccount:" + managerNamespace + ":" + managerAccount
)

// Account is a user of the API server.
type Account struct {
	Config *rest.Config
	// Kubeconfig is the path of a kubeconfig with the same content.
	Kubeconfig string
	// Client is an uncached client.
	Client client.Client
}

// ManagerAccount returns the account of the manager, which has the roles of config/rbac and no
// others. Stop fails if one of its requests was denied.
func (e *Environment) ManagerAccount() (*Account, error) {
	e.managerOnce.Do(func() { e.manager, e.managerErr = e.newManagerAccount() })
	return e.manager, e.managerErr
}

// SuiteAccount returns the account with which tests run managers that need no particular one:
// the ManagerAccount if requests are recorded, as "make unused-rules" does, else that of the
// administrator.
func (e *Environment) SuiteAccount() (*Account, error) {
	if os.Getenv(auditDir) != "" {
		return e.ManagerAccount()
	}
	return &Account{Config: e.Config, Kubeconfig: e.Kubeconfig, Client: e.Client}, nil
}

func (e *Environment) newManagerAccount() (*Account, error) {
	groups := []string{"system:serviceaccounts", "system:serviceaccounts:" + managerNamespace}
	user, err := e.api.AddUser(envtest.User{Name: ManagerUser, Groups: groups}, &rest.Config{QPS: -1})
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
	return account, e.grantRoles(context.Background())
}

// grantRoles installs the shipped roles of the manager, and waits until they are in force.
func (e *Environment) grantRoles(ctx context.Context) error {
	root, err := Root()
	if err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: managerNamespace}}
	if err := e.Client.Create(ctx, namespace); err != nil {
		return fmt.Errorf("creating the namespace of the manager: %w", err)
	}
	// What kustomize does for config/default.
	installed := strings.NewReplacer("namespace: system\n", "namespace: "+managerNamespace+"\n", "name: controller-manager\n", "name: "+managerAccount+"\n")
	for _, role := range []string{"role", "leader_election_role", "metrics_auth_role"} {
		for _, file := range []string{role, role + "_binding"} {
			text, err := os.ReadFile(filepath.Join(root, "config", "rbac", file+".yaml"))
			if err != nil {
				return err
			}
			objects, err := manifest.Parse([]byte(installed.Replace(string(text))))
			if err != nil {
				return fmt.Errorf("reading config/rbac/%s.yaml: %w", file, err)
			}
			if _, err := e.Install(ctx, objects); err != nil {
				return err
			}
		}
	}
	return waitUntil(ctx, "the roles of the manager", func() error {
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
