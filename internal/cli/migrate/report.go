package migrate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	addonrender "github.com/appthrust/capt/internal/addon/render"
	"github.com/appthrust/capt/internal/cluster/workspace"
)

// Restarts tells whether pods will be replaced.
type Restarts string

// Whether pods will be replaced.
const (
	RestartsNo       Restarts = "No"
	RestartsPossible Restarts = "Possible"
	RestartsUnknown  Restarts = "Unknown"
)

// Report is what will happen to one cluster, or what keeps it from happening.
type Report struct {
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	Template  string `json:"template,omitempty"`
	// Release is the release that changes hands.
	Release *Release    `json:"release,omitempty"`
	Stages  []StagePlan `json:"stages"`
	// DifferingValues are the paths of the chart's values that Flux will set to
	// something else than what runs now.
	DifferingValues []string `json:"differingValues,omitempty"`
	Restarts        Restarts `json:"restarts"`
	// Blockers keep the cluster from being touched.
	Blockers []string `json:"blockers,omitempty"`
	Notes    []string `json:"notes,omitempty"`
}

// Release is a Helm release in the workload cluster.
type Release struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Chart     string `json:"chart"`
	Version   string `json:"version"`
	Revision  int    `json:"revision"`
	// Pods is how many pods it runs.
	Pods int `json:"pods"`
	// ManagedByFlux tells whether Flux has a HelmRelease for it.
	ManagedByFlux bool `json:"managedByFlux"`
}

// StagePlan is one stage: done, or what it will do.
type StagePlan struct {
	Name Stage  `json:"name"`
	Done bool   `json:"done"`
	Text string `json:"text"`
}

// Next is the first stage that is not done.
func (r *Report) Next() Stage {
	for _, s := range r.Stages {
		if !s.Done {
			return s.Name
		}
	}
	return StageDone
}

func (r *Report) text(stage Stage) string {
	for _, s := range r.Stages {
		if s.Name == stage {
			return s.Text
		}
	}
	return ""
}

func (r *Report) block(format string, args ...any) {
	r.Blockers = append(r.Blockers, fmt.Sprintf(format, args...))
}

func (r *Report) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

func (w *world) report() *Report {
	r := &Report{Namespace: w.key.Namespace, Cluster: w.key.Name, Restarts: RestartsUnknown}
	if w.controlPlane != nil {
		r.Template = w.template()
	}
	if w.release != nil {
		pods := 0
		for _, of := range w.runs.Pods {
			pods += len(of)
		}
		r.Release = &Release{
			Namespace: w.release.Namespace, Name: w.release.Name, Chart: w.release.Chart.Metadata.Name,
			Version: w.release.Chart.Metadata.Version, Revision: w.release.Revision, Pods: pods, ManagedByFlux: w.managed != nil,
		}
	}
	return r
}

// forward plans the migration.
func (m *Migration) forward(w *world) *Report {
	r := w.report()
	if !m.sound(w, r) {
		return r
	}
	if w.addon == nil || w.addon.Spec.Helm == nil || w.flux == nil {
		r.block("the add-ons %s and %s are not both in namespace %s: install them, or name the directory with their files by --addons (make addons writes bin/addons)", m.Flux, m.Addon, w.key.Namespace)
		return r
	}
	release := w.addon.Spec.Helm.Namespace + "/" + w.releaseName()
	r.Stages = []StagePlan{
		{StageAddons, w.installed, fmt.Sprintf("make the add-ons %s and %s, which do not select the cluster yet", m.Flux, m.Addon)},
		{StageFlux, w.installed && w.ready(w.flux) == "", fmt.Sprintf("label the Cluster %s and wait until Flux runs in it", pairs(w.flux))},
		{StageForget, w.switched(m.To), fmt.Sprintf("change the template from %s to %s; the plan is applied only if it forgets the %s and destroys nothing", m.fromOf(w), m.To, releaseType)},
		{StageAdopt, w.installed && w.ready(w.addon) == "", fmt.Sprintf("label the Cluster %s; Flux adopts the release %s as it runs", pairs(w.addon), release)},
	}
	m.compare(w, r)
	m.blockForward(w, r)
	m.warn(w, r)
	return r
}

