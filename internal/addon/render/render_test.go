package render

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	controlplanev1 "github.com/appthrust/capt/api/controlplane/v1beta1"
	infrav1 "github.com/appthrust/capt/api/infrastructure/v1beta1"
	"github.com/appthrust/capt/internal/kubernetes/manifest"
)

func karpenter() *addonsv1.CAPTAddon {
	return &addonsv1.CAPTAddon{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "karpenter", UID: "uid"},
		Spec: addonsv1.CAPTAddonSpec{Helm: &addonsv1.HelmRelease{
			Namespace: "karpenter",
			Chart:     addonsv1.ChartSource{Repository: "oci://public.ecr.aws/karpenter", Name: "karpenter", Version: "1.14.1"},
			Values:    &infrav1.Value{Raw: []byte(`{"replicas":2,"settings":{"batch":"${CLUSTER_NAME}"}}`)},
			ValuesFrom: []addonsv1.OutputValue{
				{ValuesKey: "cluster_name", TargetPath: "settings.clusterName"},
				{ValuesKey: "role", TargetPath: `serviceAccount.annotations.eks\.amazonaws\.com/role-arn`, Mode: "Parsed"},
				{ValuesKey: "queue", TargetPath: "settings.interruptionQueue", Default: new("none")},
				{ValuesKey: "extra", TargetPath: "settings.extra", Optional: new(true)},
			},
		}},
	}
}

func input(addon *addonsv1.CAPTAddon, connection map[string]string) Input {
	in := Input{Addon: addon, Cluster: Cluster{Name: "demo", Namespace: "fleet", KubernetesVersion: "v1.36.0"}, Connection: map[string][]byte{}}
	for key, value := range connection {
		in.Connection[key] = []byte(value)
	}
	return in
}

// rendered renders an add-on that is valid.
func rendered(g Gomega, in Input) *Rendered {
	r, err := Render(in)
	g.Expect(err).NotTo(HaveOccurred())
	return r
}

func objects(g Gomega, r *Rendered) map[string]*unstructured.Unstructured {
	found := map[string]*unstructured.Unstructured{}
	for _, text := range r.Data {
		parsed, err := manifest.Parse(text)
		g.Expect(err).NotTo(HaveOccurred())
		for _, obj := range parsed {
			found[obj.GetKind()] = obj
		}
	}
	return found
}

func TestRender_rendersAHelmRelease(t *testing.T) {
	g := NewWithT(t)
	hard := "a,b=\"{c}\"\nnull"
	r := rendered(g, input(karpenter(), map[string]string{"cluster_name": hard, "role": "arn:aws:iam::1:role/k", "unused": "secret"}))
	all := objects(g, r)
	g.Expect(all).To(HaveLen(4))
	g.Expect(all).To(HaveKey("Namespace"))

	data, _, _ := unstructured.NestedStringMap(all["Secret"].Object, "data")
	g.Expect(data).To(HaveLen(3), "only used outputs are copied, and the default")
	g.Expect(base64.StdEncoding.DecodeString(data["cluster_name"])).To(BeEquivalentTo(hard), "the value is unchanged")
	g.Expect(base64.StdEncoding.DecodeString(data["default-2"])).To(BeEquivalentTo("none"))
	g.Expect(all["Secret"].GetLabels()).To(HaveKeyWithValue("reconcile.fluxcd.io/watch", "Enabled"))

	from, _, _ := unstructured.NestedSlice(all["HelmRelease"].Object, "spec", "valuesFrom")
	g.Expect(from).To(HaveLen(3), "a missing optional output is omitted")
	g.Expect(from[0]).To(HaveKeyWithValue("literal", true))
	g.Expect(from[1]).NotTo(HaveKey("literal"))
	batch, _, _ := unstructured.NestedString(all["HelmRelease"].Object, "spec", "values", "settings", "batch")
	g.Expect(batch).To(Equal("demo"))
	url, _, _ := unstructured.NestedString(all["OCIRepository"].Object, "spec", "url")
	g.Expect(url).To(Equal("oci://public.ecr.aws/karpenter/karpenter"))
	for kind, obj := range all {
		g.Expect(obj.GetLabels()).To(HaveKeyWithValue(addonsv1.AddonLabel, "karpenter"), kind)
	}
	for key, text := range r.Data {
		g.Expect(len(text)).To(BeNumerically(">=", 32), "Cluster API requires 32 bytes in %s", key)
	}
}

