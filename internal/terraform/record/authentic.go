package record

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/appthrust/capt/internal/terraform"
)

// Annotations by which the manager recognises the runs that it created. A run can create
// Secrets in its namespace, and so can users.
const (
	// DigestAnnotation is the digest of the request of a run. The request is removed when
	// the run has ended.
	DigestAnnotation = "capt.appthrust.io/request-digest"
	// SealAnnotation authenticates the Secret of a run.
	SealAnnotation = "capt.appthrust.io/seal"
)

// SealPurpose separates the seals of runs from others.
const SealPurpose = "run"

// annotationPrefix is the prefix of CAPT's annotations.
const annotationPrefix = "capt.appthrust.io/"

// SealedContent returns what the seal of a run covers: which run of which workspace it
// is, its request, and all annotations of CAPT. Nothing changes them after the run was
// created. They include those that this version does not know: the seals of a newer one
// stay valid after going back to this one.
func SealedContent(secret *corev1.Secret) []byte {
	content := struct {
		Namespace, Name, Workspace, UID string
		Annotations                     map[string]string
	}{Namespace: secret.Namespace, Name: secret.Name, Annotations: map[string]string{}}
	if owner := metav1.GetControllerOf(secret); owner != nil {
		content.Workspace, content.UID = owner.Name, string(owner.UID)
	}
	for key, value := range secret.Annotations {
		if strings.HasPrefix(key, annotationPrefix) && key != SealAnnotation {
			content.Annotations[key] = value
		}
	}
	text, err := json.Marshal(content)
	if err != nil { // Strings always marshal.
		panic(fmt.Sprintf("encoding the content of a seal: %v", err))
	}
	return text
}

// maxRunNumber is far beyond the number of runs that a workspace can have.
const maxRunNumber = 1 << 53

// RunOf returns the ID and the number of the run of a workspace whose Secret has the
// given name. It returns false for other Secrets.
func RunOf(workspace, secretName string) (id string, number int64, ok bool) {
	id, found := strings.CutPrefix(secretName, SecretName(""))
	if !found {
		return "", 0, false
	}
	number, err := RunNumber(id)
	if err != nil || number < 1 || number > maxRunNumber || id != NewRunID(workspace, number) {
		return "", 0, false
	}
	return id, number, true
}

// ErrForged reports that a Secret has another request than the one with which the manager
// created the run.
var ErrForged = errors.New("the Secret of the run was not created by the manager, or was changed")

// CheckedRequest returns the request of a run. It returns ErrForged if it is not the one
// with which the manager created the run.
func CheckedRequest(secret *corev1.Secret, run terraform.Run) (*terraform.Request, error) {
	if RequestDigest(secret) != run.Digest {
		return nil, fmt.Errorf("reading the request of run %s: %w", run.ID, ErrForged)
	}
	request, err := Request(secret)
	if err != nil {
		return nil, err
	}
	if w := request.Workspace; w.Namespace != run.Namespace || w.Name != run.Workspace || request.RunID != run.ID {
		return nil, fmt.Errorf("the request is for run %s of workspace %s/%s: %w", request.RunID, w.Namespace, w.Name, ErrForged)
	}
	return request, nil
}

// RequestDigest returns the digest of the request in the Secret of a run.
func RequestDigest(secret *corev1.Secret) string {
	sum := sha256.Sum256(secret.Data[keyRequest])
	return "sha256:" + hex.EncodeToString(sum[:])
}
