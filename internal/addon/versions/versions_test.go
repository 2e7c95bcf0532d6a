package versions_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/appthrust/capt/addons"
	addonsv1 "github.com/appthrust/capt/api/addons/v1beta1"
	"github.com/appthrust/capt/internal/addon/versions"
	"github.com/appthrust/capt/internal/kubernetes/kubeversion"
)

func builtIn(t *testing.T) *versions.Matrix {
	t.Helper()
	m, err := versions.Default()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return m
}

func TestDefault_supportsTheKubernetesVersionsOfEachRowOnly(t *testing.T) {
	m := builtIn(t)
	for _, c := range m.Components {
		for _, r := range c.Rows {
			t.Run(c.Name+" "+r.From.String(), func(t *testing.T) {
				g := NewWithT(t)
				last := r.Kubernetes.Max
				if last == nil {
					last = &kubeversion.Minor{Major: 1, Minor: r.Kubernetes.Min.Minor + 20}
				}
				for minor := r.Kubernetes.Min.Minor; minor <= last.Minor; minor++ {
					g.Expect(m.Check(c.Name, r.From.String(), fmt.Sprintf("v1.%d.3", minor))).To(Succeed())
				}
				var unsupported *versions.UnsupportedError
				older := fmt.Sprintf("1.%d", r.Kubernetes.Min.Minor-1)
				g.Expect(errors.As(m.Check(c.Name, r.From.String(), older), &unsupported)).To(BeTrue())
				g.Expect(unsupported.Kubernetes).To(Equal(older))
				g.Expect(unsupported.Sources).To(Equal(r.Sources))
				if r.Kubernetes.Max != nil {
					newer := fmt.Sprintf("1.%d", last.Minor+1)
					g.Expect(errors.As(m.Check(c.Name, r.From.String(), newer), &unsupported)).To(BeTrue())
				}
			})
		}
	}
}

func TestDefault_hasContiguousRowsWithSources(t *testing.T) {
	for _, c := range builtIn(t).Components {
		for i, r := range c.Rows {
			g := NewWithT(t)
			g.Expect(r.From.LessThan(r.Until.Version)).To(BeTrue(), "%s: row %s is empty", c.Name, r.From)
			if i > 0 {
				g.Expect(c.Rows[i-1].Until).To(Equal(r.From), "%s: gap or overlap before %s", c.Name, r.From)
			}
			g.Expect(r.Sources).NotTo(BeEmpty())
			for _, source := range r.Sources {
				g.Expect(source).To(HavePrefix("https://"))
			}
		}
	}
}

func TestDefault_containsTheVersionsOfBuiltInAddons(t *testing.T) {
	m := builtIn(t)
	files, err := addons.Files.ReadDir(".")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	checked := 0
	for _, file := range files {
		if file.Name() == addons.VersionsFile {
			continue
		}
		t.Run(file.Name(), func(t *testing.T) {
			g := NewWithT(t)
			text, err := addons.Files.ReadFile(file.Name())
			g.Expect(err).NotTo(HaveOccurred())
			addon := &addonsv1.CAPTAddon{}
			g.Expect(yaml.UnmarshalStrict(text, addon)).To(Succeed())
			g.Expect(addon.Name).To(Equal(strings.TrimSuffix(file.Name(), ".yaml")))
			v := addon.Spec.Versions
			if v == nil || v.Matrix == "" {
				return
			}
			version := v.Version
			if addon.Spec.Helm != nil {
				version = addon.Spec.Helm.Chart.Version
			}
			for _, c := range m.Components {
				if c.Name == v.Matrix {
					g.Expect(c.Tested.String()).To(Equal(version))
					checked++
				}
			}
			g.Expect(m.Check(v.Matrix, version, "1.36")).To(Succeed())
		})
	}
	NewWithT(t).Expect(checked).To(Equal(len(m.Components)))
}

