package workload

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

// CheckKubeconfig returns an error if Cluster API cannot use a kubeconfig. It is
// used on another machine, so it must not refer to files or run a program.
// CheckKubeconfig returns the expiry of the client certificate, or the zero time.
// Its errors contain no secret of the kubeconfig.
func CheckKubeconfig(content []byte) (expires time.Time, err error) {
	config, err := clientcmd.Load(content)
	if err != nil {
		return expires, errors.New("it is not a valid kubeconfig")
	}
	context := config.Contexts[config.CurrentContext]
	if context == nil {
		return expires, errors.New("the kubeconfig has no current-context")
	}
	cluster, user := config.Clusters[context.Cluster], config.AuthInfos[context.AuthInfo]
	switch {
	case cluster == nil || cluster.Server == "":
		return expires, errors.New("the kubeconfig has no server")
	case user == nil:
		return expires, errors.New("the kubeconfig has no user")
	case user.Exec != nil || user.AuthProvider != nil:
		return expires, errors.New("the kubeconfig runs a program for its credentials, which Cluster API does not allow: use a token or a client certificate")
	case cluster.CertificateAuthority != "" || user.ClientCertificate != "" || user.ClientKey != "" || user.TokenFile != "":
		return expires, errors.New("the kubeconfig refers to files: embed their contents")
	}
	if block, _ := pem.Decode(user.ClientCertificateData); block != nil {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return expires, fmt.Errorf("parsing the client certificate of the kubeconfig: %w", err)
		}
		expires = certificate.NotAfter
	}
	return expires, nil
}
