package crd

import (
	"os"
	"testing"

	. "github.com/onsi/gomega"
)

func TestDefinitions(t *testing.T) {
	g := NewWithT(t)
	files, err := os.ReadDir("bases")
	g.Expect(err).NotTo(HaveOccurred())

	definitions, err := Definitions()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(definitions).To(HaveLen(len(files)))
	for i, definition := range definitions {
		g.Expect(definition.Spec.Group + "_" + definition.Spec.Names.Plural + ".yaml").To(Equal(files[i].Name()))
		g.Expect(definition.Spec.Versions).NotTo(BeEmpty(), definition.Name)
	}
}
