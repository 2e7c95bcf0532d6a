package migrate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	addonrender "github.com/appthrust/capt/internal/addon/render"
	"github.com/appthrust/capt/internal/cluster/workspace"
)

// Restarts is the prediction whether pods will be replaced.
type Restarts string

// The predictions.
const (
	RestartsNo       Restarts = "No"
	RestartsPossible Restarts = "Possible"
	RestartsUnknown  Restarts = "Unknown"
)

// Report is what a migration or rollback will do to a cluster, or what blocks it.
type Report struct {
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	Template  string `json:"template,omitempty"`
	// Release is the release to migrate.
	Release *Release    `json:"release,omitempty"`
	Stages  []StagePlan `json:"stages"`
	// DifferingValues are the paths of the chart's values that Flux will change.
	DifferingValues []string `json:"differingValues,omitempty"`
	Restarts        Restarts `json:"restarts"`
	// Blockers are the reasons why the cluster cannot be migrated.
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
	// Pods is the number of its pods.
	Pods int `json:"pods"`
	// ManagedByFlux reports whether Flux has a HelmRelease for it.
	ManagedByFlux bool `json:"managedByFlux"`
}

// StagePlan is a stage and what it will do.
type StagePlan struct {
	Name Stage  `json:"name"`
	Done bool   `json:"done"`
	Text string `json:"text"`
}

// Next returns the first stage that is not done.
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

func (s *clusterState) newReport() *Report {
	r := &Report{Namespace: s.key.Namespace, Cluster: s.key.Name, Restarts: RestartsUnknown}
	if s.controlPlane != nil {
		r.Template = s.templateName()
	}
	if s.release != nil {
		r.Release = &Release{
			Namespace: s.release.Namespace, Name: s.release.Name, Chart: s.release.Chart.Metadata.Name,
			Version: s.release.Chart.Metadata.Version, Revision: s.release.Revision, Pods: s.running.pods(), ManagedByFlux: s.fluxRelease != nil,
		}
	}
	return r
}

// planMigration decides what a migration of the cluster will do.
func (m *Migration) planMigration(s *clusterState) *Report {
	r := s.newReport()
	if !m.checkCluster(s, r) {
		return r
	}
	if s.addon == nil || s.addon.Spec.Helm == nil || s.flux == nil {
		r.block("add-ons %s and %s must both exist in namespace %s: install them, or pass the directory of their files with --addons (make addons writes bin/addons)", m.Flux, m.Addon, s.key.Namespace)
		return r
	}
	r.Stages = []StagePlan{
		{StageAddons, s.addonsExist, fmt.Sprintf("create the add-ons %s and %s, which do not select the cluster yet", m.Flux, m.Addon)},
		{StageFlux, s.addonsExist && s.addonPending(s.flux) == "", fmt.Sprintf("label the Cluster %s and wait until Flux is running in it", labelPairs(s.flux))},
		{StageForget, s.hasApplied(m.To), fmt.Sprintf("change the template from %s to %s; the plan is applied only if it forgets the %s and destroys nothing", m.oldTemplateName(s), m.To, releaseType)},
		{StageAdopt, s.addonsExist && s.addonPending(s.addon) == "", fmt.Sprintf("label the Cluster %s; Flux adopts the running release %s", labelPairs(s.addon), s.releaseID())},
	}
	m.compareValues(s, r)
	m.blockMigration(s, r)
	m.addNotes(s, r)
	return r
}

// checkCluster reports whether the cluster can be migrated or rolled back at all,
// and adds what blocks it.
func (m *Migration) checkCluster(s *clusterState, r *Report) bool {
	switch {
	case s.controlPlane == nil:
		r.block("the control plane is not a CAPTControlPlane")
	case s.cluster.Spec.Paused != nil && *s.cluster.Spec.Paused:
		r.block("the Cluster is paused: unpause it")
	case !s.cluster.DeletionTimestamp.IsZero():
		r.block("the Cluster is being deleted")
	case s.workspace == nil:
		r.block("the control plane has no workspace yet: wait until it is ready")
	case s.templateName() != m.oldTemplateName(s) && s.templateName() != m.To:
		r.block("the control plane uses template %s, neither %s nor %s: pass the old and the new template with --from and --to", s.templateName(), m.oldTemplateName(s), m.To)
	case s.unreachable != nil:
		r.block("the workload cluster is unreachable: %v", s.unreachable)
	}
	return len(r.Blockers) == 0
}

