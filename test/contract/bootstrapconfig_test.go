package contract

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "github.com/appthrust/capt/api/bootstrap/v1beta1"
	"github.com/appthrust/capt/internal/testenv/objecttest"
)

func TestBootstrapConfig_keepsTheContract(t *testing.T) {
	noExtension := notApplicable("CAPT has no Update Extension: Cluster API replaces Machines", servesNoExtension)
	walk(t, contract{page: "bootstrap-config.md", sum: "3b614a78a42c38bc", subject: captBootstrapConfig, sections: sections{
		"Contract rules for BootstrapConfig": {
			"SHOULD implement a BootstrapConfig resource using Kubernetes'": isCRD,
		},
		"All resources: APIVersion field value": {
			"MUST applies to both API group and": groupAndVersion,
		},
		"BootstrapConfig, BootstrapConfigList resource definition": {
			"MUST define a BootstrapConfig resource": all(isDefined, hasFields("spec", "status")),
		},
		"BootstrapConfig: data secret": {
			"MUST store generated bootstrap data into a":               all(hasFields("status.dataSecretName"), storesData),
			"must Use the API resource's status.dataSecretName for":    storesData,
			"must Have the label cluster.x-k8s.io/cluster-name set to": dataIsLabelled,
			"must Have a controller owner reference to":                dataIsOwned,
			"must Have a single key value containing":                  deviates("a user who sets spec.format gets the key format beside value, as templates may have to know it; else value is alone", dataHasOneKey),
			"must be deterministically recreatable from the data":      dataIsNamedAfterConfig,
			"MUST surface in the status.dataSecretName field of":       storesData,
		},
		"BootstrapConfig: initialization completed": {
			"MUST report when the bootstrap data secret": all(hasFields("status.initialization", "status.initialization.dataSecretCreated"), dataIsReported, dataStaysReported),
		},
		"BootstrapConfig: conditions": {
			"SHOULD implement status.conditions for their BootstrapConfig resource": configHasConditions,
			"is expected to surface the status of":                                  configReportsReadyAlways,
		},
		"BootstrapConfig: terminal failures": {
			"should be surfaced using conditions with a": configShowsFailure,
		},
		"BootstrapConfig: support for in-place changes": {
			"should consider following recommendations during implementation": noExtension,
			"should ignore in-place changes and do not":                       noExtension,
			"should allow changes to mutable fields in":                       noExtension,
		},
		"BootstrapConfigTemplate, BootstrapConfigTemplateList resource definition": {
			"MUST also add a corresponding BootstrapConfigTemplate resources": templateIsDefined,
			"MUST be named as <BootstrapConfig>Template":                      all(templateIsNamed, templateHasFields("spec", "spec.template", "spec.template.metadata", "spec.template.spec")),
			"MUST also add the corresponding list resource":                   listIsServed(subject.template),
			"MUST be named as <BootstrapConfigTemplate>List":                  listIsNamed(subject.template),
		},
		"BootstrapConfigTemplate: support for SSA dry run": {
			"MUST specifically implement support for SSA dry": letsTopologyTry,
		},
		"Sentinel file": {
			"must create /run/cluster-api/bootstrap-success.complete or C\\run\\cluster-api\\bootstrap-success.complete for Windows": deviates(
				"CAPT creates no bootstrap data: it passes on the user's data unchanged, and only the user knows how to write the file", storesData),
		},
		"Support for running multiple instances": {
			"SHOULD support the --namespace flag":    supportsNamespace,
			"SHOULD support the --watch-filter flag": supportsWatchFilter,
		},
		"BootstrapConfig: pausing": {
			"SHOULD implement the pause behaviour for every": pausesByBoth,
			"SHOULD surface the paused status of an":         showsPause,
		},
		"Typical BootstrapConfig reconciliation workflow": {
			"must respond to changes to its BootstrapConfig": dataIsRestored,
			"must watch for new updated and deleted":         all(storesData, dataIsRestored, configReportsReadyAlways),
		},
		"Behavior": {
			"must respond to changes to its bootstrap": dataIsRestored,
			"must watch for new updated and deleted":   all(storesData, dataIsRestored, configReportsReadyAlways),
		},
	}})
}

