package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

func TestExplain_namesTheManagementClusterOnlyForItsOwnErrors(t *testing.T) {
	o := &Options{Kube: genericclioptions.NewConfigFlags(true)}
	*o.Kube.APIServer = "https://10.0.0.1:6443"
	failed := func(address string) error {
		return fmt.Errorf("listing: %w", &url.Error{Op: "Get", URL: address, Err: errors.New("no route")})
	}
	for name, tc := range map[string]struct {
		err  error
		want string
		code int
	}{
		"management cluster": {failed("https://10.0.0.1:6443/api"), "the management cluster at https://10.0.0.1:6443 is unreachable (no route): check --context and --kubeconfig, or start one with captctl local up", 1},
		"other server":       {failed("https://example.com/file"), `listing: Get "https://example.com/file": no route`, 1},
		"request stays":      {&requestedError{failed("https://10.0.0.1:6443/api"), runRequested}, "the management cluster at https://10.0.0.1:6443 is unreachable (no route): check --context and --kubeconfig, or start one with captctl local up; the run was requested and may still be executed", 1},
		"expired token":      {&requestedError{apierrors.NewUnauthorized("expired"), runRequested}, "the management cluster rejected your credentials: log in again, or choose another --context; the run was requested and may still be executed", 1},
		"several lines":      {errors.New("a\n  b"), "a b", 1},
		"Ctrl-C":             {fmt.Errorf("waiting: %w", context.Canceled), "", 130},
		"exit code is set":   {&Exit{Code: 2, Err: errors.New("wrong")}, "wrong", 2},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			err := o.explain(tc.err)
			g.Expect(err.Error()).To(Equal(tc.want))
			g.Expect(Code(err)).To(Equal(tc.code))
		})
	}
	NewWithT(t).Expect(o.explain(nil)).To(Succeed())
}

// The name is that of the kubeconfig if the user has passed none.
func TestExplain_namesTheContextThatDoesNotExist(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"apiVersion": "v1", "kind": "Config", "current-context": "typo", "contexts": [{"name": "a", "context": {"cluster": "a"}}]}`
	NewWithT(t).Expect(os.WriteFile(file, []byte(text), 0o600)).To(Succeed())
	for selected, want := range map[string]string{"": "typo", "other": "other"} {
		o := &Options{Kube: genericclioptions.NewConfigFlags(true)}
		*o.Kube.KubeConfig, *o.Kube.Context = file, selected
		_, err := o.Config()
		NewWithT(t).Expect(o.explain(err)).To(MatchError(fmt.Sprintf("the kubeconfig has no context %q: see kubectl config get-contexts", want)))
	}
}
