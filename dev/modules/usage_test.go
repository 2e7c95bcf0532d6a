package main

import "testing"

func TestUsageBlock_isTheFirstAfterTheHeading(t *testing.T) {
	readme := "# Module\n```hcl\nother\n```\n## Usage\n\n```hcl\na = 1\n```\n```hcl\nb = 1\n```\n"
	text, err := usageBlock(readme)
	if err != nil || text != "a = 1\n" {
		t.Errorf("got %q, %v", text, err)
	}
	for _, without := range []string{"# Module\n", "# Module\n## Usage\ntext\n"} {
		if _, err := usageBlock(without); err == nil {
			t.Errorf("%q has no usage", without)
		}
	}
}
