package v1beta1

import "testing"

func TestReservedSecretNames(t *testing.T) {
	for name, want := range map[string]struct{ engine, cluster bool }{
		"capt-run-hello-r1":               {engine: true},
		"capt-plan-0123456789abcdef-0":    {engine: true},
		"capt-snapshot-hello-r1-abcdef-0": {engine: true},
		"capt-rescue-hello-r1-abcdef-0":   {engine: true},
		"capt-module-hello-abcdef-0":      {engine: true},
		"capt-input-x-0":                  {engine: true},
		"capt-output-x-0":                 {engine: true},
		"capt-token-hello-r1":             {engine: true},
		"tfstate-default-hello-ws":        {engine: true},
		"sh.helm.release.v1.capt.v1":      {engine: true},
		"capt-seal-key":                   {engine: true},
		"demo-kubeconfig":                 {cluster: true},
		"demo-user-kubeconfig":            {cluster: true},
		"demo-ca":                         {cluster: true},
		"demo-etcd":                       {cluster: true},
		"demo-sa":                         {cluster: true},
		"demo-proxy":                      {cluster: true},
		"demo-apiserver-etcd-client":      {cluster: true},
		"demo-connection":                 {},
		"demo-eks-connection":             {},
		"capt-outputs":                    {},
		"ca":                              {},
		"production-dns":                  {},
	} {
		if got := IsReservedSecretName(name); got != want.engine {
			t.Errorf("IsReservedSecretName(%s) = %v", name, got)
		}
		if got := IsClusterSecretName(name); got != want.cluster {
			t.Errorf("IsClusterSecretName(%s) = %v", name, got)
		}
	}
}