// hasApplied reports whether the workspace has applied a template and has its own
// approval mode again.
func (s *clusterState) hasApplied(template string) bool {
	_, approvalChanged := s.workspace.Annotations[approvalAnnotation]
	return s.templateName() == template && s.workspace.Spec.TemplateRef.Name == template && workspace.Outcome(s.workspace) == nil && !approvalChanged
}

func (m *Migration) blockMigration(s *clusterState, r *Report) {
	if s.newTemplate == nil {
		r.block("WorkspaceTemplate %s does not exist: apply it, for example templates/%s.yaml", m.To, m.To)
	}
	if s.templateName() != m.To {
		if ready := conditions.Get(s.controlPlane, infrav1.ReadyCondition); ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != s.controlPlane.Generation {
			r.block("the control plane is not ready: see `kubectl describe captcontrolplane %s`", s.controlPlane.Name)
		}
		if s.class != nil && s.class.variable == "" {
			r.block("%s", s.class.advice(m.To))
		}
		if dropped := m.droppedVariables(s); s.class != nil && len(dropped) > 0 {
			r.block("ClusterClass %s sets the variables %s, which template %s does not declare: remove them from the class", s.class.name, strings.Join(dropped, ", "), m.To)
		}
	}
	for _, addon := range []*addonsv1.CAPTAddon{s.flux, s.addon} {
		if len(addon.Spec.ClusterSelector.MatchExpressions) > 0 && !addon.Selects(s.cluster.Labels) {
			r.block("add-on %s selects clusters by expressions: label the Cluster yourself", addon.Name)
		}
		if version := s.renderCluster().KubernetesVersion; m.Versions != nil && version != "" {
			if err := m.Versions.CheckAddon(addon, version); err != nil {
				r.block("add-on %s: %v", addon.Name, err)
			}
		}
	}
	m.blockRelease(s, r)
	m.blockOutputs(s, r)
}

func (m *Migration) blockRelease(s *clusterState, r *Report) {
	helm := s.addon.Spec.Helm
	switch {
	case s.release == nil && len(s.releases) > 0:
		r.block("the running release is %s/%s, but add-on %s installs %s: change helm.namespace and helm.releaseName of the add-on, or create another add-on for this cluster",
			s.releases[0].Namespace, s.releases[0].Name, s.addon.Name, s.releaseID())
	case s.release == nil:
		r.block("the cluster has no release of chart %s to migrate: label the Cluster %s to install one", helm.Chart.Name, labelPairs(s.addon))
	case s.release.Info.Status != "deployed" && s.fluxRelease == nil:
		r.block("release %s/%s has status %s: bring it to status deployed first (helm history, helm rollback)", s.release.Namespace, s.release.Name, s.release.Info.Status)
	case !s.sameChart() && s.fluxRelease == nil && !m.AllowUpgrade:
		r.block("chart version %[1]s is running and add-on %[2]s installs %[3]s, which replaces pods: set helm.chart.version to %[1]s and upgrade after the migration, or pass --allow-upgrade",
			s.release.Chart.Metadata.Version, s.addon.Name, helm.Chart.Version)
	}
}

// blockOutputs adds a blocker for each output that the release needs and that
// neither the connection Secret nor the new template has.
func (m *Migration) blockOutputs(s *clusterState, r *Report) {
	for _, key := range requiredOutputs(s.addon) {
		if _, found := s.connection[key]; found {
			continue
		}
		if s.newTemplate != nil && s.templateName() != m.To {
			outputs := s.newTemplate.Status.Outputs
			if len(outputs) == 0 || slices.ContainsFunc(outputs, func(o infrav1.DeclaredOutput) bool { return o.Name == key }) {
				r.note("output %s is not in Secret %s yet: it is checked again before Flux adopts the release", key, s.connectionSecret)
				continue
			}
		}
		r.block("add-on %s needs output %s, which is not in Secret %s: add it to template %s", s.addon.Name, key, s.connectionSecret, m.To)
	}
}

