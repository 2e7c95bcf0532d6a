package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The ServiceAccount as which the management cluster uses a workload cluster, and its
// permissions. Cluster API and CAPT apply the manifests of add-ons, which have CRDs and
// roles, so that fewer permissions would not restrict them.
const (
	serviceAccountNamespace = metav1.NamespaceSystem
	serviceAccountName      = "capt-manager"
	serviceAccountRole      = "cluster-admin"

	// ServiceAccount is its name in messages.
	ServiceAccount = serviceAccountNamespace + "/" + serviceAccountName

	// tokenLifetime is the lifetime that is requested. Clouds limit it, many to a day.
	tokenLifetime = 7 * 24 * time.Hour
)

// Token is a token of the ServiceAccount.
type Token struct {
	Value     string
	ExpiresAt time.Time
}

// RequestToken returns a new token of the ServiceAccount of a workload cluster. It creates
// the ServiceAccount and the binding of its role if they do not exist.
func RequestToken(ctx context.Context, c client.Client) (Token, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: serviceAccountNamespace, Name: serviceAccountName}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: serviceAccountName},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: serviceAccountRole},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: serviceAccountNamespace, Name: serviceAccountName}},
	}
	for _, obj := range []client.Object{account.DeepCopy(), binding} {
		if err := c.Create(ctx, obj); err != nil && !apierrors.IsAlreadyExists(err) {
			return Token{}, ShortError(err)
		}
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(tokenLifetime.Seconds()))}}
	if err := c.SubResource("token").Create(ctx, account, request); err != nil {
		return Token{}, ShortError(err)
	}
	if request.Status.Token == "" || request.Status.ExpirationTimestamp.IsZero() {
		return Token{}, errors.New("the API server returned no token")
	}
	return Token{Value: request.Status.Token, ExpiresAt: request.Status.ExpirationTimestamp.Time}, nil
}

// WithToken returns a kubeconfig for the API server of another one, with a token as its
// only credential.
func WithToken(kubeconfig []byte, token string) ([]byte, error) {
	config, err := parse(kubeconfig)
	if err != nil {
		return nil, err
	}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	content, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("encoding the kubeconfig: %w", err)
	}
	return content, nil
}

// IsRejected reports whether an error of a Connector or of RequestToken means that the API
// server answers, and does not accept the credential.
func IsRejected(err error) bool { return errors.Is(err, errRejected) || errors.Is(err, errForbidden) }
