package record

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/appthrust/capt/internal/terraform"
)

// chunkSize is how many bytes of a plan or a state one Secret holds. The API
// server accepts 1 MiB per object.
const chunkSize = 900 << 10

const (
	// maxChunks limits how many Secrets hold a plan or a state, maxChunkedContent what
	// they expand to.
	maxChunks         = 256
	maxChunkedContent = 1 << 30
)

// ErrTooLarge reports that a content does not fit into the Secrets of Chunks.
var ErrTooLarge = fmt.Errorf("more than %d Secrets are required", maxChunks)

const (
	keyChunk  = "chunk"
	keyDigest = "sha256"
	// ModuleAnnotation is the digest of the fetched module of a stored plan.
	ModuleAnnotation = "capt.appthrust.io/module-digest"
	// ChunksAnnotation is the number of Secrets that hold the content.
	ChunksAnnotation = "capt.appthrust.io/chunks"
)

// PlanID returns the ID of a plan. It depends on the content, on its changes, which
// protection is checked against, on the digest of the fetched module, and on the run,
// because two runs may create plans with the same content.
func PlanID(plan []byte, changes []terraform.Change, module, runID string) string {
	sum := sha256.New()
	// Fixed sizes, so that no part can be taken for another one.
	content := sha256.Sum256(plan)
	sum.Write(content[:])
	list := sha256.New()
	for _, change := range changes {
		fmt.Fprintf(list, "%q %q %q %q\n", change.Address, change.PreviousAddress, change.Type, change.Action)
	}
	sum.Write(list.Sum(nil))
	sum.Write([]byte(module + runID))
	return "plan-" + hex.EncodeToString(sum.Sum(nil)[:8])
}

// ChangesName returns the name of the stored changes of a plan, with values.
func ChangesName(planID string) string { return planID + changesSuffix }

// IsChanges reports whether a name is that of stored changes.
func IsChanges(name string) bool { return strings.HasSuffix(name, changesSuffix) }

const changesSuffix = "-changes"

// keyChanges holds the changes of a stored plan. Protection is checked again when
// the plan is applied.
const keyChanges = "changes"

// SetChanges stores the changes of a plan in the first Secret of the plan.
func SetChanges(first *corev1.Secret, changes []terraform.Change) error {
	data, err := encode(changes)
	if err != nil {
		return fmt.Errorf("compressing changes: %w", err)
	}
	first.Data[keyChanges] = data
	return nil
}

// Changes returns the changes of a stored plan from its first Secret.
func Changes(first *corev1.Secret) ([]terraform.Change, error) {
	var changes []terraform.Change
	if err := decodeRequired(first, keyChanges, &changes); err != nil {
		return nil, err
	}
	return changes, nil
}

// ChunkName returns the name of the i-th Secret of a plan or a state.
func ChunkName(name string, i int) string { return "capt-" + name + "-" + strconv.Itoa(i) }

// FirstChunk returns the name of the plan or the state whose first Secret has the
// given name.
func FirstChunk(secret string) (name string, first bool) {
	name, first = strings.CutSuffix(strings.TrimPrefix(secret, "capt-"), "-0")
	return name, first
}

// ChunkedName returns the name of the plan or the state that a Secret is a part of.
func ChunkedName(secret string) string {
	return strings.TrimPrefix(secret[:max(0, strings.LastIndex(secret, "-"))], "capt-")
}

// IsChunk reports whether a Secret belongs to a plan or a state.
func IsChunk(secret, name string) bool {
	number, found := strings.CutPrefix(secret, "capt-"+name+"-")
	_, err := strconv.Atoi(number)
	return found && err == nil
}

// Chunks compresses a plan or a state and splits it over as many Secrets as it
// needs. The Secrets are the same for the same content.
func Chunks(name string, content []byte, meta metav1.ObjectMeta) ([]*corev1.Secret, error) {
	compressed, err := Compress(content)
	if err != nil {
		return nil, fmt.Errorf("compressing %s: %w", name, err)
	}
	if err := checkSize(name, len(content), len(compressed)); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(content)
	var secrets []*corev1.Secret
	for i := 0; len(compressed) > 0 || i == 0; i++ {
		n := min(len(compressed), chunkSize)
		m := *meta.DeepCopy()
		m.Name = ChunkName(name, i)
		secrets = append(secrets, &corev1.Secret{
			ObjectMeta: m, Type: corev1.SecretTypeOpaque,
			Data: map[string][]byte{keyChunk: compressed[:n], keyDigest: []byte(hex.EncodeToString(sum[:]))},
		})
		compressed = compressed[n:]
	}
	for _, s := range secrets {
		if s.Annotations == nil {
			s.Annotations = map[string]string{}
		}
		s.Annotations[ChunksAnnotation] = strconv.Itoa(len(secrets))
	}
	return secrets, nil
}

// checkSize returns ErrTooLarge for a content that could not be read again.
func checkSize(name string, size, compressed int) error {
	if size > maxChunkedContent || compressed > maxChunks*chunkSize {
		return fmt.Errorf("%s has %d MiB: %w", name, size>>20, ErrTooLarge)
	}
	return nil
}

// ChunkCount returns the number of Secrets that hold the content, from the first
// of them.
func ChunkCount(first *corev1.Secret) (int, error) {
	n, err := strconv.Atoi(first.Annotations[ChunksAnnotation])
	if err != nil || n < 1 || n > maxChunks {
		return 0, fmt.Errorf("reading Secret %s: annotation %s is not a number from 1 to %d", first.Name, ChunksAnnotation, maxChunks)
	}
	return n, nil
}

// Join returns the content of the Secrets. It verifies the checksum. Only a run may
// read content of any size.
func Join(secrets []*corev1.Secret) ([]byte, error) {
	return JoinUpTo(secrets, maxChunkedContent)
}

// JoinUpTo is like Join, but refuses content of more than limit bytes.
func JoinUpTo(secrets []*corev1.Secret, limit int64) ([]byte, error) {
	if len(secrets) == 0 {
		return nil, errors.New("joining chunks: no Secrets")
	}
	var compressed []byte
	for _, s := range secrets {
		compressed = append(compressed, s.Data[keyChunk]...)
	}
	content, err := decompress(compressed, limit)
	if err != nil {
		return nil, fmt.Errorf("decompressing Secret %s: %w", secrets[0].Name, err)
	}
	sum := sha256.Sum256(content)
	if hex.EncodeToString(sum[:]) != string(secrets[0].Data[keyDigest]) {
		return nil, fmt.Errorf("joining chunks of Secret %s: checksum mismatch", secrets[0].Name)
	}
	return content, nil
}