// storesData holds when the Secret that the config and the Machine refer to contains
// the data.
func storesData(c *check) {
	s := workers.in(c).working
	c.Expect(s.data.Name).To(Equal(s.config.Status.DataSecretName))
	c.Expect(s.data.Data).To(HaveKeyWithValue("value", []byte(s.config.Spec.UserData)))
	c.Expect(s.machine.Spec.Bootstrap.DataSecretName).To(HaveValue(Equal(s.data.Name)))
}

func dataIsLabelled(c *check) {
	c.Expect(workers.in(c).working.data.Labels).To(HaveKeyWithValue("cluster.x-k8s.io/cluster-name", "demo"))
}

func dataIsOwned(c *check) {
	s := workers.in(c).working
	c.Expect(metav1.IsControlledBy(s.data, s.config)).To(BeTrue())
}

// dataHasOneKey holds when there is a second key only if the user requested it.
func dataHasOneKey(c *check) {
	c.Expect(workers.in(c).working.data.Data).To(HaveLen(1))
	formatted := withoutInfrastructure.in(c).formatted.Data
	c.Expect(formatted).To(HaveLen(2))
	c.Expect(formatted).To(And(HaveKey("value"), HaveKeyWithValue("format", []byte("cloud-config"))))
}

// dataIsNamedAfterConfig holds when the name follows from the config alone, and a
// recreated Secret has the same name.
func dataIsNamedAfterConfig(c *check) {
	observed := workers.in(c)
	c.Expect(observed.working.config.Status.DataSecretName).To(Equal(observed.working.config.Name))
	c.Expect(observed.working.poolConfig.Status.DataSecretName).To(Equal(observed.working.poolConfig.Name))
	dataIsRestored(c)
}

// dataIsRestored holds when a deleted Secret was recreated with the same content.
func dataIsRestored(c *check) {
	observed := workers.in(c)
	c.Expect(observed.restored.Name).To(Equal(observed.scaled.data.Name))
	c.Expect(observed.restored.Data).To(Equal(observed.scaled.data.Data))
}

// dataIsReported holds when it is reported with the name, and by Cluster API.
func dataIsReported(c *check) {
	observed := workers.in(c)
	c.Expect(observed.working.config.Status.Initialization.DataSecretCreated).To(HaveValue(BeTrue()))
	c.Expect(observed.working.machine.Status.Initialization.BootstrapDataSecretCreated).To(HaveValue(BeTrue()))
	for _, version := range historyUntilDeleted(c.on(observed.harness), observed.scaled.config, emptyConfig) {
		if isTrue(version.Status.Initialization.DataSecretCreated) {
			c.Expect(version.Status.DataSecretName).NotTo(BeEmpty())
		}
	}
}

func dataStaysReported(c *check) {
	isNeverReset(c, workers.in(c).harness, emptyConfig, func(v *bootstrapv1.CAPTBootstrapConfig) *bool { return v.Status.Initialization.DataSecretCreated })
}

// configHasConditions also checks a failed config: Cluster API copies its Ready
// condition to the Machine.
func configHasConditions(c *check) {
	hasConditions(c, workers.in(c).working.config)
	i := withoutInfrastructure.in(c)
	ours := objecttest.Condition(i.blocked, clusterv1.ReadyCondition)
	theirs := objecttest.Condition(i.machine, clusterv1.MachineBootstrapConfigReadyCondition)
	c.Expect(objecttest.Text(theirs)).To(Equal(objecttest.Text(ours)))
}

func configReportsReadyAlways(c *check) {
	observed := workers.in(c)
	reportsReadyAlways(c, historyUntilDeleted(c.on(observed.harness), observed.scaled.config, emptyConfig))
}

func configShowsFailure(c *check) {
	i := withoutInfrastructure.in(c)
	condition := objecttest.Condition(i.blocked, bootstrapv1.DataSecretAvailableCondition)
	c.Expect(objecttest.Text(condition)).To(And(HavePrefix("False "+bootstrapv1.SecretConflictReason), ContainSubstring("Secret blocked")))
	lacks("status.failureReason", "status.failureMessage")(c)
}
