package main

import "testing"

func TestSplit_separatesCRDs(t *testing.T) {
	crds, others := split("---\n# Flux\n---\nkind: Namespace\nname: a\n---\nkind: CustomResourceDefinition\nname: b\n---\nkind: Role\nkinds: x\n")
	if want := "kind: CustomResourceDefinition\nname: b\n"; crds != want {
		t.Errorf("definitions are %q, want %q", crds, want)
	}
	if want := "# Flux\n---\nkind: Namespace\nname: a\n---\nkind: Role\nkinds: x\n"; others != want {
		t.Errorf("the rest is %q, want %q", others, want)
	}
}