// sound finds what keeps a cluster from being touched at all.
func (m *Migration) sound(w *world, r *Report) bool {
	switch {
	case w.controlPlane == nil:
		r.block("its control plane is no CAPTControlPlane: only those can be migrated")
	case w.cluster.Spec.Paused != nil && *w.cluster.Spec.Paused:
		r.block("the Cluster is paused: unpause it")
	case !w.cluster.DeletionTimestamp.IsZero():
		r.block("the Cluster is being deleted")
	case w.workspace == nil:
		r.block("the control plane has no workspace yet: wait until it is ready")
	case w.template() != m.fromOf(w) && w.template() != m.To:
		r.block("it uses the template %s, neither %s nor %s: name the two by --from and --to", w.template(), m.fromOf(w), m.To)
	case w.unreachable != nil:
		r.block("the workload cluster cannot be reached: %v", w.unreachable)
	}
	return len(r.Blockers) == 0
}

// switched tells whether a template is applied, and nothing is left of the switch.
func (w *world) switched(to string) bool {
	_, pending := w.workspace.Annotations[approvalAnnotation]
	return w.template() == to && w.workspace.Spec.TemplateRef.Name == to && workspace.Outcome(w.workspace) == nil && !pending
}

func (m *Migration) blockForward(w *world, r *Report) {
	if w.to == nil {
		r.block("WorkspaceTemplate %s does not exist: apply it, for example templates/%s.yaml", m.To, m.To)
	}
	if w.template() != m.To {
		if ready := conditions.Get(w.controlPlane, infrav1.ReadyCondition); ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != w.controlPlane.Generation {
			r.block("the control plane is not ready: see `kubectl describe captcontrolplane %s`", w.controlPlane.Name)
		}
		if w.class != nil && w.class.variable == "" {
			r.block("%s", w.class.advice(m.To))
		}
		if dropped := m.dropped(w); w.class != nil && len(dropped) > 0 {
			r.block("the variables %s come from ClusterClass %s and are not of %s: take them out of the class first", strings.Join(dropped, ", "), w.class.name, m.To)
		}
	}
	for _, addon := range []*addonsv1.CAPTAddon{w.flux, w.addon} {
		if len(addon.Spec.ClusterSelector.MatchExpressions) > 0 && !selects(addon, w.cluster.Labels) {
			r.block("add-on %s selects clusters by expressions: give the Cluster the labels by hand", addon.Name)
		}
		if m.Versions != nil && w.facts().KubernetesVersion != "" {
			if err := m.Versions.CheckAddon(addon, w.facts().KubernetesVersion); err != nil {
				r.block("add-on %s: %v", addon.Name, err)
			}
		}
	}
	m.blockRelease(w, r)
	m.blockOutputs(w, r)
}

func (m *Migration) blockRelease(w *world, r *Report) {
	helm := w.addon.Spec.Helm
	switch {
	case w.release == nil && len(w.releases) > 0:
		r.block("the release runs as %s/%s, and add-on %s is about %s/%s: change helm.namespace and helm.releaseName of the add-on, or give the cluster one of its own",
			w.releases[0].Namespace, w.releases[0].Name, w.addon.Name, helm.Namespace, w.releaseName())
	case w.release == nil:
		r.block("no release of the chart %s runs in the cluster: there is nothing to migrate; label the Cluster %s to install it", helm.Chart.Name, pairs(w.addon))
	case w.release.Info.Status != "deployed" && w.managed == nil:
		r.block("the release %s/%s is %s: bring it to deployed first (helm history, helm rollback)", w.release.Namespace, w.release.Name, w.release.Info.Status)
	case !w.sameChart() && w.managed == nil && !m.AllowUpgrade:
		r.block("chart %s runs and add-on %s brings %s, so pods would be replaced: set helm.chart.version to %s for now and raise it as a second step, or pass --allow-upgrade",
			w.release.Chart.Metadata.Version, w.addon.Name, helm.Chart.Version, w.release.Chart.Metadata.Version)
	}
}