// Flux records the token of the rendering that it reconciled.
func TestRender_changesTheTokenWithEachInput(t *testing.T) {
	g := NewWithT(t)
	values := map[string]string{"cluster_name": "a", "role": "b"}
	base := rendered(g, input(karpenter(), values))
	same := rendered(g, input(karpenter(), values))
	g.Expect(same.Hash).To(Equal(base.Hash))
	g.Expect(same.Release.Token).To(Equal(base.Release.Token))

	for name, in := range map[string]func() Input{
		"an output": func() Input { return input(karpenter(), map[string]string{"cluster_name": "c", "role": "b"}) },
		"a version": func() Input { a := karpenter(); a.Spec.Helm.Chart.Version = "1.14.0"; return input(a, values) },
		"a round":   func() Input { in := input(karpenter(), values); in.Round = 1; return in },
		"a trigger": func() Input {
			a := karpenter()
			a.Annotations = map[string]string{addonsv1.TriggerAnnotation: "now"}
			return input(a, values)
		},
	} {
		other := rendered(g, in())
		g.Expect(other.Hash).NotTo(Equal(base.Hash), name)
		g.Expect(other.Release.Token).NotTo(Equal(base.Release.Token), name)
	}
}

func TestConnectionSecretName(t *testing.T) {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "demo-vpc"}}
	controlPlane := &controlplanev1.CAPTControlPlane{}
	controlPlane.Status.WorkspaceRef = &infrav1.LocalReference{Name: "demo-vpc-1a2b3c4d"}
	controlPlane.Status.ConnectionSecretName = "outputs"
	for name, test := range map[string]struct {
		source       *addonsv1.ConnectionSource
		controlPlane *controlplanev1.CAPTControlPlane
		want         string
	}{
		"workspace":                 {&addonsv1.ConnectionSource{SecretName: addonsv1.DefaultConnectionSecret}, controlPlane, "demo-vpc-1a2b3c4d-eks-connection"},
		"no name":                   {nil, controlPlane, "outputs"},
		"other provider":            {&addonsv1.ConnectionSource{SecretName: addonsv1.DefaultConnectionSecret}, nil, "demo-vpc-eks-connection"},
		"other provider, no name":   {nil, nil, "demo-vpc-eks-connection"},
		"name without placeholders": {&addonsv1.ConnectionSource{SecretName: "mine"}, controlPlane, "mine"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			addon := karpenter()
			addon.Spec.Connection = test.source
			g.Expect(ConnectionSecretName(addon, ClusterOf(cluster, test.controlPlane))).To(Equal(test.want))
		})
	}
}

