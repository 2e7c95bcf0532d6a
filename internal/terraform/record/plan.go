package record

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/appthrust/capt/internal/terraform"
)

// chunkSize is how much of a plan or a state one Secret holds; the API server
// takes 1 MiB.
const chunkSize = 900 << 10

const (
	keyChunk  = "chunk"
	keyDigest = "sha256"
	// ChunksAnnotation is how many Secrets hold the whole.
	ChunksAnnotation = "capt.appthrust.io/chunks"
)

// PlanID identifies a plan by its content and by the run that made it: two plans
// of the same moment may have the same content, but are two plans.
func PlanID(plan []byte, runID string) string {
	sum := sha256.New()
	sum.Write(plan)
	sum.Write([]byte(runID))
	return "plan-" + hex.EncodeToString(sum.Sum(nil)[:8])
}

// keyChanges holds what a kept plan changes, so that protection is checked again
// when it is applied.
const keyChanges = "changes"

// SetChanges notes what a kept plan changes.
func SetChanges(first *corev1.Secret, changes []terraform.Change) error {
	data, err := pack(changes)
	if err != nil {
		return fmt.Errorf("packing the changes: %w", err)
	}
	first.Data[keyChanges] = data
	return nil
}

// Changes returns what a kept plan changes.
func Changes(first *corev1.Secret) ([]terraform.Change, error) {
	var changes []terraform.Change
	found, err := unpack(first, keyChanges, &changes)
	if err != nil || !found {
		return nil, orMissing(err, keyChanges)
	}
	return changes, nil
}

// ChunkName is the name of the i-th Secret that holds a part of a whole.
func ChunkName(whole string, i int) string { return "capt-" + whole + "-" + strconv.Itoa(i) }

// Chunks splits a plan or a state over as many Secrets as it needs.
func Chunks(whole string, content []byte, meta metav1.ObjectMeta) ([]*corev1.Secret, error) {
	packed, err := gzipped(content)
	if err != nil {
		return nil, fmt.Errorf("packing %s: %w", whole, err)
	}
	sum := sha256.Sum256(content)
	var secrets []*corev1.Secret
	for i := 0; len(packed) > 0 || i == 0; i++ {
		n := min(len(packed), chunkSize)
		m := *meta.DeepCopy()
		m.Name = ChunkName(whole, i)
		secrets = append(secrets, &corev1.Secret{
			ObjectMeta: m, Type: corev1.SecretTypeOpaque,
			Data: map[string][]byte{keyChunk: packed[:n], keyDigest: []byte(hex.EncodeToString(sum[:]))},
		})
		packed = packed[n:]
	}
	for _, s := range secrets {
		if s.Annotations == nil {
			s.Annotations = map[string]string{}
		}
		s.Annotations[ChunksAnnotation] = strconv.Itoa(len(secrets))
	}
	return secrets, nil
}

// ChunkCount tells how many Secrets hold the whole of which this is the first.
func ChunkCount(first *corev1.Secret) (int, error) {
	n, err := strconv.Atoi(first.Annotations[ChunksAnnotation])
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%s does not say how many Secrets hold the whole", first.Name)
	}
	return n, nil
}

// Join puts a whole together again and checks it.
func Join(secrets []*corev1.Secret) ([]byte, error) {
	if len(secrets) == 0 {
		return nil, errors.New("nothing to put together")
	}
	var packed []byte
	for _, s := range secrets {
		packed = append(packed, s.Data[keyChunk]...)
	}
	content, err := gunzip(packed)
	if err != nil {
		return nil, fmt.Errorf("unpacking %s: %w", secrets[0].Name, err)
	}
	sum := sha256.Sum256(content)
	if hex.EncodeToString(sum[:]) != string(secrets[0].Data[keyDigest]) {
		return nil, fmt.Errorf("%s and what belongs to it are not what was stored", secrets[0].Name)
	}
	return content, nil
}
