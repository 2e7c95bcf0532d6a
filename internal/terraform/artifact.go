package terraform

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"hash"
	"strings"
)

// MaxArtifact limits the size of an artifact. It is stored in Secrets until the run has
// stored the module.
const MaxArtifact = 4 << 20

// Artifact is the archive of a source of Flux, from which a module is taken. The manager
// downloads and stores it: a pod may not reach Flux, and Flux deletes old artifacts.
type Artifact struct {
	// Source is the kind and name of the source.
	Source string `json:"source,omitempty"`
	// Digest is the digest of the archive, a compressed tar. It is empty if the source
	// does not exist any more.
	Digest string `json:"digest,omitempty"`
	// Revision is the revision of the source that the archive has.
	Revision string `json:"revision,omitempty"`
	// Archive is the name of the stored archive. It is empty if the run uses the pinned
	// content.
	Archive string `json:"archive,omitempty"`
}

// digests are the algorithms of digests. Those that Flux also supports are not in the
// standard library.
var digests = map[string]func() hash.Hash{"sha256": sha256.New, "sha384": sha512.New384, "sha512": sha512.New}

// Verify returns an error unless the content has the digest.
func (a *Artifact) Verify(content []byte) error {
	algorithm, want, _ := strings.Cut(a.Digest, ":")
	newHash, known := digests[algorithm]
	if !known {
		return fmt.Errorf("the algorithm of digest %q is not supported: use sha256, sha384 or sha512", a.Digest)
	}
	h := newHash()
	_, _ = h.Write(content) // A hash never returns an error.
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		return fmt.Errorf("the artifact has digest %s:%s instead of %s", algorithm, got, a.Digest)
	}
	return nil
}