func TestRender_resolvesPlaceholdersInsideStrings(t *testing.T) {
	g := NewWithT(t)
	addon := &addonsv1.CAPTAddon{ObjectMeta: metav1.ObjectMeta{Name: "pool"}, Spec: addonsv1.CAPTAddonSpec{
		Connection: &addonsv1.ConnectionSource{Keys: []string{"tag"}},
		Manifests:  []addonsv1.ManifestSource{{Name: "m", Inline: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '${CLUSTER_NAME}'}\ndata: {tag: '${tag}', plain: '$${tag}'}\n"}},
	}}
	evil := "x\"}\nkind: Secret\n---\n"
	r := rendered(g, input(addon, map[string]string{"tag": evil}))
	g.Expect(r.Objects).To(HaveLen(1), "a value cannot become an object")
	data, _, _ := unstructured.NestedStringMap(objects(g, r)["ConfigMap"].Object, "data")
	g.Expect(data).To(Equal(map[string]string{"tag": evil, "plain": "${tag}"}))
	g.Expect(r.Objects[0].Name).To(Equal("demo"))
}

func TestRender_resolvesJSONAsTheWholeField(t *testing.T) {
	g := NewWithT(t)
	addon := &addonsv1.CAPTAddon{ObjectMeta: metav1.ObjectMeta{Name: "pool"}, Spec: addonsv1.CAPTAddonSpec{
		Connection: &addonsv1.ConnectionSource{Keys: []string{"terms"}},
		Manifests:  []addonsv1.ManifestSource{{Name: "m", Inline: "apiVersion: v1\nkind: Thing\nmetadata: {name: a}\nspec:\n  terms: \"${json:terms}\"\n  plain: ${terms}\n"}},
	}}
	const terms = `[{"id":"subnet-1","max":3},{"id":"subnet-2"}]`
	r := rendered(g, input(addon, map[string]string{"terms": terms}))
	g.Expect(objects(g, r)["Thing"].Object["spec"]).To(Equal(map[string]any{
		"terms": []any{map[string]any{"id": "subnet-1", "max": int64(3)}, map[string]any{"id": "subnet-2"}}, "plain": terms,
	}))
}

func TestRender_reportsInvalidInput(t *testing.T) {
	inline := func(text string, keys ...string) *addonsv1.CAPTAddon {
		return &addonsv1.CAPTAddon{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Spec: addonsv1.CAPTAddonSpec{
			Connection: &addonsv1.ConnectionSource{Keys: keys}, Manifests: []addonsv1.ManifestSource{{Name: "set", Inline: text}},
		}}
	}
	path := karpenter()
	path.Spec.Helm.ValuesFrom[0].TargetPath = "settings..clusterName"
	for name, test := range map[string]struct {
		addon *addonsv1.CAPTAddon
		want  string
	}{
		"a key":         {karpenter(), "MissingKey: Add-on karpenter: helm.valuesFrom[0] refers to key cluster_name, which Secret demo-eks-connection does not have: did you mean cluster_nam?"},
		"a path":        {path, "InvalidTargetPath: Add-on karpenter: helm.valuesFrom[0].targetPath"},
		"a placeholder": {inline("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '${CLUSTERNAME}'}\n"), "MissingKey: Add-on mine: manifests set: ConfigMap ${CLUSTERNAME}: ${CLUSTERNAME} has no value: did you mean ${CLUSTER_NAME}?"},
		"no object":     {inline("# nothing\n"), "Empty: Add-on mine: its manifests contain no objects"},
		"no YAML":       {inline("password: [hunter2\n"), "InvalidManifest: Add-on mine: manifests set: document 1: the YAML is invalid"},
		"no value":      {inline("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '${elsewhere}'}\n"), "MissingKey: Add-on mine: manifests set: ConfigMap ${elsewhere}: ${elsewhere} has no value: add it to connection.keys if it is an output"},
		"broken text":   {inline("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '${'}\n"), "InvalidManifest: Add-on mine: manifests set: ConfigMap ${:"},
		"not JSON":      {inline("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: '${json:cluster_nam}'\n", "cluster_nam"), "InvalidManifest: Add-on mine: manifests set: ConfigMap a: ${json:cluster_nam}: the value is not JSON: write ${cluster_nam} for a string"},
		"no JSON":       {inline("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: '${json:cluster}'\n"), "MissingKey: Add-on mine: manifests set: ConfigMap a: ${cluster} has no value"},
		"JSON in text":  {inline("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: 'x${json:cluster_nam}'\n", "cluster_nam"), "InvalidManifest: Add-on mine: manifests set: ConfigMap a: ${json:cluster_nam} (line 1) must be the whole string"},
		"too much":      {inline("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: " + strings.Repeat("x", 1<<20) + "}\n"), "TooLarge: Add-on mine: its manifests have more than 900 KiB, which is what a Secret holds"},
		"deeply nested": {inline("apiVersion: v1\nkind: A\nmetadata: {name: a}\nspec: " + strings.Repeat("{a: ", 1_900) + "1" + strings.Repeat("}", 1_900) + "\n"), "TooLarge: Add-on mine: its manifests have more than 900 KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Render(input(test.addon, map[string]string{"cluster_nam": "hunter2"}))
			g := NewWithT(t)
			g.Expect(err).To(MatchError(HavePrefix(test.want)))
			g.Expect(err.Error()).NotTo(ContainSubstring("hunter2"), "errors contain no value")
		})
	}
}

func TestRender_listsTheKeysOfTheSecret(t *testing.T) {
	g := NewWithT(t)
	addon := &addonsv1.CAPTAddon{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Spec: addonsv1.CAPTAddonSpec{
		Connection: &addonsv1.ConnectionSource{SecretName: "${CLUSTER_NAME}-outputs", Keys: []string{"endpoint"}},
	}}
	_, err := Render(input(addon, nil))
	g.Expect(err).To(MatchError("MissingKey: Add-on mine: connection.keys refers to key endpoint, which Secret demo-outputs does not have: add an output of that name to the template, or a default. The Secret has no keys"))

	many := map[string]string{}
	for key := range strings.SplitSeq("abcdefghijklmn", "") {
		many[key] = "hunter2"
	}
	_, err = Render(input(addon, many))
	g.Expect(err).To(MatchError(HaveSuffix("The Secret has a, b, c, d, e, f, g, h, i, j, k, l and 2 more")))

	addon.Spec.Connection.SecretName = "${CLUSTER}"
	_, err = Render(input(addon, nil))
	g.Expect(err).To(MatchError(HavePrefix("MissingKey: connection.secretName: ${CLUSTER} has no value")))
}

func TestNeedsConnection(t *testing.T) {
	for name, test := range map[string]struct {
		spec addonsv1.CAPTAddonSpec
		want bool
	}{
		"nothing":     {addonsv1.CAPTAddonSpec{}, false},
		"keys":        {addonsv1.CAPTAddonSpec{Connection: &addonsv1.ConnectionSource{Keys: []string{"a"}}}, true},
		"no keys":     {addonsv1.CAPTAddonSpec{Connection: &addonsv1.ConnectionSource{}}, false},
		"values":      {addonsv1.CAPTAddonSpec{Helm: &addonsv1.HelmRelease{ValuesFrom: []addonsv1.OutputValue{{}}}}, true},
		"chart alone": {addonsv1.CAPTAddonSpec{Helm: &addonsv1.HelmRelease{}}, false},
	} {
		NewWithT(t).Expect(NeedsConnection(&addonsv1.CAPTAddon{Spec: test.spec})).To(Equal(test.want), name)
	}
}

