package migrate

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/kubernetes/manifest"
)

// maxReleaseSize is the maximum size of an uncompressed release.
const maxReleaseSize = 32 << 20

// helmRelease is a revision of a release as Helm stores it.
type helmRelease struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Revision  int    `json:"version"`
	Info      struct {
		Status string `json:"status"`
	} `json:"info"`
	Chart struct {
		Metadata struct {
			Name    string `json:"name"`
			Version string `json:"version"`
		} `json:"metadata"`
		// Values are the defaults of the chart.
		Values map[string]any `json:"values"`
	} `json:"chart"`
	// Config are the values that the user gave.
	Config   map[string]any `json:"config"`
	Manifest string         `json:"manifest"`
}

// decodeRelease decodes the content of one of Helm's Secrets. Errors quote nothing
// of it, because values may be secret.
//
// Helm exports its decoder only through its storage driver, which links an SQL
// client.
func decodeRelease(data []byte) (*helmRelease, error) {
	packed, err := base64.StdEncoding.DecodeString(string(data))
	if err != nil {
		return nil, errors.New("the release is not base64")
	}
	if bytes.HasPrefix(packed, []byte{0x1f, 0x8b}) {
		reader, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			return nil, errors.New("the release is not valid gzip data")
		}
		if packed, err = io.ReadAll(io.LimitReader(reader, maxReleaseSize)); err != nil {
			return nil, errors.New("the release is not valid gzip data")
		}
	}
	release := &helmRelease{}
	if err := json.Unmarshal(packed, release); err != nil {
		return nil, errors.New("the release is not JSON")
	}
	return release, nil
}

// latestReleases returns the latest revision of each release of a chart, sorted by
// namespace and name. Releases that are uninstalled are not among them.
func latestReleases(secrets []corev1.Secret, chart string) ([]*helmRelease, error) {
	latest := map[string]*corev1.Secret{}
	for i := range secrets {
		s := &secrets[i]
		key := s.Namespace + "/" + s.Labels["name"]
		if latest[key] == nil || revisionOf(s) > revisionOf(latest[key]) {
			latest[key] = s
		}
	}
	var found []*helmRelease
	for _, s := range latest {
		release, err := decodeRelease(s.Data["release"])
		if err != nil {
			return nil, fmt.Errorf("reading Secret %s/%s: %w", s.Namespace, s.Name, err)
		}
		if release.Chart.Metadata.Name == chart && release.Info.Status != "uninstalled" {
			found = append(found, release)
		}
	}
	slices.SortFunc(found, func(a, b *helmRelease) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return found, nil
}

func revisionOf(s *corev1.Secret) int {
	n, err := strconv.Atoi(s.Labels["version"])
	if err != nil {
		return 0
	}
	return n
}

// workloadUIDs are the UIDs of a release's Deployments and of their pods, by the
// namespace/name of the Deployment. An object with another UID was replaced.
type workloadUIDs struct {
	Deployments map[string]string   `json:"deployments,omitempty"`
	Pods        map[string][]string `json:"pods,omitempty"`
}

// pods returns the number of pods.
func (w workloadUIDs) pods() int {
	n := 0
	for _, uids := range w.Pods {
		n += len(uids)
	}
	return n
}

// readWorkloadUIDs reads the Deployments of a release and their pods.
func readWorkloadUIDs(ctx context.Context, c client.Client, release *helmRelease) (workloadUIDs, error) {
	found := workloadUIDs{Deployments: map[string]string{}, Pods: map[string][]string{}}
	objects, err := manifest.Parse([]byte(release.Manifest))
	if err != nil {
		return found, fmt.Errorf("reading the manifest of release %s: %w", release.Name, err)
	}
	for _, obj := range objects {
		if obj.GetKind() != "Deployment" {
			continue
		}
		namespace := cmp.Or(obj.GetNamespace(), release.Namespace)
		deployment := &appsv1.Deployment{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: obj.GetName()}, deployment); err != nil {
			return found, fmt.Errorf("reading Deployment %s/%s: %w", namespace, obj.GetName(), err)
		}
		key := namespace + "/" + obj.GetName()
		found.Deployments[key] = string(deployment.UID)
		selector, err := metav1.LabelSelectorAsSelector(deployment.Spec.Selector)
		if err != nil {
			return found, fmt.Errorf("reading the selector of Deployment %s: %w", key, err)
		}
		var pods corev1.PodList
		if err := c.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
			return found, fmt.Errorf("listing the pods of Deployment %s: %w", key, err)
		}
		for i := range pods.Items {
			if pods.Items[i].DeletionTimestamp.IsZero() {
				found.Pods[key] = append(found.Pods[key], string(pods.Items[i].UID))
			}
		}
		slices.Sort(found.Pods[key])
	}
	return found, nil
}
