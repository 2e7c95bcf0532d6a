package versions_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

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
				older := fmt.Sprintf("1.%d", r.Kubernetes.Min.Minor-1)
				g.Expect(m.Check(c.Name, r.From.String(), older)).To(MatchError(ContainSubstring(", not " + older)))
				if r.Kubernetes.Max != nil {
					newer := fmt.Sprintf("1.%d", last.Minor+1)
					g.Expect(m.Check(c.Name, r.From.String(), newer)).To(MatchError(ContainSubstring(", not " + newer)))
				}
			})
		}
	}
}

func TestDefault_isConsistent(t *testing.T) {
	m := builtIn(t)
	for _, c := range m.Components {
		g := NewWithT(t)
		g.Expect(c.Name).NotTo(BeEmpty())
		g.Expect(c.Title).NotTo(BeEmpty(), c.Name)
		g.Expect(c.Rows).NotTo(BeEmpty(), c.Name)
		for i, r := range c.Rows {
			g.Expect(r.From.LessThan(r.Until.Version)).To(BeTrue(), "%s: row %s is empty", c.Name, r.From)
			if i > 0 {
				g.Expect(c.Rows[i-1].Until).To(Equal(r.From), "%s: gap or overlap before %s", c.Name, r.From)
			}
			g.Expect(r.Kubernetes.Contains(r.Kubernetes.Min)).To(BeTrue(), "%s: row %s has an empty range", c.Name, r.From)
			g.Expect(r.Sources).NotTo(BeEmpty())
			for _, source := range r.Sources {
				g.Expect(source).To(HavePrefix("https://"))
			}
			for name, v := range r.Includes {
				_, err := m.Requires(name, v.String())
				g.Expect(err).NotTo(HaveOccurred(), "what %s %s includes is in the matrix", c.Name, r.From)
			}
		}
		requires, err := m.Requires(c.Name, c.Tested.String())
		g.Expect(err).NotTo(HaveOccurred(), "the tested version is in the matrix")
		for _, r := range requires {
			g.Expect(m.Names()).To(ContainElement(r.Component))
			g.Expect(r.From.Version).NotTo(BeNil())
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
	NewWithT(t).Expect(checked).To(Equal(len(m.Components)-1), "no add-on installs Helm, which is a part of Flux")
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
			"Flux 2.9.5 supports Kubernetes 1.33 to 1.36, not 1.32: use Flux 2.6.0 or newer, but older than 2.8.0",
		},
		{
			"flux", "2.9.5", "1.30",
			"Flux 2.9.5 supports Kubernetes 1.33 to 1.36, not 1.30: no known Flux supports Kubernetes 1.30; 2.9.5 supports 1.33 to 1.36",
		},
		{
			"helm", "4.2.4", "1.31",
			"Helm 4.2.4 supports Kubernetes 1.33 to 1.36, not 1.31: use Helm 4.0.0 or newer, but older than 4.1.0",
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
			NewWithT(t).Expect(m.Check(tt.component, tt.version, tt.kubernetes)).To(MatchError(tt.want))
		})
	}
}