func TestRender_readsReferencedManifestsAsTheyAre(t *testing.T) {
	g := NewWithT(t)
	addon := &addonsv1.CAPTAddon{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Spec: addonsv1.CAPTAddonSpec{
		Manifests: []addonsv1.ManifestSource{{Name: "set"}, {Name: "empty"}},
	}}
	in := input(addon, nil)
	in.Sources = map[string]map[string][]byte{"set": {
		"b": []byte("apiVersion: v1\nkind: Secret\nmetadata: {name: b}\nstringData: {a: b}\n"),
		"a": []byte("apiVersion: v1\nkind: Secret\nmetadata: {name: '${CLUSTER_NAME}', labels: {x: kept}}\ndata: {a: Yg==}\n"),
	}}
	r := rendered(g, in)
	g.Expect(r.Data).To(HaveLen(1), "a source without objects has no text")
	g.Expect(r.Data).To(HaveKey("m00-set.yaml"))
	literal, other := identity("", "v1", "Secret", "", "${CLUSTER_NAME}"), identity("", "v1", "Secret", "", "b")
	g.Expect(r.Objects).To(Equal([]Object{literal, other}))
	g.Expect(r.Secrets).To(HaveLen(1), "the API server moves stringData to data")
	g.Expect(r.Secrets).To(HaveKey(literal))
	g.Expect(string(r.Data["m00-set.yaml"])).To(HavePrefix("# Rendered for Cluster demo by CAPTAddon mine, round 0.\n---\n"))
	g.Expect(string(r.Data["m00-set.yaml"])).To(ContainSubstring("x: kept"), "labels are kept")

	in.Sources["set"]["c"] = []byte("hunter2: [")
	_, err := Render(in)
	g.Expect(err).To(MatchError("InvalidManifest: Add-on mine: manifests set, key c: document 1: the YAML is invalid, see line 1"))
}

func TestRender_prefersTheObjectsOfManifests(t *testing.T) {
	g := NewWithT(t)
	addon := karpenter()
	addon.Spec.Manifests = []addonsv1.ManifestSource{{Name: "m", Inline: "apiVersion: v1\nkind: Namespace\nmetadata: {name: karpenter, labels: {own: 'yes'}}\n"}}
	r := rendered(g, input(addon, map[string]string{"cluster_name": "a", "role": "b"}))
	g.Expect(r.Objects).To(HaveLen(4), "one Namespace")
	g.Expect(objects(g, r)["Namespace"].GetLabels()).To(HaveKeyWithValue("own", "yes"))
}

func TestHash_isThatOfClusterAPI(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Hash(map[string][]byte{"b": []byte("2"), "a": []byte("1")})).To(Equal(Hash(map[string][]byte{"a": []byte("12")})))
	g.Expect(Hash(map[string][]byte{"a": []byte("12")})).To(Equal("sha256:6b51d431df5d7f141cbececcf79edf3dd861c3b4069f0b11661a3eefacbba918"))
}

func TestDataDigests_compareValues(t *testing.T) {
	g := NewWithT(t)
	secret := func(data map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"data": data}}
	}
	base := DataDigests(secret(map[string]any{"a": "YWFhYWFh", "b": "Yg=="}))
	g.Expect(base).To(HaveLen(2))
	g.Expect(DataDigests(secret(map[string]any{"a": "YWFh\nYWFh\n", "b": "Yg=="}))).To(Equal(base), "lines of base64 do not differ")
	g.Expect(DataDigests(secret(map[string]any{"a": "YWFhYWFh", "b": "Yw=="}))).NotTo(Equal(base))
	g.Expect(DataDigests(secret(map[string]any{"a": int64(1)}))).To(BeEmpty())
}

func TestDropData_keepsTheDigestsOnly(t *testing.T) {
	g := NewWithT(t)
	secret := &unstructured.Unstructured{Object: map[string]any{"kind": "Secret", "data": map[string]any{"password": "aHVudGVyMg=="}}}
	digests := DataDigests(secret)
	DropData(secret)
	DropData(secret)
	g.Expect(DataDigests(secret)).To(Equal(digests))
	g.Expect(fmt.Sprint(secret.Object)).NotTo(ContainSubstring("aHVudGVyMg"))
	g.Expect(validation.IsConfigMapKey(digestPrefix+"a")).NotTo(BeEmpty(), "a user cannot set it")
}
