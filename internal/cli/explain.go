package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/appthrust/capt/internal/kubernetes/scheme"
	"github.com/appthrust/capt/internal/message"
)

// interrupted is the exit code after Ctrl-C.
const interrupted = 130

// explain returns an error in one line, with the next step where it is known.
func (o *Options) explain(err error) error {
	var exit *Exit
	var address *url.Error
	if _, left := errors.AsType[*shellError](err); left {
		return errors.New(o.hints(message.OneLine(err.Error())))
	}
	if requested, ok := errors.AsType[*requestedError](err); ok {
		return fmt.Errorf("%w; %s", o.explain(requested.error), o.hints(requested.request))
	}
	if group, missing := scheme.NotInstalled(err); missing {
		return fmt.Errorf("the cluster has no API group %s: install Cluster API and CAPT (%s), or choose another cluster with --context", group, o.hints("clusterctl init"))
	}
	switch {
	case err == nil:
		return nil
	case errors.As(err, &exit):
		return err
	case errors.Is(err, context.Canceled):
		return &Exit{Code: interrupted}
	case clientcmd.IsEmptyConfig(err), errors.Is(err, clientcmd.ErrEmptyCluster):
		return errors.New("no management cluster configured: set --kubeconfig or KUBECONFIG, or start one with captctl local up")
	case clientcmd.IsContextNotFound(err), o.Kube.Context != nil && strings.Contains(err.Error(), fmt.Sprintf("context %q does not exist", *o.Kube.Context)):
		return unknownContext(o.contextName())
	case errors.As(err, &address) && o.isManagementCluster(address.URL):
		return fmt.Errorf("the management cluster at %s is unreachable (%s): check --context and --kubeconfig, or start one with captctl local up", serverOf(address.URL), message.OneLine(rootCause(err).Error()))
	case apierrors.IsUnauthorized(err):
		return errors.New("the management cluster rejected your credentials: log in again, or choose another --context")
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: request that permission, or choose another --context", message.OneLine(err.Error()))
	default:
		return errors.New(o.hints(message.OneLine(err.Error())))
	}
}

// contextName returns the name of the context that the user or the kubeconfig selects.
func (o *Options) contextName() string {
	config, err := o.Kube.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return *o.Kube.Context
	}
	return cmp.Or(*o.Kube.Context, config.CurrentContext)
}

// unknownContext is the error for a context that the kubeconfig does not have.
func unknownContext(name string) error {
	return fmt.Errorf("the kubeconfig has no context %q: see kubectl config get-contexts", name)
}

// rootCause returns why a server is unreachable, without the request.
func rootCause(err error) error {
	if failed, found := errors.AsType[*net.OpError](err); found {
		return failed.Err
	}
	if address, found := errors.AsType[*url.Error](err); found {
		return address.Err
	}
	return err
}

// serverOf returns the scheme and the host of a URL.
func serverOf(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return address
	}
	return parsed.Scheme + "://" + parsed.Host
}

// isManagementCluster reports whether a URL is one of the management cluster.
func (o *Options) isManagementCluster(address string) bool {
	config, err := o.Kube.ToRESTConfig()
	if err != nil {
		return false
	}
	// The server of a kubeconfig may have no scheme.
	host := config.Host[strings.LastIndex(config.Host, "//")+1:]
	return strings.Contains(address, strings.Trim(host, "/"))
}

// Exit is an error with the exit code of captctl: 1 for a problem that was found
// or a failure, 2 for wrong usage.
type Exit struct {
	Code int
	// Err is nil if everything is printed already.
	Err error
}

// Error returns the text of the error, which may be empty.
func (e *Exit) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

// Unwrap returns the cause.
func (e *Exit) Unwrap() error { return e.Err }

// usageError returns an error with the exit code for wrong usage.
func usageError(format string, args ...any) error {
	return &Exit{Code: 2, Err: fmt.Errorf(format, args...)}
}

// Code returns the exit code for an error.
func Code(err error) int {
	var exit *Exit
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.Code
	default:
		return 1
	}
}