func TestCheck_namesSupportedVersions(t *testing.T) {
	tests := []struct{ component, version, kubernetes, want string }{
		{
			"karpenter", "1.0.8", "1.34",
			"Karpenter 1.0.8 supports Kubernetes 1.25 to 1.31, not 1.34: use Karpenter 1.6.4 or newer (1.14.1 supports Kubernetes 1.26 to 1.36)",
		},
		{
			"karpenter", "v1.0.8", "v1.34.2-eks-1a2b3c4",
			"Karpenter 1.0.8 supports Kubernetes 1.25 to 1.31, not 1.34: use Karpenter 1.6.4 or newer (1.14.1 supports Kubernetes 1.26 to 1.36)",
		},
		{
			"karpenter", "1.14.1", "1.37",
			"Karpenter 1.14.1 supports Kubernetes 1.26 to 1.36, not 1.37: no known Karpenter supports Kubernetes 1.37; 1.14.1 supports 1.26 to 1.36",
		},
		{
			"karpenter", "1.14.1", "1.25",
			"Karpenter 1.14.1 supports Kubernetes 1.26 to 1.36, not 1.25: use Karpenter 1.0.0 or newer, but older than 1.5.0",
		},
		{
			"karpenter", "1.6.3", "1.34",
			"Karpenter 1.6.3 supports Kubernetes 1.26 to 1.33, not 1.34: use Karpenter 1.6.4 or newer (1.14.1 supports Kubernetes 1.26 to 1.36)",
		},
		{
			"flux", "2.9.5", "1.32",
			"Flux 2.9.5 supports Kubernetes 1.33 to 1.36, not 1.32: no known Flux supports Kubernetes 1.32; 2.9.5 supports 1.33 to 1.36",
		},
		{
			"aws-load-balancer-controller", "3.2.2", "1.21",
			"AWS Load Balancer Controller 3.2.2 supports Kubernetes 1.22 or newer, not 1.21: " +
				"no known AWS Load Balancer Controller supports Kubernetes 1.21; 3.2.2 supports 1.22 or newer",
		},
	}
	m := builtIn(t)
	for _, tt := range tests {
		t.Run(tt.component+" "+tt.version+" on "+tt.kubernetes, func(t *testing.T) {
			g := NewWithT(t)
			err := m.Check(tt.component, tt.version, tt.kubernetes)
			var unsupported *versions.UnsupportedError
			g.Expect(errors.As(err, &unsupported)).To(BeTrue(), "got %v", err)
			g.Expect(err).To(MatchError(tt.want))
		})
	}
}

func TestCheck_namesTheNearestKnownVersion(t *testing.T) {
	tests := []struct{ component, version, want, nearest string }{
		{"karpentre", "1.14.1", `the version matrix has no "karpentre": did you mean karpenter?`, "karpenter"},
		{"cilium", "1.14.1", `the version matrix has no "cilium": it has flux, karpenter, aws-load-balancer-controller`, ""},
		{"karpenter", "0.37.0", "the version matrix has Karpenter from 1.0.0 until 1.15.0, not 0.37.0: the nearest known version is 1.0.0", "1.0.0"},
		{"karpenter", "2.0.0", "the version matrix has Karpenter from 1.0.0 until 1.15.0, not 2.0.0: the nearest known version is 1.14.1", "1.14.1"},
	}
	m := builtIn(t)
	for _, tt := range tests {
		t.Run(tt.component+" "+tt.version, func(t *testing.T) {
			g := NewWithT(t)
			err := m.Check(tt.component, tt.version, "1.36")
			var unknown *versions.UnknownError
			g.Expect(errors.As(err, &unknown)).To(BeTrue(), "got %v", err)
			g.Expect(unknown.Nearest).To(Equal(tt.nearest))
			g.Expect(err).To(MatchError(tt.want))
		})
	}
}

func TestCheck_refusesInvalidVersions(t *testing.T) {
	g := NewWithT(t)
	m := builtIn(t)
	g.Expect(m.Check("karpenter", "latest", "1.36")).To(MatchError(`"latest" is not a version: write one such as 1.14.1`))
	g.Expect(m.Check("karpenter", " 1.14.1", "1.36")).To(MatchError(ContainSubstring("is not a version")))
	g.Expect(m.Check("karpenter", "1.14", "1.36")).To(MatchError(ContainSubstring("is not a version")))
	g.Expect(m.Check("karpenter", "1.15.0-rc.1", "1.36")).To(MatchError(ContainSubstring("not 1.15.0-rc.1")), "a pre-release is in the row of its release")
	g.Expect(m.Check("karpenter", "1.14.0-rc.1+build", "1.36")).To(Succeed())
	g.Expect(m.Check("karpenter", "1.14.1", "latest")).To(MatchError(`"latest" is not a Kubernetes version: write one such as 1.36`))
}