// blockOutputs asks for the outputs that the release needs: they are there, or
// the new template has them.
func (m *Migration) blockOutputs(w *world, r *Report) {
	for _, v := range w.addon.Spec.Helm.ValuesFrom {
		if _, found := w.connection[v.ValuesKey]; found || v.Default != nil || v.Optional != nil && *v.Optional {
			continue
		}
		if w.to != nil && w.template() != m.To {
			if len(w.to.Status.Outputs) == 0 || slices.ContainsFunc(w.to.Status.Outputs, func(o infrav1.DeclaredOutput) bool { return o.Name == v.ValuesKey }) {
				r.note("the output %s is not in Secret %s yet: it is looked for again before Flux adopts", v.ValuesKey, w.connectionSecret)
				continue
			}
		}
		r.block("add-on %s needs the output %s, which Secret %s does not have: add it to the template %s", w.addon.Name, v.ValuesKey, w.connectionSecret, m.To)
	}
}

// compare tells which values Flux will change.
func (m *Migration) compare(w *world, r *Report) {
	if w.release == nil {
		return
	}
	rendered, err := addonrender.Render(addonrender.Input{Addon: w.addon, Cluster: w.facts(), Connection: w.connection, Sources: map[string]map[string][]byte{}})
	if err != nil {
		r.note("which values differ is not known: %v", err)
		return
	}
	values, err := fluxValues(rendered)
	if err != nil {
		r.note("which values differ is not known: %v", err)
		return
	}
	own := w.release.Chart.Values
	r.DifferingValues = differences(overlay(own, w.release.Config), overlay(own, values))
	r.Restarts = RestartsPossible
	if len(r.DifferingValues) == 0 && w.sameChart() {
		r.Restarts = RestartsNo
	}
}

// sameChart tells whether the version that runs is the add-on's. Flux appends the
// digest of what it fetched.
func (w *world) sameChart() bool {
	runs, _, _ := strings.Cut(w.release.Chart.Metadata.Version, "+")
	brings, _, _ := strings.Cut(w.addon.Spec.Helm.Chart.Version, "+")
	return strings.TrimPrefix(runs, "v") == strings.TrimPrefix(brings, "v")
}

// warn says what else the labels do.
func (m *Migration) warn(w *world, r *Report) {
	after := maps.Clone(w.cluster.Labels)
	if after == nil {
		after = map[string]string{}
	}
	maps.Copy(after, w.flux.Spec.ClusterSelector.MatchLabels)
	maps.Copy(after, w.addon.Spec.ClusterSelector.MatchLabels)
	for i := range w.all {
		a := &w.all[i]
		if a.Name != m.Flux && a.Name != m.Addon && !selects(a, w.cluster.Labels) && selects(a, after) {
			r.note("the labels also bring the add-on %s: what it installs replaces objects of the same names", a.Name)
		}
	}
	if dropped := m.dropped(w); len(dropped) > 0 {
		r.note("the variables %s are not of %s and leave the control plane; a rollback puts them back", strings.Join(dropped, ", "), m.To)
	}
	if w.release != nil && !w.sameChart() {
		r.note("chart %s becomes %s when Flux adopts", w.release.Chart.Metadata.Version, w.addon.Spec.Helm.Chart.Version)
	}
	if r.Next() == StageDone {
		r.note("the cluster is migrated: nothing is left to do")
	}
}

// onlyOld are the variables that CAPT's own old template has and the new one has
// not.
var onlyOld = []string{"karpenter_values", "karpenter_additional_sets", ImportVariable}

// dropped are the variables of the control plane that the new template does not
// take.
func (m *Migration) dropped(w *world) []string {
	if w.template() == m.To {
		return nil
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(w.controlPlane.Spec.Variables)) {
		takes := !slices.Contains(onlyOld, name)
		if w.to != nil && len(w.to.Status.Variables) > 0 {
			takes = slices.ContainsFunc(w.to.Status.Variables, func(v infrav1.DeclaredVariable) bool { return v.Name == name })
		}
		if !takes {
			names = append(names, name)
		}
	}
	return names
}

// pairs are the labels that an add-on asks for.
func pairs(addon *addonsv1.CAPTAddon) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(addon.Spec.ClusterSelector.MatchLabels)) {
		all = append(all, key+"="+addon.Spec.ClusterSelector.MatchLabels[key])
	}
	return strings.Join(all, ",")
}
