package access

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

const (
	// shortestToken is the shortest lifetime that the API server accepts.
	shortestToken = 10 * time.Minute
	// unlimited is the lifetime of the token of a run without a timeout.
	unlimited = 7 * 24 * time.Hour
	// margin is how long a run may take to start, and to save its state while the API
	// server is unavailable.
	margin = 25 * time.Hour
)

// lifetime returns how long a run may need its token. The token ends earlier, with the
// service account, when the run has ended.
func lifetime(request *terraform.Request) time.Duration {
	if request.Timeout <= 0 {
		return unlimited
	}
	return max(shortestToken, request.Limit()+request.Grace+margin)
}

// Token returns a token of the service account of a run. It is not bound to the Secret of
// the run: a foreground deletion of the workspace deletes that Secret at once, and the run
// could not save its state.
func (g Granter) Token(ctx context.Context, run terraform.Run, request *terraform.Request) (string, error) {
	wanted := lifetime(request)
	seconds := int64(wanted.Seconds())
	token := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: run.Namespace, Name: Name(run.ID)}}
	if err := g.Client.SubResource("token").Create(ctx, account, token); err != nil {
		return "", fmt.Errorf("requesting a token of ServiceAccount %s: %w", account.Name, err)
	}
	if needed := request.Limit() + request.Grace; time.Until(token.Status.ExpirationTimestamp.Time) < needed {
		return "", fmt.Errorf("the API server issues tokens for at most %s, but the run may take %s: set a shorter timeout",
			time.Until(token.Status.ExpirationTimestamp.Time).Round(time.Minute), needed)
	}
	return token.Status.Token, nil
}

// TokenKey is the key of a stored token.
const TokenKey = "token"

// TokenSecretName returns the name of the Secret with the token of a run.
func TokenSecretName(runID string) string { return record.Shorten("capt-token-"+runID, maxNameLength) }

// StoreToken stores a token of the run's service account in a Secret. A pod that runs as
// another account mounts it.
func (g Granter) StoreToken(ctx context.Context, run terraform.Run, request *terraform.Request) error {
	meta := runMeta(request.Workspace, record.ComponentToken, run.ID)
	meta.Name = TokenSecretName(run.ID)
	// Another Secret of this name may have been created to be mounted, with a token of
	// another account.
	existing := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: run.Namespace, Name: meta.Name}}
	if err := g.Client.Delete(ctx, existing); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the token of another run: %w", err)
	}
	token, err := g.Token(ctx, run, request)
	if err != nil {
		return err
	}
	secret := &corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeOpaque, Data: map[string][]byte{TokenKey: []byte(token)}}
	if err := g.Client.Create(ctx, secret); err != nil {
		return fmt.Errorf("storing the token of the run: %w", err)
	}
	return nil
}
