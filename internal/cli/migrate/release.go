package migrate

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonrender "github.com/appthrust/capt/internal/addon/render"
)

// largestRelease bounds what a release may unpack to.
const largestRelease = 32 << 20

// helmRelease is what Helm keeps of a release.
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
		// Values are the chart's own.
		Values map[string]any `json:"values"`
	} `json:"chart"`
	// Config are the values that were given.
	Config   map[string]any `json:"config"`
	Manifest string         `json:"manifest"`
}

// decodeRelease reads the content of a Secret of Helm's. Errors quote nothing of
// it: values may be secret.
func decodeRelease(data []byte) (*helmRelease, error) {
	packed, err := base64.StdEncoding.DecodeString(string(data))
	if err != nil {
		return nil, errors.New("the release is not in base64")
	}
	if bytes.HasPrefix(packed, []byte{0x1f, 0x8b}) {
		reader, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			return nil, errors.New("the release cannot be unpacked")
		}
		if packed, err = io.ReadAll(io.LimitReader(reader, largestRelease)); err != nil {
			return nil, errors.New("the release cannot be unpacked")
		}
	}
	release := &helmRelease{}
	if err := json.Unmarshal(packed, release); err != nil {
		return nil, errors.New("the release is no JSON")
	}
	return release, nil
}

// findReleases lists the newest revision of each release of a chart.
func findReleases(ctx context.Context, c client.Client, chart string) ([]*helmRelease, error) {
	var secrets corev1.SecretList
	if err := c.List(ctx, &secrets, client.MatchingLabels{"owner": "helm"}); err != nil {
		return nil, fmt.Errorf("listing Helm's releases: %w", err)
	}
	newest := map[string]*corev1.Secret{}
	for i := range secrets.Items {
		s := &secrets.Items[i]
		key := s.Namespace + "/" + s.Labels["name"]
		if newest[key] == nil || revisionOf(s) > revisionOf(newest[key]) {
			newest[key] = s
		}
	}
	var found []*helmRelease
	for _, s := range newest {
		release, err := decodeRelease(s.Data["release"])
		if err != nil {
			return nil, fmt.Errorf("reading Secret %s/%s: %w", s.Namespace, s.Name, err)
		}
		if release.Chart.Metadata.Name == chart && release.Info.Status != "uninstalled" {
			found = append(found, release)
		}
	}
	slices.SortFunc(found, func(a, b *helmRelease) int {
		return bytes.Compare([]byte(a.Namespace+"/"+a.Name), []byte(b.Namespace+"/"+b.Name))
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

// running is what a release runs, by name: the uids tell whether it stayed.
type running struct {
	Deployments map[string]string   `json:"deployments,omitempty"`
	Pods        map[string][]string `json:"pods,omitempty"`
}

// lookAt reads the Deployments of a release and their pods.
func lookAt(ctx context.Context, c client.Client, release *helmRelease) (running, error) {
	found := running{Deployments: map[string]string{}, Pods: map[string][]string{}}
	objects, err := addonrender.Parse([]byte(release.Manifest))
	if err != nil {
		return found, fmt.Errorf("reading the manifest of release %s: %w", release.Name, err)
	}
	for _, obj := range objects {
		if obj.GetKind() != "Deployment" {
			continue
		}
		namespace := obj.GetNamespace()
		if namespace == "" {
			namespace = release.Namespace
		}
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
