package workload

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

// CheckKubeconfig tells whether Cluster API can use a kubeconfig: it is read in another
// place than it was made in, and no program is run for it. It returns when the
// client certificate in it ends, or the zero time. Its errors hold nothing of
// the kubeconfig's secrets.
func CheckKubeconfig(text []byte) (expires time.Time, err error) {
	config, err := clientcmd.Load(text)
	if err != nil {
		return expires, errors.New("it is no kubeconfig")
	}
	context := config.Contexts[config.CurrentContext]
	if context == nil {
		return expires, errors.New("the kubeconfig has no current-context")
	}
	cluster, user := config.Clusters[context.Cluster], config.AuthInfos[context.AuthInfo]
	switch {
	case cluster == nil || cluster.Server == "":
		return expires, errors.New("the kubeconfig names no server")
	case user == nil:
		return expires, errors.New("the kubeconfig names no user")
	case user.Exec != nil || user.AuthProvider != nil:
		return expires, errors.New("the kubeconfig runs a program for its credentials, which Cluster API refuses: use a token or a client certificate")
	case cluster.CertificateAuthority != "" || user.ClientCertificate != "" || user.ClientKey != "" || user.TokenFile != "":
		return expires, errors.New("the kubeconfig names files: embed their contents")
	}
	if block, _ := pem.Decode(user.ClientCertificateData); block != nil {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return expires, fmt.Errorf("the client certificate of the kubeconfig does not parse: %w", err)
		}
		expires = certificate.NotAfter
	}
	return expires, nil
}
