// Package doctor examines a management cluster and says of everything that is
// wrong how to mend it. It changes nothing.
package doctor

import (
	"context"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
)

// Status is how something is.
type Status string

// The statuses.
const (
	// OK needs nothing.
	OK Status = "ok"
	// Warn may be meant so, or become a failure.
	Warn Status = "warn"
	// Fail keeps something from working.
	Fail Status = "fail"
)

// Result is one thing that was looked at.
type Result struct {
	// Check is what was examined, such as locks.
	Check  string `json:"check"`
	Status Status `json:"status"`
	// Object is what it is about, as kind and namespace/name.
	Object string `json:"object,omitempty"`
	// Message is one line that says how it is.
	Message string `json:"message"`
	// Mend is the command that mends it, or what to do.
	Mend string `json:"mend,omitempty"`
}

// Doctor examines a management cluster.
type Doctor struct {
	// Client reads the cluster. Writes are dry runs only.
	Client client.Client
	// Server tells the version of the API server.
	Server discovery.ServerVersionInterface
	// Namespace limits what is looked at inside namespaces; empty is all.
	Namespace string
	// Now is the clock.
	Now func() time.Time
}

// New returns a doctor for the cluster that a configuration leads to.
func New(config *rest.Config, namespace string) (*Doctor, error) {
	s := Scheme()
	c, err := client.New(config, client.Options{Scheme: s})
	if err != nil {
		return nil, fmt.Errorf("reaching the management cluster: %w", err)
	}
	server, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("reaching the management cluster: %w", err)
	}
	return &Doctor{Client: c, Server: server, Namespace: namespace, Now: time.Now}, nil
}

// Scheme knows what a doctor reads.
func Scheme() *runtime.Scheme {
	s := scheme.New()
	// They fail only for types that are no types.
	_ = apiextensionsv1.AddToScheme(s)
	_ = admissionregistrationv1.AddToScheme(s)
	return s
}

// check is one thing to look at.
type check struct {
	name string
	run  func(context.Context) ([]Result, error)
}

func (d *Doctor) checks() []check {
	return []check{
		{"cluster-api", d.clusterAPI},
		{"crds", d.crds},
		{"manager", d.manager},
		{"webhooks", d.webhooks},
		{"credentials", d.credentials},
		{"add-ons", d.addons},
		{"runs", d.runs},
		{"locks", d.locks},
		{"deletions", d.deletions},
		{"leftovers", d.leftovers},
	}
}

// Examine looks at everything. What is fine is one line for each check.
func (d *Doctor) Examine(ctx context.Context) []Result {
	results := d.server()
	if results[0].Status == Fail {
		return results
	}
	for _, c := range d.checks() {
		found, err := c.run(ctx)
		if err != nil {
			found = append(found, unknown(err))
		}
		for _, result := range found {
			result.Check = c.name
			results = append(results, result)
		}
	}
	return results
}

// Healthy tells whether nothing fails.
func Healthy(results []Result) bool {
	for _, r := range results {
		if r.Status == Fail {
			return false
		}
	}
	return true
}

// unknown is something that could not be looked at.
func unknown(err error) Result {
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return Result{Status: Warn, Message: "you may not look at this: " + err.Error(), Mend: "use the credentials of an administrator, by --context or --kubeconfig"}
	}
	return Result{Status: Fail, Message: "this could not be looked at: " + err.Error(), Mend: "try again, and look at the log of the API server"}
}

// server asks the API server for its version.
func (d *Doctor) server() []Result {
	version, err := d.Server.ServerVersion()
	if err != nil {
		return []Result{{
			Check: "api-server", Status: Fail, Message: "the API server does not answer: " + err.Error(),
			Mend: "check --context and --kubeconfig, and that the cluster runs: kubectl cluster-info",
		}}
	}
	return []Result{{Check: "api-server", Status: OK, Message: "Kubernetes " + version.GitVersion}}
}

// list lists objects of the namespace; kinds that are not installed have none.
func (d *Doctor) list(ctx context.Context, into client.ObjectList, options ...client.ListOption) error {
	err := d.Client.List(ctx, into, append(options, client.InNamespace(d.Namespace))...)
	if err != nil && !meta.IsNoMatchError(err) {
		return fmt.Errorf("listing %T: %w", into, err)
	}
	return nil
}

// workspaces are the workspaces of the namespace.
func (d *Doctor) workspaces(ctx context.Context) ([]infrav1.WorkspaceTemplateApply, error) {
	var applies infrav1.WorkspaceTemplateApplyList
	if err := d.list(ctx, &applies); err != nil {
		return nil, err
	}
	return applies.Items, nil
}

// orFine is what was found, or one line that says that all is well.
func orFine(found []Result, format string, args ...any) []Result {
	if len(found) > 0 {
		return found
	}
	return []Result{{Status: OK, Message: fmt.Sprintf(format, args...)}}
}

// nameOf is an object as a person names it.
func nameOf(kind string, obj metav1.Object) string {
	if obj.GetNamespace() == "" {
		return kind + " " + obj.GetName()
	}
	return kind + " " + obj.GetNamespace() + "/" + obj.GetName()
}

// since is how long ago something was, as a person says it.
func (d *Doctor) since(t metav1.Time) string { return ago(d.Now().Sub(t.Time)) }

func ago(age time.Duration) string {
	switch {
	case age < time.Minute:
		return fmt.Sprintf("%ds", int(age.Seconds()))
	case age < time.Hour:
		return fmt.Sprintf("%dm", int(age.Minutes()))
	case age < 48*time.Hour:
		return fmt.Sprintf("%dh", int(age.Hours()))
	default:
		return fmt.Sprintf("%dd", int(age.Hours()/24))
	}
}
