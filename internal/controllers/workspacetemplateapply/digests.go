package workspacetemplateapply

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/appthrust/capt/internal/terraform"
	"github.com/appthrust/capt/internal/terraform/record"
)

// maxDigests limits the digests that are kept between reconciles. Few runs have a large result.
const maxDigests = 2_000

// digests are those of large results. It takes a moment to decode one, and the results of all
// runs of a workspace are read at each reconcile. A nil value keeps nothing.
type digests struct {
	mu    sync.Mutex
	known map[digestKey]keptDigest
}

// digestKey is one version of the Secret of a run.
type digestKey struct {
	uid     types.UID
	version string
}

type keptDigest struct {
	result      terraform.Result
	hasLockFile bool
}

func versionOf(secret *corev1.Secret) digestKey {
	return digestKey{secret.UID, secret.ResourceVersion}
}

// keep keeps the digest of a run, unless it is read quickly again.
func (d *digests) keep(run *runRecord) {
	if d == nil || run.secret.UID == "" || run.secret.ResourceVersion == "" || !record.IsLarge(run.secret) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for old := range d.known {
		if len(d.known) < maxDigests {
			break
		}
		// Any of them: the order of a map is random. It is read again.
		delete(d.known, old)
	}
	if d.known == nil {
		d.known = map[digestKey]keptDigest{}
	}
	d.known[versionOf(run.secret)] = keptDigest{*run.digest, run.hasLockFile}
}

// restore sets the digest of a run to the one that is kept. It reports whether there is one.
func (d *digests) restore(run *runRecord) bool {
	if d == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	kept, found := d.known[versionOf(run.secret)]
	if found {
		run.digest, run.hasLockFile = &kept.result, kept.hasLockFile
	}
	return found
}
