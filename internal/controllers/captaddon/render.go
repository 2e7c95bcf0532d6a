package captaddon

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/addon/render"
	"github.com/appthrust/capt/internal/reconcile/fault"
)

// rendering is what was rendered for a cluster, without the manifests
// themselves, and from what.
type rendering struct {
	*render.Rendered

	from string
}

// render renders the add-on for every cluster that can have it. What is wrong in
// one cluster keeps no other from going on.
func (r *Reconciler) render(ctx context.Context, s *scope) error {
	var first, transient error
	for _, st := range s.standings {
		if !st.matched || !initialized(st) {
			continue
		}
		st.fault = r.renderOne(ctx, s, st)
		if _, stalled := fault.AsStalled(st.fault); stalled && first == nil {
			first = fmt.Errorf("Cluster %s: %w", st.name, st.fault) //nolint:staticcheck // It is the message of a condition.
		}
		if st.fault != nil && !isFault(st.fault) {
			transient = errors.Join(transient, st.fault)
		}
	}
	if transient != nil {
		return transient
	}
	if stalled, found := fault.AsStalled(first); found {
		return fault.Stall(stalled.Reason, "%s", stalled.Message())
	}
	return nil
}

func isFault(err error) bool {
	_, waiting := fault.AsWaiting(err)
	_, stalled := fault.AsStalled(err)
	return waiting || stalled
}

func initialized(st *standing) bool {
	done := st.cluster.Status.Initialization.ControlPlaneInitialized
	return done != nil && *done
}

// renderOne finds out what a cluster is to get, from what is known already
// while nothing has changed.
func (r *Reconciler) renderOne(ctx context.Context, s *scope, st *standing) error {
	if err := r.fits(s, st); err != nil {
		return err
	}
	from, err := r.versionsOf(ctx, s, st)
	if err != nil {
		return err
	}
	if known := r.known(s, st); known != nil && known.from == from {
		st.rendered = known
		return nil
	}
	rendered, err := r.full(ctx, s, st, render.Round(st.secret))
	if err != nil {
		return err
	}
	if err := r.takes(ctx, s); err != nil {
		return err
	}
	// The manifests are large, and needed only when they are written.
	slim := *rendered
	slim.Data = nil
	st.rendered = &rendering{Rendered: &slim, from: from}
	r.keep(s, st)
	return nil
}

// fits checks that the add-on is for the cluster's version.
func (r *Reconciler) fits(s *scope, st *standing) error {
	kubernetes := st.facts(s.addon.Namespace).KubernetesVersion
	if r.Versions == nil || kubernetes == "" {
		return nil
	}
	if err := r.Versions.CheckAddon(s.addon, kubernetes); err != nil {
		return fault.Stall(addonsv1.VersionUnsupportedReason, "Add-on %s: %w", s.addon.Name, err)
	}
	return nil
}

// takes checks that the chart takes the values.
func (r *Reconciler) takes(ctx context.Context, s *scope) error {
	if r.Charts == nil || s.addon.Spec.Helm == nil {
		return nil
	}
	for i, v := range s.addon.Spec.Helm.ValuesFrom {
		if err := r.Charts.CheckPath(ctx, s.addon.Spec.Helm.Chart, v.TargetPath); err != nil {
			return fault.Stall(addonsv1.InvalidTargetPathReason, "Add-on %s: helm.valuesFrom[%d].targetPath: %w", s.addon.Name, i, err)
		}
	}
	return nil
}

