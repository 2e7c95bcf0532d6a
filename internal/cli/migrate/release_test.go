package migrate

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// encode returns a release as Helm stores it.
func encode(t *testing.T, text string) []byte {
	t.Helper()
	g := NewWithT(t)
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := w.Write([]byte(text))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(w.Close()).To(Succeed())
	return []byte(base64.StdEncoding.EncodeToString(packed.Bytes()))
}

func TestDecodeRelease(t *testing.T) {
	g := NewWithT(t)
	text := `{"name":"karpenter","namespace":"karpenter","version":3,"info":{"status":"deployed"},"chart":{"metadata":{"name":"karpenter","version":"1.14.1"},"values":{"a":1}},"config":{"a":2}}`
	for _, data := range [][]byte{encode(t, text), []byte(base64.StdEncoding.EncodeToString([]byte(text)))} {
		found, err := decodeRelease(data)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(found.Revision).To(Equal(3))
		g.Expect(found.Chart.Metadata.Version).To(Equal("1.14.1"))
	}
}

func TestDecodeRelease_errorsQuoteNothing(t *testing.T) {
	for name, data := range map[string][]byte{
		"not base64": []byte("not a release: token"),
		"not gzip":   []byte(base64.StdEncoding.EncodeToString([]byte("\x1f\x8b token"))),
		"not JSON":   encode(t, "token"),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := decodeRelease(data)
			NewWithT(t).Expect(err).To(MatchError(And(HavePrefix("the release is not"), Not(ContainSubstring("token")))))
		})
	}
}

func TestLatestReleases(t *testing.T) {
	g := NewWithT(t)
	stored := func(namespace, name, chart, status string, revision int) corev1.Secret {
		return corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Labels: map[string]string{"name": name, "version": fmt.Sprint(revision)}},
			Data: map[string][]byte{"release": encode(t, fmt.Sprintf(
				`{"namespace":%q,"name":%q,"version":%d,"info":{"status":%q},"chart":{"metadata":{"name":%q}}}`, namespace, name, revision, status, chart))},
		}
	}
	releases, err := latestReleases([]corev1.Secret{
		stored("z", "a", "karpenter", "deployed", 1),
		stored("karpenter", "karpenter", "karpenter", "superseded", 9),
		stored("karpenter", "karpenter", "karpenter", "deployed", 10),
		stored("karpenter", "karpenter", "karpenter", "superseded", 2),
		stored("karpenter", "other", "flux", "deployed", 1),
		stored("karpenter", "old", "karpenter", "deployed", 1),
		stored("karpenter", "old", "karpenter", "uninstalled", 2),
	}, "karpenter")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(releases).To(HaveLen(2))
	g.Expect(releases[0].Namespace).To(Equal("karpenter"))
	g.Expect(releases[0].Revision).To(Equal(10), "revisions are compared as numbers")
	g.Expect(releases[1].Namespace).To(Equal("z"))

	_, err = latestReleases([]corev1.Secret{{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "broken"}, Data: map[string][]byte{"release": []byte("-")}}}, "karpenter")
	g.Expect(err).To(MatchError(ContainSubstring("reading Secret default/broken")))
}