func TestCheck_namesTheNearestKnownVersion(t *testing.T) {
	tests := []struct{ component, version, want string }{
		{"karpentre", "1.14.1", `the version matrix has no "karpentre": did you mean karpenter?`},
		{"cilium", "1.14.1", `the version matrix has no "cilium": it has helm, flux, karpenter, aws-load-balancer-controller`},
		{"karpenter", "0.37.0", "the version matrix has Karpenter from 1.0.0 until 1.15.0, not 0.37.0: the nearest known version is 1.0.0"},
		{"karpenter", "2.0.0", "the version matrix has Karpenter from 1.0.0 until 1.15.0, not 2.0.0: the nearest known version is 1.14.1"},
	}
	m := builtIn(t)
	for _, tt := range tests {
		t.Run(tt.component+" "+tt.version, func(t *testing.T) {
			g := NewWithT(t)
			err := m.Check(tt.component, tt.version, "1.36")
			var unknown *versions.UnknownError
			g.Expect(errors.As(err, &unknown)).To(BeTrue(), "got %v", err)
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

func TestCheckDependency_requiresAFluxThatHasWhatTheAddonUses(t *testing.T) {
	flux := func(version string) *addonsv1.CAPTAddon {
		addon := &addonsv1.CAPTAddon{Spec: addonsv1.CAPTAddonSpec{Versions: &addonsv1.AddonVersions{Matrix: "flux", Version: version}}}
		addon.Name = "fluxcd"
		return addon
	}
	chart := func(component, version, mode string) *addonsv1.CAPTAddon {
		return &addonsv1.CAPTAddon{Spec: addonsv1.CAPTAddonSpec{
			Versions: &addonsv1.AddonVersions{Matrix: component},
			Helm: &addonsv1.HelmRelease{
				Chart:      addonsv1.ChartSource{Version: version},
				ValuesFrom: []addonsv1.OutputValue{{ValuesKey: "region", TargetPath: "region", Mode: mode}},
			},
		}}
	}
	m := builtIn(t)
	for name, test := range map[string]struct {
		addon, dependency *addonsv1.CAPTAddon
		want              string
	}{
		"literal values":                {chart("karpenter", "1.14.1", "Literal"), flux("2.9.5"), ""},
		"literal values, older Flux":    {chart("karpenter", "1.14.1", "Literal"), flux("2.8.8"), "Karpenter 1.14.1 requires Flux 2.9.0 or newer, and add-on fluxcd installs 2.8.8: an older HelmRelease has no literal values: set mode: Parsed"},
		"literal is the default":        {chart("aws-load-balancer-controller", "3.2.2", ""), flux("2.6.4"), "AWS Load Balancer Controller 3.2.2 requires Flux 2.9.0 or newer"},
		"parsed values, older Flux":     {chart("karpenter", "1.14.1", "Parsed"), flux("2.6.4"), ""},
		"parsed values, too old a Flux": {chart("karpenter", "1.14.1", "Parsed"), flux("2.5.1"), "Karpenter 1.14.1 requires Flux 2.6.0 or newer"},
		"unknown version":               {chart("karpenter", "99.0.0", "Literal"), flux("2.9.5"), "the version matrix has Karpenter from"},
		"not a version":                 {chart("karpenter", "1.14.1", "Literal"), flux("latest"), `"latest" is not a version`},
		"another dependency":            {chart("karpenter", "1.14.1", "Literal"), chart("aws-load-balancer-controller", "3.2.2", ""), ""},
		"no component":                  {&addonsv1.CAPTAddon{}, flux("2.6.4"), ""},
		"dependency without component":  {chart("karpenter", "1.14.1", "Literal"), &addonsv1.CAPTAddon{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := m.CheckDependency(test.addon, test.dependency)
			if test.want == "" {
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
				return
			}
			NewWithT(t).Expect(err).To(MatchError(HavePrefix(test.want)))
		})
	}
	NewWithT(t).Expect(m.Requires("flux", "2.9.5")).To(BeEmpty())
}

// Every Kubernetes version that EKS offers has a Flux and a Karpenter, and the Helm in that
// Flux is in the matrix too.
func TestDefault_fitsEveryKubernetesVersionOfEKS(t *testing.T) {
	m := builtIn(t)
	newest, err := kubeversion.Parse(kubeversion.EKSDefault)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	offered := 0
	for minor := (kubeversion.Minor{Major: 1, Minor: 29}); !newest.Next().Less(minor); minor = minor.Next() {
		warning := kubeversion.EKSWarning(minor.String(), time.Date(2026, time.November, 16, 0, 0, 0, 0, time.UTC))
		if strings.HasPrefix(warning, "EKS no longer offers") || strings.HasPrefix(warning, "EKS ended its support") {
			continue
		}
		offered++
		t.Run(minor.String(), func(t *testing.T) {
			for _, component := range []string{"flux", "karpenter", "helm"} {
				NewWithT(t).Expect(fitting(m, component, minor)).NotTo(BeEmpty(), component)
			}
			for _, row := range fitting(m, "flux", minor) {
				NewWithT(t).Expect(row.Includes).To(HaveKey("helm"))
			}
		})
	}
	NewWithT(t).Expect(offered).To(BeNumerically(">=", 5))
}

func fitting(m *versions.Matrix, component string, kubernetes kubeversion.Minor) []versions.Row {
	var rows []versions.Row
	for _, c := range m.Components {
		for _, r := range c.Rows {
			if c.Name == component && r.Kubernetes.Contains(kubernetes) {
				rows = append(rows, r)
			}
		}
	}
	return rows
}