// requiredOutputs returns the outputs without which the add-on is not installed.
func requiredOutputs(addon *addonsv1.CAPTAddon) []string {
	var keys []string
	if addon.Spec.Connection != nil {
		keys = slices.Clone(addon.Spec.Connection.Keys)
	}
	for _, v := range addon.Spec.Helm.ValuesFrom {
		optional := v.Default != nil || v.Optional != nil && *v.Optional
		if !optional && !slices.Contains(keys, v.ValuesKey) {
			keys = append(keys, v.ValuesKey)
		}
	}
	return keys
}

// compareValues adds the values that Flux will change.
func (m *Migration) compareValues(s *clusterState, r *Report) {
	if s.release == nil {
		return
	}
	rendered, err := addonrender.Render(addonrender.Input{Addon: s.addon, Cluster: s.renderCluster(), Connection: s.connection, Sources: map[string]map[string][]byte{}})
	if err != nil {
		r.note("values cannot be compared: %v", err)
		return
	}
	values, err := fluxValues(rendered)
	if err != nil {
		r.note("values cannot be compared: %v", err)
		return
	}
	defaults := s.release.Chart.Values
	r.DifferingValues = differences(overlay(defaults, s.release.Config), overlay(defaults, values))
	r.Restarts = RestartsPossible
	if len(r.DifferingValues) == 0 && s.sameChart() {
		r.Restarts = RestartsNo
	}
}

// sameChart reports whether the running chart version is the add-on's. Flux appends
// the digest of the chart to the version, which does not count.
func (s *clusterState) sameChart() bool {
	running, _, _ := strings.Cut(s.release.Chart.Metadata.Version, "+")
	desired, _, _ := strings.Cut(s.addon.Spec.Helm.Chart.Version, "+")
	return strings.TrimPrefix(running, "v") == strings.TrimPrefix(desired, "v")
}

// addNotes adds the side effects of the migration.
func (m *Migration) addNotes(s *clusterState, r *Report) {
	after := maps.Clone(s.cluster.Labels)
	if after == nil {
		after = map[string]string{}
	}
	maps.Copy(after, s.flux.Spec.ClusterSelector.MatchLabels)
	maps.Copy(after, s.addon.Spec.ClusterSelector.MatchLabels)
	for i := range s.addons {
		a := &s.addons[i]
		if a.Name != m.Flux && a.Name != m.Addon && !a.Selects(s.cluster.Labels) && a.Selects(after) {
			r.note("the labels also select add-on %s, which replaces existing objects of the same names", a.Name)
		}
	}
	if dropped := m.droppedVariables(s); len(dropped) > 0 {
		r.note("template %s does not declare the variables %s, which are removed from the control plane; a rollback restores them", m.To, strings.Join(dropped, ", "))
	}
	if s.release != nil && !s.sameChart() {
		r.note("chart version %s becomes %s when Flux adopts the release", s.release.Chart.Metadata.Version, s.addon.Spec.Helm.Chart.Version)
	}
	if r.Next() == StageDone {
		r.note("the cluster is migrated: nothing to do")
	}
}

// oldVariables are the variables that only the old one of CAPT's own templates
// declares.
var oldVariables = []string{"karpenter_values", "karpenter_additional_sets", ImportVariable}

// droppedVariables returns the variables of the control plane that the new template
// does not declare.
func (m *Migration) droppedVariables(s *clusterState) []string {
	if s.templateName() == m.To {
		return nil
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(s.controlPlane.Spec.Variables)) {
		declared := !slices.Contains(oldVariables, name)
		if s.newTemplate != nil && len(s.newTemplate.Status.Variables) > 0 {
			declared = slices.ContainsFunc(s.newTemplate.Status.Variables, func(v infrav1.DeclaredVariable) bool { return v.Name == name })
		}
		if !declared {
			names = append(names, name)
		}
	}
	return names
}

// labelPairs returns the labels by which an add-on selects clusters, as
// key=value,key=value.
func labelPairs(addon *addonsv1.CAPTAddon) string {
	return labels.Set(addon.Spec.ClusterSelector.MatchLabels).String()
}