func TestCheckRequired_requiresAFluxWithLiteralValues(t *testing.T) {
	m := builtIn(t)
	for _, component := range []string{"karpenter", "aws-load-balancer-controller"} {
		t.Run(component, func(t *testing.T) {
			g := NewWithT(t)
			version := map[string]string{"karpenter": "1.14.1", "aws-load-balancer-controller": "v3.2.2"}[component]
			needs, err := m.Requires(component, version)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(needs).To(HaveLen(1))
			g.Expect(m.CheckRequired(component, version, "flux", "2.9.5")).To(Succeed())
			g.Expect(m.CheckRequired(component, version, "flux", "v2.8.8")).To(MatchError(
				HaveSuffix(" requires Flux 2.9.0 or newer, and 2.8.8 is installed: " + needs[0].Why)))
		})
	}
	NewWithT(t).Expect(m.Requires("flux", "2.9.5")).To(BeEmpty())
}

func TestLoad_refusesAnInconsistentMatrix(t *testing.T) {
	const row = "{from: %s, until: %s, kubernetes: {min: '1.30', max: '1.31'}, sources: [https://example.com]}"
	matrix := func(rows ...string) string {
		return "components:\n- {name: a, title: A, tested: 1.0.0, rows: [" + strings.Join(rows, ", ") + "]}\n"
	}
	tests := map[string]struct{ text, want string }{
		"gap":               {matrix(fmt.Sprintf(row, "1.0.0", "1.1.0"), fmt.Sprintf(row, "1.2.0", "1.3.0")), "the row from 1.2.0 does not follow the one until 1.1.0"},
		"overlap":           {matrix(fmt.Sprintf(row, "1.0.0", "1.2.0"), fmt.Sprintf(row, "1.1.0", "1.3.0")), "the row from 1.1.0 does not follow the one until 1.2.0"},
		"empty":             {matrix(fmt.Sprintf(row, "1.0.0", "1.0.0")), "ends at 1.0.0, before it begins"},
		"turned":            {matrix("{from: 1.0.0, until: 1.1.0, kubernetes: {min: '1.32', max: '1.31'}, sources: [x]}"), "supports Kubernetes 1.32 to 1.31, which is an empty range"},
		"source":            {matrix("{from: 1.0.0, until: 1.1.0, kubernetes: {min: '1.32'}}"), "the row from 1.0.0 names no source"},
		"tested":            {matrix(fmt.Sprintf(row, "1.1.0", "1.2.0")), "the tested version 1.0.0 is in no row"},
		"no tested version": {"components:\n- {name: a, title: A, rows: [" + fmt.Sprintf(row, "1.0.0", "1.1.0") + "]}\n", "name, title, tested and rows are required"},
		"no name":           {"components:\n- {title: A, tested: 1.0.0, rows: [" + fmt.Sprintf(row, "1.0.0", "1.1.0") + "]}\n", "name, title, tested and rows are required"},
		"no title":          {"components:\n- {name: a, tested: 1.0.0, rows: [" + fmt.Sprintf(row, "1.0.0", "1.1.0") + "]}\n", "name, title, tested and rows are required"},
		"no rows":           {"components:\n- {name: a, title: A, tested: 1.0.0}\n", "name, title, tested and rows are required"},
		"no end":            {matrix("{from: 1.0.0, kubernetes: {min: '1.32'}, sources: [x]}"), "row 1 needs from and until"},
		"no minimum": {
			"components:\n- {name: a, title: A, tested: 1.0.0, requires: [{component: a}], rows: [" + fmt.Sprintf(row, "1.0.0", "1.1.0") + "]}\n",
			"a requires a without a version",
		},
		"field": {"componenst: []\n", `unknown field "componenst"`},
		"other": {
			"components:\n- {name: a, title: A, tested: 1.0.0, requires: [{component: b, from: 1.0.0}], rows: [" + fmt.Sprintf(row, "1.0.0", "1.1.0") + "]}\n",
			"a requires b, which is not a component",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := versions.Load([]byte(tt.text))
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(tt.want)))
		})
	}
}