// versionsOf names everything that decides the rendering by its version.
func (r *Reconciler) versionsOf(ctx context.Context, s *scope, st *standing) (string, error) {
	facts := st.facts(s.addon.Namespace)
	from := []string{
		string(s.addon.UID), fmt.Sprint(s.addon.Generation), s.addon.Annotations[addonsv1.TriggerAnnotation],
		facts.KubernetesVersion, fmt.Sprint(render.Round(st.secret)),
	}
	add := func(kind, name, reason string) error {
		obj := metadata(kind)
		if err := r.Metadata.Get(ctx, client.ObjectKey{Namespace: s.addon.Namespace, Name: name}, obj); err != nil {
			if apierrors.IsNotFound(err) {
				return fault.Wait(reason, "%s %s does not exist", kind, name)
			}
			return fmt.Errorf("looking for %s %s: %w", kind, name, err)
		}
		from = append(from, kind, name, obj.ResourceVersion)
		return nil
	}
	if render.NeedsConnection(s.addon) {
		name, err := render.ConnectionSecretName(s.addon, facts)
		if err != nil {
			return "", err
		}
		if err := add("Secret", name, addonsv1.WaitingForConnectionSecretReason); err != nil {
			return "", err
		}
	}
	for _, m := range s.addon.Spec.Manifests {
		var err error
		switch {
		case m.ConfigMapRef != nil:
			err = add("ConfigMap", m.ConfigMapRef.Name, addonsv1.SourceNotFoundReason)
		case m.SecretRef != nil:
			err = add("Secret", m.SecretRef.Name, addonsv1.SourceNotFoundReason)
		}
		if err != nil {
			return "", err
		}
	}
	return strings.Join(from, "\x00"), nil
}

// full renders the add-on with its manifests.
func (r *Reconciler) full(ctx context.Context, s *scope, st *standing, round int) (*render.Rendered, error) {
	in := render.Input{
		Addon: s.addon, Cluster: st.facts(s.addon.Namespace), Round: round, Sources: map[string]map[string][]byte{},
	}
	if render.NeedsConnection(s.addon) {
		name, err := render.ConnectionSecretName(s.addon, in.Cluster)
		if err != nil {
			return nil, err
		}
		if in.Connection, err = r.secretData(ctx, s.addon.Namespace, name, addonsv1.WaitingForConnectionSecretReason); err != nil {
			return nil, err
		}
	}
	for _, m := range s.addon.Spec.Manifests {
		var err error
		switch {
		case m.ConfigMapRef != nil:
			in.Sources[m.Name], err = r.configMapData(ctx, s.addon.Namespace, m.ConfigMapRef.Name)
		case m.SecretRef != nil:
			in.Sources[m.Name], err = r.secretData(ctx, s.addon.Namespace, m.SecretRef.Name, addonsv1.SourceNotFoundReason)
		}
		if err != nil {
			return nil, err
		}
	}
	return render.Render(in)
}

func (r *Reconciler) secretData(ctx context.Context, namespace, name, reason string) (map[string][]byte, error) {
	var secret corev1.Secret
	if err := r.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &secret); err != nil {
		return nil, absent(err, reason, "Secret", name)
	}
	return secret.Data, nil
}

func (r *Reconciler) configMapData(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	var configMap corev1.ConfigMap
	if err := r.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &configMap); err != nil {
		return nil, absent(err, addonsv1.SourceNotFoundReason, "ConfigMap", name)
	}
	data := configMap.BinaryData
	if data == nil {
		data = map[string][]byte{}
	}
	for key, text := range configMap.Data {
		data[key] = []byte(text)
	}
	return data, nil
}

func absent(err error, reason, kind, name string) error {
	if apierrors.IsNotFound(err) {
		return fault.Wait(reason, "%s %s does not exist", kind, name)
	}
	return fmt.Errorf("reading %s %s: %w", kind, name, err)
}

// known is what was rendered for the cluster before.
func (r *Reconciler) known(s *scope, st *standing) *rendering {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.renderings[client.ObjectKeyFromObject(s.addon)][st.name]
}

func (r *Reconciler) keep(s *scope, st *standing) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := client.ObjectKeyFromObject(s.addon)
	if r.renderings[key] == nil {
		r.renderings[key] = map[string]*rendering{}
	}
	r.renderings[key][st.name] = st.rendered
}

// drop forgets what was rendered for a cluster, or for all of them.
func (r *Reconciler) drop(s *scope, cluster string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := client.ObjectKeyFromObject(s.addon)
	if cluster == "" {
		delete(r.renderings, key)
		return
	}
	delete(r.renderings[key], cluster)
}
