// Package doctor checks a management cluster and names a fix for each problem. It
// changes nothing: its only writes are dry runs.
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
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/scheme"
)

// Status is the severity of a result.
type Status string

// The statuses.
const (
	// OK needs no action.
	OK Status = "ok"
	// Warn may be intended, or may become a failure.
	Warn Status = "warn"
	// Fail prevents something from working.
	Fail Status = "fail"
)

// Result is the result of a check for one object, or for the whole check.
type Result struct {
	// Check is the name of the check, such as locks.
	Check  string `json:"check"`
	Status Status `json:"status"`
	// Object is the kind and namespace/name of the object that has the problem.
	Object string `json:"object,omitempty"`
	// Message describes the problem in one line.
	Message string `json:"message"`
	// Fix is the command that fixes the problem, or a description of what to do.
	Fix string `json:"fix,omitempty"`
}

// Doctor checks a management cluster.
type Doctor struct {
	// Client reads the cluster. Writes are dry runs.
	Client client.Client
	// Server returns the version of the API server.
	Server discovery.ServerVersionInterface
	// Namespace limits the checks of namespaced objects; empty means all namespaces.
	Namespace string
	// Now is the clock.
	Now func() time.Time
}

// New returns a Doctor for a cluster.
func New(config *rest.Config, namespace string) (*Doctor, error) {
	c, err := client.New(config, client.Options{Scheme: Scheme()})
	if err != nil {
		return nil, fmt.Errorf("connecting to the management cluster: %w", err)
	}
	server, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the management cluster: %w", err)
	}
	return &Doctor{Client: c, Server: server, Namespace: namespace, Now: time.Now}, nil
}

// Scheme returns a scheme with the kinds that a Doctor reads.
func Scheme() *runtime.Scheme {
	s := scheme.New()
	utilruntime.Must(apiextensionsv1.AddToScheme(s))
	utilruntime.Must(admissionregistrationv1.AddToScheme(s))
	return s
}

// check returns its problems, or one result with status OK.
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
		{"admission", d.admission},
		{"credentials", d.credentials},
		{"grants", d.grants},
		{"policies", d.policies},
		{"versions", d.versions},
		{"add-ons", d.addons},
		{"runs", d.runs},
		{"locks", d.locks},
		{"deletions", d.deletions},
		{"leftovers", d.leftovers},
	}
}

// Examine runs all checks. A check without a problem has one result.
func (d *Doctor) Examine(ctx context.Context) []Result {
	results := d.apiServer()
	if results[0].Status == Fail {
		return results
	}
	for _, c := range d.checks() {
		found, err := c.run(ctx)
		if err != nil {
			found = append(found, checkError(err))
		}
		for _, result := range found {
			result.Check = c.name
			results = append(results, result)
		}
	}
	return results
}

// Healthy reports whether no result has the status Fail.
func Healthy(results []Result) bool { return Failures(results) == 0 }

// Failures returns the number of results with the status Fail.
func Failures(results []Result) int {
	count := 0
	for _, r := range results {
		if r.Status == Fail {
			count++
		}
	}
	return count
}

// checkError returns the result of a check that could not be completed.
func checkError(err error) Result {
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return Result{Status: Warn, Message: "not permitted: " + err.Error(), Fix: "use administrator credentials with --context or --kubeconfig"}
	}
	return Result{Status: Fail, Message: "the check failed: " + err.Error(), Fix: "try again, and read the log of the API server"}
}

// apiServer reads the version of the API server.
func (d *Doctor) apiServer() []Result {
	version, err := d.Server.ServerVersion()
	if err != nil {
		return []Result{{
			Check: "api-server", Status: Fail, Message: "the API server is unreachable: " + err.Error(),
			Fix: "check --context and --kubeconfig, and that the cluster is running: kubectl cluster-info",
		}}
	}
	return []Result{{Check: "api-server", Status: OK, Message: "Kubernetes " + version.GitVersion}}
}

// list lists objects of the namespace. A kind that is not installed has none.
func (d *Doctor) list(ctx context.Context, into client.ObjectList, options ...client.ListOption) error {
	err := d.Client.List(ctx, into, append(options, client.InNamespace(d.Namespace))...)
	if err != nil && !meta.IsNoMatchError(err) {
		return fmt.Errorf("listing %T: %w", into, err)
	}
	return nil
}

// examineKinds returns the problems of the objects of all kinds, or that it is ok. The function gets
// an object and the name of its resource, and returns its problem or nil.
func (d *Doctor) examineKinds(ctx context.Context, ok string, problem func(client.Object, string) *Result) ([]Result, error) {
	var problems []Result
	for _, kind := range kinds {
		list := kind.list()
		if err := d.list(ctx, list); err != nil {
			return nil, err
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			if obj, isObject := item.(client.Object); isObject {
				if found := problem(obj, kind.resource); found != nil {
					problems = append(problems, *found)
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return orOK(problems, "%s", ok), nil
}

// workspaces returns the workspaces of the namespace.
func (d *Doctor) workspaces(ctx context.Context) ([]infrav1.WorkspaceTemplateApply, error) {
	var applies infrav1.WorkspaceTemplateApplyList
	if err := d.list(ctx, &applies); err != nil {
		return nil, err
	}
	return applies.Items, nil
}

// orOK returns the problems, or one result with status OK if there are none.
func orOK(problems []Result, format string, args ...any) []Result {
	if len(problems) > 0 {
		return problems
	}
	return []Result{{Status: OK, Message: fmt.Sprintf(format, args...)}}
}

// objectName returns the kind and namespace/name of an object.
func objectName(kind string, obj metav1.Object) string {
	if obj.GetNamespace() == "" {
		return kind + " " + obj.GetName()
	}
	return kind + " " + obj.GetNamespace() + "/" + obj.GetName()
}
